"""Finds keys and pictures of a corpus that an earlier record has: the same pixels, or pictures that look alike."""

import array
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xmcap.corpora.building import duplicates
from xmcap.data.records import RecordSource
from xmcap.progress import Say

SCHEMA = f"{duplicates.SCHEMA} CREATE TABLE keys (key PRIMARY KEY, number) WITHOUT ROWID;"
"""Of a database for `Copies`."""


class Identity(NamedTuple):
  """Key of a record, and `duplicates.pixel_hash` and `duplicates.difference_hash` of its image, unless damaged."""

  key: str = ""
  pixels: str = ""
  look: int = 0


class Copies:
  """The records of the splits so far; their looks are in memory, 8 bytes each, all else in `database`."""

  def __init__(self, database: sqlite3.Connection, say: Say | None):
    self._database, self._say = database, say
    self._index = duplicates.ImageIndex(database)
    self._sources: list[RecordSource] = []
    self._looks: list[array.array] = []
    self._same: set[int] = set()

  def begin(self, source: RecordSource) -> None:
    """Begins a split, or a part of one."""
    self._database.execute("DELETE FROM keys")
    self._sources.append(source)
    self._looks.append(array.array("Q"))
    self._same.clear()

  def add(self, identity: Identity) -> Iterator[tuple[str, str]]:
    """Adds the next record of the split; yields kind and description of what an earlier record has too."""
    key, pixels, look = identity
    split, number = _whole(self._sources[-1].split), len(self._looks[-1])
    self._looks[-1].append(look)
    if key and not self._database.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (key, number)).rowcount:
      (first,) = self._database.execute("SELECT number FROM keys WHERE key = ?", (key,)).fetchone()
      yield "repeated_key", f"record {first:,} has the same key"
    same = self._index.add(split, key, pixels) if pixels else None
    if same and same.split != split:
      self._same.add(number)
      yield "in_other_split", f"the same pixels as {same.key} of {same.split}"
    elif same and same.key != key:  # parts of a split may overlap
      yield "repeated_picture", f"the same pixels as {same.key}"

  def alike(self) -> Iterator[tuple[int, str, str]]:
    """Yields index, key and description of the images of the split that look like one of an earlier split."""
    source, looks = self._sources[-1], np.array(self._looks[-1], np.uint64)
    for other, of_other in zip(self._sources[:-1], self._looks, strict=False):
      if _whole(other.split) == _whole(source.split):
        continue
      label = f"{source.split}, {other.split}"
      for index, nearest in duplicates.alike(looks, np.array(of_other, np.uint64), label, self._say):
        if index not in self._same:
          (record,), (like,) = source.read([index]), other.read([nearest])
          yield index, record.key, f"looks like {like.key} of {other.split}"


def _whole(split: str) -> str:
  return split.partition("[")[0]
