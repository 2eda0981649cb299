"""Assigns images to splits: by shares and a hash of the key, by a column, or by folder."""

import dataclasses
import functools
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
class SplitRule:
  """How images are assigned to splits; UsageError if `text` is invalid.

  With shares, a hash of the key decides, so an image keeps its split when others are added.

  Attributes:
    text: shares such as `train:0.9,test:0.1`, or `column:NAME`, or `folder`; "" means SHARES.
  """

  text: str = ""

  def __post_init__(self):
    _ = self.intervals

  @property
  def column(self) -> str:
    """The column with the split, or ""."""
    return self.text.removeprefix(_COLUMN) if self.text.startswith(_COLUMN) else ""

  @functools.cached_property
  def intervals(self) -> dict[str, tuple[float, float]]:
    """Split -> its part of the interval from 0 to 1; {} if a column or the folder gives the split."""
    if self.column or self.text == _FOLDER:
      return {}
    intervals: dict[str, tuple[float, float]] = {}
    total = 0.0
    for part in (self.text or SHARES).split(","):
      name, _, text = part.strip().partition(":")
      try:
        share = float(text)
      except ValueError:
        share = 0
      if not _NAME.fullmatch(name) or name in intervals or not 0 < share <= 1:
        raise UsageError(f"--splits={self.text}: give shares as {SHARES}, column:NAME, or folder")
      intervals[name] = (total, total + share)
      total += share
    if abs(total - 1) > 1e-6:
      raise UsageError(f"--splits={self.text}: the shares sum to {total:g}: make them sum to 1")
    return intervals

  def split_of(self, key: str, path: str, said: str, where: str) -> str:
    """Returns the split of an image; UsageError if it is unknown.

    Args:
      key: its key.
      path: path of its file.
      said: the split named by its line, table or tar file.
      where: its place, for messages.
    """
    if self.intervals:
      place = _place(key)
      last = list(self.intervals)[-1]  # the shares may sum to a little less than 1
      return next((name for name, (start, end) in self.intervals.items() if start <= place < end), last)
    name = said.strip() if self.column else _in_path(said or path)
    split = _split(name)
    if not _NAME.fullmatch(split) or (not self.column and split not in _KNOWN):
      unknown = f"'{shown(name or said or path, 40)}' is not a split"
      raise UsageError(f"{where}: {unknown}: name it train, validation or test, or give --splits={SHARES}")
    return split

  def distance(self, key: str, split: str) -> float:
    """Returns how far the hash of a key is outside the interval of a split."""
    start, end = self.intervals[split]
    return max(start - _place(key), _place(key) - end, 0.0)


def ordered(names: Iterable[str]) -> list[str]:
  """Returns the names of splits in order: train, validation, test, then others."""
  distinct = set(names)
  return [*(name for name in _KNOWN if name in distinct), *sorted(distinct - {*_KNOWN})]


def is_name(text: str) -> bool:
  """Whether a text in lower case is a usual name of a split."""
  return text in _KNOWN or text in _ALIASES


def _place(key: str) -> float:
  """Returns the hash of a key, from 0 to 1."""
  return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64


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
