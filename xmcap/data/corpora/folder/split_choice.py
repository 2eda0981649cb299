"""Assigns pictures to splits: by shares and a hash of the key, by a column, or by folder."""

import dataclasses
import hashlib
import re
from collections.abc import Iterable

from xmcap.errors import UsageError
from xmcap.terminal import shown

SHARES = "train:0.9,validation:0.05,test:0.05"
_COLUMN, _FOLDER = "column:", "folder"
_ALIASES = {"val": "validation", "valid": "validation", "dev": "validation", "eval": "validation"}
_ALIASES |= {"training": "train", "restval": "train", "testing": "test"}
_KNOWN = ("train", "validation", "test")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_SHARD = re.compile(r"([A-Za-z]+)[-_.].*")


@dataclasses.dataclass(frozen=True)
class Rule:
  """How pictures are assigned to splits.

  Attributes:
    text: shares such as `train:0.9,test:0.1`, or `column:NAME`, or `folder`; "" means SHARES.

  Raises:
    UsageError: the text is none of these.
  """

  text: str = ""

  def __post_init__(self):
    if not self.column and self.text != _FOLDER:
      _ = self.shares

  @property
  def column(self) -> str:
    """The column with the split, or ""."""
    return self.text.removeprefix(_COLUMN) if self.text.startswith(_COLUMN) else ""

  @property
  def shares(self) -> dict[str, float]:
    """Split -> its share; {} if a column or the folder gives the split."""
    if self.column or self.text == _FOLDER:
      return {}
    shares: dict[str, float] = {}
    for part in (self.text or SHARES).split(","):
      name, _, share = part.strip().partition(":")
      try:
        number = float(share)
      except ValueError:
        number = 0
      if not _NAME.fullmatch(name) or name in shares or not 0 < number <= 1:
        raise UsageError(f"--splits={self.text}: give shares as {SHARES}, column:NAME, or folder")
      shares[name] = number
    if abs(sum(shares.values()) - 1) > 1e-6:
      total = f"{sum(shares.values()):g}"
      raise UsageError(f"--splits={self.text}: the shares sum to {total}: make them sum to 1")
    return shares


class Splits:
  """Assigns pictures to splits by a rule.

  With shares, a hash of the key decides, so a picture keeps its split when others are added. A split that would be
  empty gets the picture whose hash is nearest to its interval.
  """

  def __init__(self, rule: Rule):
    self._rule = rule
    self._parts: dict[str, tuple[float, float]] = {}
    start = 0.0
    for name, share in rule.shares.items():
      self._parts[name] = (start, start + share)
      start += share
    # For each split the nearest pictures, some of which other splits may take: (distance, key, own split).
    self._nearest: dict[str, list[tuple[float, str, str]]] = {name: [] for name in self._parts}
    self._counts = dict.fromkeys(self._parts, 0)

  def of(self, key: str, path: str, said: str, where: str, usable: bool = True) -> str:
    """Returns the split of a picture; UsageError if it is unknown.

    Args:
      key: its key.
      path: path of its file.
      said: the split named by its line, table or tar file.
      where: its place, for messages.
      usable: whether it exists and has a caption; otherwise it does not count as filling a split.
    """
    if self._parts:
      return self._by_hash(key, usable)
    name = said.strip() if self._rule.column else _in_path(said or path)
    found = _split(name)
    if not _NAME.fullmatch(found) or (not self._rule.column and found not in _KNOWN):
      unknown = f"'{shown(name or said or path, 40)}' is not a split"
      raise UsageError(f"{where}: {unknown}: name it train, validation or test, or give --splits={SHARES}")
    return found

  def moved(self) -> dict[str, str]:
    """Returns empty split -> key of the picture that it takes from a split with several."""
    moved: dict[str, str] = {}
    for name in [name for name, count in self._counts.items() if not count]:
      for _, key, own in self._nearest[name]:
        if key not in moved.values() and self._counts[own] > 1:
          moved[name] = key
          self._counts[own] -= 1
          break
    return moved

  def _by_hash(self, key: str, usable: bool) -> str:
    place = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64
    last = list(self._parts)[-1]  # the shares may sum to a little less than 1
    chosen = next((name for name, (start, end) in self._parts.items() if start <= place < end), last)
    if not usable:
      return chosen
    self._counts[chosen] += 1
    for name, (start, end) in self._parts.items():
      distance = max(start - place, place - end, 0.0)
      self._nearest[name] = sorted([*self._nearest[name], (distance, key, chosen)])[: len(self._parts)]
    return chosen


def ordered(names: Iterable[str]) -> list[str]:
  """Returns the names of splits in order: train, validation, test, then others."""
  held = set(names)
  return [*(name for name in _KNOWN if name in held), *sorted(held - {*_KNOWN})]


def _in_path(path: str) -> str:
  """Returns the first folder that is named like a split, or the start of a file's name (`val` of `val-00000.tar`)."""
  name = path
  if "/" in path:
    name = next((folder for folder in path.split("/")[:-1] if _split(folder) in _KNOWN), "")
  match = _SHARD.fullmatch(name)
  return match[1] if match else name


def _split(name: str) -> str:
  """Returns the usual name of a split: `validation` for `Dev`."""
  lower = name.lower()
  return _ALIASES.get(lower, lower if lower in _KNOWN else name)
