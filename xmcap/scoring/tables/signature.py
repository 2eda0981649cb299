"""The signature of a score: everything that determines the number, so that it can be reproduced.

The idea is sacreBLEU's (Post, WMT 2018).
"""

import dataclasses
from collections.abc import Sequence

from xmcap.arguments import checked
from xmcap.digests import digest
from xmcap.errors import UsageError
from xmcap.terminal import shown

METRIC = "metric."
"""Prefix of the names of parts with a metric's parameters."""

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
  "order": "ord",
  "protocol": "prot",
  "wrong_language": "wl",
  "clean": "cl",
  "captioner": "by",
  "bootstrap": "bs",
  "xmcap": "v",
}
_LONGEST_SHORT_VALUE = 14
# Tables that differ only in these parts are comparable: `compare` draws its own resamples, metrics and tokenisers have
# their own versions, it is captioners that are compared, and the notes of a table report missing predictions.
_IMMATERIAL = frozenset({"bootstrap", "captioner", "missing", "scale", "xmcap"})
_LONGEST_DIFFERENCE = 120


@dataclasses.dataclass(frozen=True)
class Signature:
  """Name -> value of each part, in order; `str()` is the long form."""

  parts: dict[str, str]

  def __str__(self) -> str:
    return "|".join(f"{name}:{value}" for name, value in self.parts.items())

  @property
  def protocol(self) -> str:
    """The protocol that was followed; where no name is, xmcap's own, as before there were others."""
    return self.parts.get("protocol", "xmcap")

  @property
  def short(self) -> str:
    """The short form, with abbreviated names and with hashes instead of long values."""
    metrics = [name.removeprefix(METRIC) for name in self.parts if name.startswith(METRIC)]
    parameters = "|".join(self.parts[f"{METRIC}{name}"] for name in metrics)
    parts = [f"{'+'.join(metrics)}#{digest(parameters)[:6]}"]
    for name, value in self.parts.items():
      if not name.startswith(METRIC):
        short = value if len(value) <= _LONGEST_SHORT_VALUE else f"{_head(name, value)}#{digest(value)[:6]}"
        parts.append(f"{_SHORT_NAMES.get(name, name)}:{short}")
    return "|".join(parts)

  @classmethod
  @checked
  def parse(cls, text: str) -> "Signature":
    """Parses the long form; UsageError if the text is not a signature."""
    parts = {name: value for name, _, value in (part.partition(":") for part in text.split("|"))}
    is_whole = len(parts) == text.count("|") + 1 and all(parts.values())
    if not is_whole or not {"tokenizer", "similarity", "tags"} & parts.keys():
      raise UsageError(f"'{shown(text)}' is not a signature of xmcap; score again with xmcap score")
    return cls(parts)

  def differences(self, other: "Signature", metrics: tuple[str, ...]) -> list[str]:
    """Returns the parts, such as `tokenizer: A against B`, that make scores in these metrics incomparable."""
    parts = []
    for name in dict.fromkeys([*self.parts, *other.parts]):
      is_of_others = name.startswith(METRIC) and name.removeprefix(METRIC) not in metrics
      if name not in _IMMATERIAL and not is_of_others and self._decisive(name) != other._decisive(name):
        parts.append(f"{name}: {self.parts.get(name, 'absent')} against {other.parts.get(name, 'absent')}")
    return parts

  def _decisive(self, name: str) -> str | None:
    """Returns the value of a part; for document frequencies only their hash, not their source."""
    value = self.protocol if name == "protocol" else self.parts.get(name)
    return value.partition("#")[2] if value and name == "document_frequency" else value


def shortened(differences: Sequence[str]) -> list[str]:
  """Returns `Signature.differences` for a note; a difference that is too long is reduced to the part's name."""
  return [text if len(text) <= _LONGEST_DIFFERENCE else text.partition(":")[0] for text in differences]


def _head(name: str, value: str) -> str:
  """Returns the value up to the first detail; for languages, their number; kinds of residue are all named."""
  if name == "languages":
    return str(len(value.split()))
  if name == "clean":
    return value.replace(",", "+")
  for end in "[#=;(, -":
    value = value.partition(end)[0]
  return value if len(value) <= _LONGEST_SHORT_VALUE else ""
