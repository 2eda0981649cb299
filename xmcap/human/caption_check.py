"""Captions without references: which of several systems suits one's own pictures and languages, before people rate.

Nothing here says how well a caption fits its picture. The language is told by script and py3langid alone, where
`xmcap score` also has the words of the references, so fewer captions are decided.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

import xmcap
from xmcap import digests
from xmcap.errors import UsageError
from xmcap.human.sheets import Findings, Sheet, SheetColumn
from xmcap.reading import failed_requests
from xmcap.reading.predictions import Predictions
from xmcap.scoring import residue, tokenizers
from xmcap.scoring.health import Vocabularies, fidelity
from xmcap.scoring.tables.signature import Signature

STEM = "check"
ALL = "all"
"""In the place of a language: all of them."""

_COLUMNS = (
  SheetColumn("system"), SheetColumn("language"), SheetColumn("captions", format=",d"),
  SheetColumn("missing", format=",d"), SheetColumn("fidelity", format=".1%"), SheetColumn("undecided", format=".1%"),
  SheetColumn("residue", format=".1%"), SheetColumn("distinct", format=".1%"), SheetColumn("words", format=".1f"),
  SheetColumn("prompt_tokens", "prompt tokens", ",d"), SheetColumn("cached_tokens", "of them cached", ",d"),
  SheetColumn("completion_tokens", "answer tokens", ",d"), SheetColumn("dollars", format=".2f"),
)  # fmt: skip


class Origin(msgspec.Struct):
  """What a provenance says of all captions of a file; see `endpoint.tally`."""

  tokens: dict[str, int] = {}
  dollars: float = 0.0
  states: dict[str, int] = {}
  cleaned: dict[str, int] = {}


class Row(NamedTuple):
  """A system's captions in a language, or in all.

  Attributes:
    captions: how many there are, without empty ones.
    missing: of the pictures that any system captions, in each language that any has.
    fidelity: share in [0, 1] in the right language, among those that are decided; None: none is.
    undecided: share of captions with letters whose language cannot be told.
    residue: share with markup, reasoning, shared beginnings and the like, see `residue.KINDS`.
    distinct: share of different captions: low for a system that says the same of every picture. Of all languages, the
      mean.
    words: mean number of words.
    prompt_tokens, cached_tokens, completion_tokens, dollars: what all languages took, if a provenance says so.
  """

  system: str
  language: str
  captions: int
  missing: int
  fidelity: float | None = None
  undecided: float | None = None
  residue: float | None = None
  distinct: float | None = None
  words: float | None = None
  prompt_tokens: int | None = None
  cached_tokens: int | None = None
  completion_tokens: int | None = None
  dollars: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaptionCheck(Findings):
  """The rows of all systems; `signature` says what they depend on, and that there were no references."""

  stem: ClassVar[str] = STEM
  rows: Sequence[Row]
  signature: str

  def sheets(self) -> Sequence[Sheet]:
    """Returns the table, without columns that nothing is known of."""
    places = [place for place in range(len(_COLUMNS)) if any(row[place] is not None for row in self.rows)]
    rows = [[row[place] for place in places] for row in self.rows]
    return [Sheet(STEM, "Captions without references", [_COLUMNS[place] for place in places], rows)]

  def as_json(self) -> dict[str, Any]:
    """Returns the rows by name, the signature and the notes."""
    return {"rows": [row._asdict() for row in self.rows], "signature": self.signature, "notes": self.notes}


def check(
  systems: Mapping[str, Predictions],
  origins: Mapping[str, Origin],
  languages: Sequence[str] | None = None,
) -> CaptionCheck:
  """Checks captions.

  Args:
    systems: name -> key -> language -> caption.
    origins: name -> what its captions took.
    languages: codes; None: all that a system has.

  Raises:
    UsageError: there is no caption in these languages.
    XmcapError: a word segmenter or py3langid is not installed.
  """
  present = {code for captions in systems.values() for of_key in captions.values() for code in of_key}
  codes = sorted(present.intersection(languages) if languages else present)
  if not codes:
    raise UsageError(f"no captions in {', '.join(languages or ())}: there are {', '.join(sorted(present))}")
  keys = sorted({key for captions in systems.values() for key in captions})
  splitters = {code: tokenizers.get("default", code) for code in codes}
  rows, notes = [], []
  for name, captions in systems.items():
    texts = {
      code: [text for key in keys if (text := captions.get(key, {}).get(code, "").strip())] for code in codes
    }
    cleaned = residue.clean_languages(texts, {code: [] for code in codes})
    rows += _rows(name, texts, len(keys), cleaned, splitters, origins[name])
    notes += _notes(name, texts, cleaned, origins[name])
  return CaptionCheck(rows=rows, notes=notes, signature=str(Signature({
    "references": "none", "languages": " ".join(codes), "images": digests.of_images(keys),
    "fidelity": fidelity.version(), "residue": residue.signature(residue.KINDS),
    "tokenizer": "default-" + ",".join(dict.fromkeys(splitters[code].version for code in codes)),
    "systems": "+".join(_named(name, captions) for name, captions in systems.items()),
    "xmcap": xmcap.__version__,
  })))  # fmt: skip


def _named(name: str, captions: Predictions) -> str:
  """A system for a signature: its name, what wrote its captions, and a hash of them."""
  texts = sorted((key, code, text) for key, of_key in captions.items() for code, text in of_key.items())
  wrote = getattr(captions, "captioner", "") or "unknown"
  return f"{name}={wrote}#{digests.of_json(texts)}".replace("|", "/")


def _rows(
  name: str, texts: Mapping[str, Sequence[str]], pictures: int, cleaned: Mapping[str, residue.Cleaned],
  splitters: Mapping[str, tokenizers.Tokenizer], origin: Origin,
) -> list[Row]:  # fmt: skip
  rows, verdicts = [], {}
  lexicon = Vocabularies.of({})
  for code, captions in texts.items():
    if not captions:
      rows.append(Row(name, code, 0, pictures))
      continue
    verdicts[code] = fidelity.judge(code, captions, lexicon)
    rows.append(
      Row(
        name, code, len(captions), pictures - len(captions), _right(verdicts[code]),
        fidelity.share_undecided(verdicts[code]), len(_with_residue(cleaned[code])) / len(captions),
        len(set(captions)) / len(captions), float(splitters[code].words(captions).lengths.mean()),
      )
    )  # fmt: skip
  whole = [row for row in rows if row.captions]
  total = sum(row.captions for row in whole)
  if not whole:
    return rows
  joined = np.concatenate(list(verdicts.values()))

  def mean(name: str) -> float:
    return sum(getattr(row, name) * row.captions for row in whole) / total

  rows.append(
    Row(
      name, ALL, total, len(texts) * pictures - total, _right(joined), fidelity.share_undecided(joined),
      mean("residue"), mean("distinct"), mean("words"), origin.tokens.get("prompt"),
      origin.tokens.get("cached"), origin.tokens.get("completion"), origin.dollars or None,
    )
  )  # fmt: skip
  return rows


def _right(verdicts: np.ndarray) -> float | None:
  wrong = fidelity.share_wrong(verdicts)
  return None if wrong is None else 1 - wrong


def _with_residue(cleaned: residue.Cleaned) -> set[int]:
  return {*cleaned.lost, *(row for rows in cleaned.rows.values() for row in rows)}


def _notes(
  name: str, texts: Mapping[str, Sequence[str]], cleaned: Mapping[str, residue.Cleaned], origin: Origin
) -> list[str]:
  """What is behind the shares: kinds of residue, answers without a picture, and why captions are missing."""
  kinds: collections.Counter[str] = collections.Counter()
  for of_language in cleaned.values():
    kinds.update({kind: len(rows) for kind, rows in of_language.rows.items()})
  counts = {
    "residue": kinds,
    "answers": collections.Counter(
      seen for captions in texts.values() for text in captions if (seen := failed_requests.unseen(text))
    ),
    "questions": {state: n for state, n in origin.states.items() if state != "answered"},
    "removed by xmcap caption": origin.cleaned,
  }
  listed = {of: ", ".join(f"{kind} {n:,}" for kind, n in kinds.items() if n) for of, kinds in counts.items()}
  return [f"{name}: {of}: {kinds}" for of, kinds in listed.items() if kinds]
