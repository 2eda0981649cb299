"""Assigns images to splits: by shares and a hash of the key, by a column, or by folder."""

import collections
import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from xmcap.errors import UsageError
from xmcap.terminal import shown

SHARES = "train:0.9,validation:0.05,test:0.05"
COLUMNS = ("split", "splits", "set_name", "subset", "partition")
"""Usual names of a column with the split."""
_COLUMN, _FOLDER = "column:", "folder"
_ALIASES = {"val": "validation", "valid": "validation", "dev": "validation", "eval": "validation"}
_ALIASES |= {"validate": "validation", "training": "train", "restval": "train", "testing": "test"}
_KNOWN = ("train", "validation", "test")
_RANK = {"test": 0, "validation": 1, "train": 3}  # of the splits of one image; others are between
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_SHARD = re.compile(r"([A-Za-z]+)[-_.].*")
_MOST_NAMES = 20  # of splits in a column that is not asked for


class SplitSource(NamedTuple):
  """What may name the split of an image: the cell of a column, the file of its line, its own path; "" if unknown."""

  cell: str
  file: str
  path: str


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

  def of_key(self, key: str) -> str:
    """Returns the split of an image by the hash of its key, where there are shares."""
    place = _place(key)
    last = list(self.intervals)[-1]  # the shares may sum to a little less than 1
    return next((name for name, (start, end) in self.intervals.items() if start <= place < end), last)

  def written(self, source: SplitSource) -> str:
    """Returns the split that the column or the files name, as they write it; "" if they name none.

    Files name it by the first folder named like a split, or by such a start of the name: `val` of `val-00000.tar`.
    """
    if self.column:
      name = source.cell.strip()
      return name if _NAME.fullmatch(name) else ""
    *folders, name = source.file.split("/")
    shard = _SHARD.fullmatch(name)
    parts = (*folders, shard[1] if shard else name, *source.path.split("/")[:-1])
    return next((part for part in parts if _split(part) in _KNOWN), "")

  def of_sources(self, sources: Iterable[SplitSource], where: str) -> list[str]:
    """Returns the splits that an image's sources name, the first of which counts: test, validation, others, train.

    UsageError if one names none; `where` is the place of the image.
    """
    names = set()
    for source in sources:
      written = self.written(source)
      if not written:
        unknown = f"'{shown(source.cell if self.column else source.file or source.path, 40)}' is not a split"
        raise UsageError(f"{where}: {unknown}: name it train, validation or test, or give --splits={SHARES}")
      names.add(_split(written))
    return sorted(names, key=lambda name: (_RANK.get(name, 2), name))

  def distance(self, key: str, split: str) -> float:
    """Returns how far the hash of a key is outside the interval of a split."""
    start, end = self.intervals[split]
    return max(start - _place(key), _place(key) - end, 0.0)


def published(column: str, sources: Callable[[], Iterable[SplitSource]]) -> tuple[SplitRule, str]:
  """Returns the rule where none was asked for, and a line that says so: "" if nothing names a split.

  The splits stay as `column`, or else the files, name them for all images, unless that is `train` alone, which says
  nothing about the others.

  Args:
    column: the column with splits; "" if there is none.
    sources: yields those of all images, each time it is called.
  """
  line = ""
  rules = [(SplitRule(_COLUMN + column), f"column '{shown(column, 32)}' names")] if column else []
  for rule, origin in [*rules, (SplitRule(_FOLDER), "files and folders name")]:
    counts = _count(rule, sources())
    unnamed = counts.pop("", 0)
    if counts and not unnamed and {*map(_split, counts)} != {"train"}:
      return rule, f"splits: as {origin} them: {_listed(counts)}; --splits={SHARES} divides anew"
    if counts and not line:
      lack = f", and for {unnamed:,} pictures none" if unnamed else " alone"
      line = f"splits: {origin} {_listed(counts)}{lack}: all are divided by {SHARES}"
  return SplitRule(), line


def _count(rule: SplitRule, sources: Iterable[SplitSource]) -> collections.Counter[str]:
  """Counts images by the names of their splits; "": no name, or one of too many."""
  counts: collections.Counter[str] = collections.Counter()
  for source in sources:
    name = rule.written(source)
    counts[name if name in counts or len(counts) < _MOST_NAMES else ""] += 1
  return counts


def _listed(counts: collections.Counter[str]) -> str:
  """Returns such as `train 5 (train 3, restval 2), validation 3 (val), test 4`."""
  by_split: dict[str, list[str]] = collections.defaultdict(list)
  for name in counts:
    by_split[_split(name)].append(name)
  parts = []
  for split in ordered(by_split):
    names = by_split[split]
    several = ", ".join(f"{name} {counts[name]:,}" for name in names) if len(names) > 1 else names[0]
    parts.append(
      f"{split} {sum(counts[name] for name in names):,}" + (f" ({several})" if several != split else "")
    )
  return ", ".join(parts)


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


def _split(name: str) -> str:
  """Returns the usual name of a split: `validation` for `Dev`."""
  lower = name.lower()
  return _ALIASES.get(lower, lower if lower in _KNOWN else name)
