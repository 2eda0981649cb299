"""Recognises requests that failed, which are no captions but missing; and answers of models that saw no image.

The forms are those of `request_forms`. Few captions begin as one of them, so only those are looked at.
"""

import collections
import functools
import itertools
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from xmcap import wording
from xmcap.errors import UsageError
from xmcap.reading.request_forms import ANSWERS, FORMS
from xmcap.terminal import shown

_EXAMPLE = 60  # characters
_LONGEST = 80  # characters of a beginning
WIDTH = 3
"""How many characters at the beginning say whether an answer needs to be looked at."""

_MARKS = ' \n\t"'  # that may stand before an answer

Rule = tuple[str, tuple[str, ...], str]
"""A name, how answers begin, in lower case, and a regular expression."""


def _by_head(rules: Iterable[tuple[str, str, str]]) -> dict[str, list[Rule]]:
  """Returns the first characters of an answer -> the rules of answers that may begin so."""
  heads: dict[str, list[Rule]] = {}
  for name, begins, follows in rules:
    literals = begins.split("|")
    whole = follows[1:] if follows[:1] == "^" else f"(?:{'|'.join(map(re.escape, literals))}){follows}"
    rule = name, tuple(text.lower() for text in literals), whole
    changes = (str,) if "(?-i:" in follows[:6] else (str, str.lower, str.upper)
    cased = {change(text[:WIDTH]) for text in literals for change in changes}
    cased |= {head.replace("'", "\u2019") for head in cased}
    for head in cased | {mark + head[: WIDTH - 1] for head in cased for mark in _MARKS}:
      heads.setdefault(head, []).append(rule)
  return heads


HEADS = _by_head(FORMS)
"""First characters of an answer -> the forms of failed requests that may begin so."""

_ANSWER_HEADS = _by_head(ANSWERS)


class Failed(str):
  """What stands where an answer would.

  Attributes:
    form: whose form it is.
    place: where it stands, for messages; "" in memory.
  """

  form: str
  place: str = ""

  def __new__(cls, text: str, form: str) -> "Failed":
    """Returns the text with its form."""
    made = super().__new__(cls, text)
    made.form = form
    return made


References = Mapping[str, Mapping[str, Iterable[str]]]
Unseen = dict[str, list[tuple[str, str]]]
"""`UNSEEN` or `REFUSAL` -> language code and image key of each such answer."""

Failures = dict[str, dict[str, Failed]]
"""Image key -> language code -> what stands where an answer would."""


def judged(text: str) -> str:
  """Returns a text, as `Failed` if it has a form of a failed request."""
  name = form(text)
  return Failed(text, name) if name and not isinstance(text, Failed) else text


def form(text: str) -> str:
  """Returns whose form of a failed request a text is; "" for an answer."""
  return _first(text, HEADS)


def unseen(text: str) -> str:
  """Returns `no picture seen` if a model says so, `a refusal` if it refuses, else ""."""
  return _first(text, _ANSWER_HEADS)


def value(item: Any) -> Failed | None:
  """Returns what stands in a file where a text would, as a failed request: null, NaN or an error; None for others."""
  if item is None or item != item:
    return Failed("null", "no answer")
  if isinstance(item, dict) and ("error" in item or "error" in (item.get("type"), item.get("object"))):
    error = item.get("error") or item
    text = error.get("message") or error.get("code") if isinstance(error, dict) else error
    return Failed(text if isinstance(text, str) else json.dumps(error), "an error object")
  return None


def apart(predictions: dict[str, dict[str, str]]) -> Failures:
  """Takes the failed requests out of predictions, and returns them."""
  flat = itertools.chain.from_iterable(of_image.values() for of_image in predictions.values())
  if Failed not in set(map(type, flat)):
    return {}
  failures: Failures = {}
  for key, of_image in list(predictions.items()):
    failed = {language: caption for language, caption in of_image.items() if isinstance(caption, Failed)}
    if failed:
      failures[key] = failed
      predictions[key] = {
        language: caption for language, caption in of_image.items() if language not in failed
      }
      if not predictions[key]:
        del predictions[key]
  return failures


def split(
  references: References, predictions: dict[str, dict[str, str]]
) -> tuple[dict[str, dict[str, str]], Failures]:
  """Returns predictions without requests that failed, and these; a form that references of the image have is none."""
  failures: Failures = getattr(predictions, "failed", {})
  if not hasattr(predictions, "failed"):  # those that were read know theirs
    for key, of_image in predictions.items():
      for language, caption in of_image.items():
        if caption[:WIDTH] in HEADS and (name := form(caption)):
          failures.setdefault(key, {})[language] = Failed(caption, name)
  if not failures:
    return predictions, failures
  answered, unanswered = dict(predictions), {}
  for key, failed in failures.items():
    usual = {
      language: {form(text) for text in references.get(key, {}).get(language, ())} for language in failed
    }
    captions = {language: str(text) for language, text in failed.items() if text.form in usual[language]}
    if len(captions) < len(failed):
      unanswered[key] = {language: text for language, text in failed.items() if language not in captions}
    others = {language: text for language, text in predictions.get(key, {}).items() if language not in failed}
    answered[key] = others | captions
  return answered, unanswered


def refuse(failures: Failures, total: int, where: str) -> None:
  """Raises UsageError if there are any, where no caption may be missing."""
  if pairs := [
    (language, key, text) for key, failed in failures.items() for language, text in failed.items()
  ]:
    raise UsageError(f"{where}: {count(pairs, total)}; ask for them again, or leave them out")


def count(failures: Sequence[tuple[str, str, Failed]], total: int) -> str:
  """Returns how many of all predictions are requests (language, key, failed) that failed, for a message."""
  have = "is a request" if len(failures) == 1 else "are requests"
  return f"{len(failures):,} of {total:,} predictions {have} that failed: {summary(failures)}"


def summary(failures: Sequence[tuple[str, str, Failed]], places: bool = True) -> str:
  """Returns the forms of failed requests (language, key, failed), each with an example and its places or counts."""
  by_form: dict[str, list[tuple[str, str, Failed]]] = {}
  for item in failures:
    by_form.setdefault(item[2].form, []).append(item)
  parts = []
  for name, items in by_form.items():
    where = [
      f"{f'{failed.place}: ' if failed.place else ''}{language} {key}" for language, key, failed in items
    ]
    listed = wording.first_few(where) if places else by_language(items)
    parts.append(f"{len(items):,} '{shown(items[0][2], limit=_EXAMPLE)}' ({name}; {listed})")
  return "; ".join(parts)


def find_unseen(
  references: References, predictions: Mapping[str, Mapping[str, str]], languages: Collection[str]
) -> Unseen:
  """Returns what `unseen` returns -> (language, key) of such answers, unless references of the image say so, too."""
  answers: Unseen = {}
  heads, width = _ANSWER_HEADS, WIDTH
  for key, of_image in predictions.items():
    for language, text in of_image.items():
      if text[:width] not in heads or language not in languages:
        continue
      name = unseen(text)
      if name and name not in map(unseen, references.get(key, {}).get(language, ())):
        answers.setdefault(name, []).append((language, key))
  return answers


def unseen_notes(answers: Unseen, predictions: Mapping[str, Mapping[str, str]], total: int) -> list[str]:
  """Returns a note for each kind of the answers that `find_unseen` found among `total` predictions."""
  notes = []
  for name, pairs in answers.items():
    language, key = pairs[0]
    example = shown(predictions[key][language], limit=_EXAMPLE)
    counted = f"{len(pairs):,} of {total:,} captions: {name}"
    notes.append(f"{counted}, such as '{example}'; scored as they are: {by_language(pairs)}")
  return notes


def by_language(pairs: Iterable[tuple[str, ...]]) -> str:
  """Returns the number of items that begin with a language, such as `en 3, th 1`."""
  counts = collections.Counter(pair[0] for pair in pairs)
  return ", ".join(f"{language} {counts[language]:,}" for language in sorted(counts))


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
  return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _first(text: str, heads: Mapping[str, Sequence[Rule]]) -> str:
  """Returns the name of the first rule that an answer has; regular expressions are for those that begin as theirs."""
  begin = text[:_LONGEST].lstrip(_MARKS).replace("\u2019", "'").lower()
  rules = [rule for rule in heads.get(text[:WIDTH], ()) if begin.startswith(rule[1])]
  if not rules:
    return ""
  text = text.strip(_MARKS).replace("\u2019", "'")
  return next((name for name, _, pattern in rules if _compiled(pattern).match(text)), "")
