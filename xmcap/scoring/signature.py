"""The signature of a score: everything that decides about the number, so that it can be reproduced.

The idea is sacreBLEU's (Post, WMT 2018).
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence

from xmcap.errors import UsageError
from xmcap.terminal import shown

METRIC = "metric."
"""Prefix of the name of a part that holds a metric's parameters."""

_SHORT_NAMES = {
  "document_frequency": "df",
  "tokenizer": "tok",
  "normalization": "norm",
  "languages": "lang",
  "similarity": "sim",
  "images": "img",
  "references": "refs",
  "subset": "sub",
  "missing": "miss",
  "bootstrap": "bs",
  "xmcap": "v",
}
_LONGEST_SHORT_VALUE = 14
# Tables that differ in these alone are comparable: `compare` resamples anew, metrics and tokenisers have versions of
# their own, and the notes of a table say what was missing.
_IMMATERIAL = frozenset({"bootstrap", "missing", "xmcap"})
_LONGEST_DIFFERENCE = 120


@dataclasses.dataclass(frozen=True)
class Signature:
  """Name -> value of each part, in order; `str()` is the long form."""

  parts: dict[str, str]

  def __str__(self) -> str:
    return "|".join(f"{name}:{value}" for name, value in self.parts.items())

  @property
  def short(self) -> str:
    """The short form: names abbreviated, and long values replaced by the first digits of their hash."""
    metrics = [name.removeprefix(METRIC) for name in self.parts if name.startswith(METRIC)]
    parameters = "|".join(self.parts[f"{METRIC}{name}"] for name in metrics)
    parts = [f"{'+'.join(metrics)}#{_hash(parameters)}"]
    for name, value in self.parts.items():
      if not name.startswith(METRIC):
        short = value if len(value) <= _LONGEST_SHORT_VALUE else f"{_head(name, value)}#{_hash(value)}"
        parts.append(f"{_SHORT_NAMES.get(name, name)}:{short}")
    return "|".join(parts)

  @classmethod
  def parse(cls, text: str) -> "Signature":
    """Reads the long form; UsageError if the text is none."""
    parts = {name: value for name, _, value in (part.partition(":") for part in text.split("|"))}
    if (
      len(parts) != text.count("|") + 1
      or not all(parts.values())
      or not {"tokenizer", "similarity", "tags"} & parts.keys()
    ):
      raise UsageError(f"'{shown(text)}' is no signature of xmcap; score again with xmcap score")
    return cls(parts)

  def differences(self, other: "Signature", metrics: tuple[str, ...]) -> list[str]:
    """Returns the parts, such as `tokenizer: A against B`, that make scores in these metrics incomparable."""
    wanted = {f"{METRIC}{name}" for name in metrics}
    names = [
      name
      for name in dict.fromkeys([*self.parts, *other.parts])
      if name not in _IMMATERIAL and (not name.startswith(METRIC) or name in wanted)
    ]
    return [
      f"{name}: {self.parts.get(name, 'absent')} against {other.parts.get(name, 'absent')}"
      for name in names
      if self._decisive(name) != other._decisive(name)
    ]

  def _decisive(self, name: str) -> str | None:
    """Returns the value of a part; of document frequencies their hash, not where they came from."""
    value = self.parts.get(name)
    return value.partition("#")[2] if value is not None and name == "document_frequency" else value


def of_images(keys: Iterable[str]) -> str:
  """Returns the part `images`: how many there are, and 16 hex digits of their keys in alphabetical order."""
  return of_texts(sorted(keys))


def of_texts(texts: Iterable[str]) -> str:
  """Returns how many texts there are, and 16 hex digits of them in this order."""
  texts = list(texts)
  digest = hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
  return f"{len(texts)}#{digest[:16]}"


def shortened(differences: Sequence[str]) -> list[str]:
  """Returns `Signature.differences` for a note, with the part's name alone where one is too long to read."""
  return [text if len(text) <= _LONGEST_DIFFERENCE else text.partition(":")[0] for text in differences]


def _head(name: str, value: str) -> str:
  """Returns the value up to the first detail; of languages, how many there are."""
  if name == "languages":
    return str(len(value.split()))
  for end in "[#=;(, -":
    value = value.partition(end)[0]
  return value if len(value) <= _LONGEST_SHORT_VALUE else ""


def _hash(value: str) -> str:
  return hashlib.sha256(value.encode("utf-8")).hexdigest()[:6]
