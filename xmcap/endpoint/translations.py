"""Whether an answer is a translation, and what chat models write instead of one or around it.

No references say what is usual here, so an answer is compared with the text that it should translate.
"""

import collections
import re
from collections.abc import Sequence
from typing import NamedTuple

from xmcap.ranked.prompts import PLACE
from xmcap.reading import failed_requests
from xmcap.scoring import residue
from xmcap.scoring.health import scripts

_KINDS = tuple(kind for kind in residue.KINDS if kind not in ("prefix", "suffix", "lines"))
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d", "\u201e": "\u201c\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb",
           "\u300c": "\u300d", "\u300e": "\u300f"}  # fmt: skip
_INTRODUCTION = re.compile(
  r"[^:\uff1a]{1,80}(?:\uff1a|:(?!\w))\s*\S"
)  # a colon at the end is Armenian's full stop
_NAME = 2  # words: a text of so many may be the same in another language, such as "Pizza"
_TIMES, _MORE = 4, 40  # characters; Chinese grows threefold in Latin letters

EQUAL = "equal to the text, as a name may be: kept"


class Judged(NamedTuple):
  """Answers in a language.

  Attributes:
    texts: the translations in their order; "" for an answer that is none.
    whys: why it is none, `EQUAL`, or "".
    cleaned: kind of residue, or `quotes` -> how many answers lost it.
  """

  texts: list[str]
  whys: list[str]
  cleaned: collections.Counter[str]


def judge(
  sources: Sequence[str], answers: Sequence[str], language: str, source_language: str = "en"
) -> Judged:
  """Returns what the answers are as translations of texts into a language.

  An answer in the script of the texts is none if the language has another. Residue is removed, and so are quotation
  marks around an answer whose text has none.
  """
  # No file of captions can hold half a character, which some servers send; U+FFFD takes its place.
  whole = [answer.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip() for answer in answers]
  result = residue.clean(whole, (), _KINDS)
  cleaned = collections.Counter({kind: len(rows) for kind, rows in result.rows.items()})
  texts = [text.strip() for text in result.captions]
  for row, (source, text) in enumerate(zip(sources, texts, strict=True)):
    if len(text) > 2 and text[-1] in _QUOTES.get(text[0], "") and source.strip()[:1] not in _QUOTES:
      texts[row] = text[1:-1].strip()
      cleaned["quotes"] += 1
  _, own = scripts.count_letters(texts, language)
  _, theirs = scripts.count_letters(texts, source_language)
  whys = [
    _why(source, text, bool(in_theirs and not in_own), language)
    for source, text, in_own, in_theirs in zip(sources, texts, own, theirs, strict=True)
  ]
  kept = [text if why in ("", EQUAL) else "" for text, why in zip(texts, whys, strict=True)]
  return Judged(kept, whys, cleaned)


def _why(source: str, text: str, in_its_script: bool, language: str) -> str:
  """Why a text is no translation of another, `EQUAL`, or ""."""
  if not text:
    return "empty"
  if " ".join(text.casefold().split()) == " ".join(source.casefold().split()):
    return EQUAL if len(source.split()) <= _NAME else "equal to the text"
  if failed := failed_requests.form(text) or failed_requests.unseen(text):
    return f"no answer ({failed})"
  if PLACE in source and text.count(PLACE) != 1:
    return "without the placeholder"
  if any(end in text and end not in source for end in residue.LINE_ENDS):
    return "several lines"
  if _INTRODUCTION.match(text) and not _INTRODUCTION.match(source):
    return "an introduction, which ends in a colon"
  if len(text) > _TIMES * len(source) + _MORE:
    return "too long for a translation"
  return f"no letter of the script of '{language}'" if in_its_script else ""
