"""Finds images that two corpora share, by id and by pixels, to detect test images in training data.

Two records share an image if their keys are equal (MSCOCO ids in any form: `COCO_val2014_000000000042` is
`000000000042`), or if their pixels are (`building/duplicates.py`). A resized or re-encoded image has other pixels: by
its id, or among those that look alike, which are not all the same image. The hashes are in an sqlite file, and only
the looks, 8 bytes an image, in memory.
"""

import array
import collections
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np

from xmcap import processes as processes_lib
from xmcap.corpora.building import duplicates
from xmcap.data import images, records
from xmcap.data.records import RecordSource, parse_columns
from xmcap.errors import UsageError, XmcapError
from xmcap.files import databases, files, outputs
from xmcap.grid import Grid
from xmcap.progress import Say

_CHUNK = 512  # records hashed at a time by one process
_SCHEMA = """
CREATE TABLE pictures (corpus INTEGER, split, number INTEGER, key, id, hash, look);
CREATE INDEX ids ON pictures (corpus, id);
CREATE INDEX hashes ON pictures (corpus, hash);
"""
# A pair that shares both is one row.
_PAIRS = """
SELECT one.split, one.key, other.split AS other_split, other.key AS other_key,
  one.id = other.id AS by_id, one.hash = other.hash AS by_pixels, one.rowid AS picture
FROM pictures AS one JOIN (
  SELECT one.rowid AS first, other.rowid AS second FROM pictures AS one JOIN pictures AS other USING (id)
    WHERE one.corpus = 0 AND other.corpus = :other
  UNION
  SELECT one.rowid, other.rowid FROM pictures AS one JOIN pictures AS other USING (hash)
    WHERE one.corpus = 0 AND other.corpus = :other
) ON one.rowid = first JOIN pictures AS other ON other.rowid = second
ORDER BY one.split, one.number, other.split, other.number
"""
# An image that the other split has twice is one image.
_COUNTS = f"""
SELECT split, other_split, COUNT(DISTINCT CASE WHEN by_id THEN picture END),
  COUNT(DISTINCT CASE WHEN by_pixels THEN picture END), COUNT(DISTINCT picture)
FROM ({_PAIRS}) GROUP BY split, other_split ORDER BY split, other_split
"""
_LOOKS = "SELECT look, rowid FROM pictures WHERE corpus = ? AND split = ? ORDER BY number"
_COCO_ID = re.compile(r"COCO_(?:train|val|test)201[0-9]_[0-9]{12}|[0-9]{12}")


@dataclasses.dataclass(frozen=True)
class SharedCounts:
  """Images of a split of the corpus that is checked, in a split of another: by id, by pixels, or by any of them.

  `alike` are others that look like one there.
  """

  split: str
  other: str
  other_split: str
  by_id: int
  by_pixels: int
  pictures: int
  alike: int = 0


def find(
  directory: str | os.PathLike,
  others: Sequence[str | os.PathLike],
  out: str | os.PathLike,
  *,
  splits: Sequence[str] = (),
  processes: int | None = None,
  say: Say | None = None,
) -> list[SharedCounts]:
  """Finds the images of a corpus that are also in others.

  Args:
    others: corpora; all of their splits are searched.
    out: folder for `shared.jsonl`: `split`, `key`, `other`, `other_split`, `other_key` and `by` (id, pixels, look) of
      each pair.
    splits: splits of the corpus, or parts of them; all if empty.

  Returns:
    A row for each pair of splits that share images.

  Raises:
    UsageError: a folder is not a corpus, or one of the others is the corpus itself.
  """
  for other in others:
    if os.path.realpath(other) == os.path.realpath(directory):
      raise UsageError(f"--against={other}: the corpus itself: name another")
  out = pathlib.Path(out)
  files.make_folder(out)
  files.remove_incomplete(out)
  with tempfile.TemporaryDirectory(prefix=".shared-", suffix=".incomplete", dir=out) as folder:
    path = pathlib.Path(folder, "pictures.sqlite")
    with databases.writing(path, _SCHEMA) as database:
      for number, corpus in enumerate([directory, *others]):
        _fill(database, number, corpus, () if number else splits, processes, say)
    with (
      databases.reading(path) as database,
      outputs.together(out),
      files.whole(out / "shared.jsonl") as lines,
    ):
      counts = []
      for number, place in enumerate(others, 1):
        other = str(os.fspath(place))
        alike: collections.Counter[tuple[str, str]] = collections.Counter()
        for split, key, other_split, other_key, by_id, by_pixels, _ in database.execute(
          _PAIRS, {"other": number}
        ):
          by = [name for name, is_shared in (("id", by_id), ("pixels", by_pixels)) if is_shared]
          lines.write(_pair(split, key, other, other_split, other_key, by))
        for split, key, other_split, other_key in _alike(database, number, say):
          alike[split, other_split] += 1
          lines.write(_pair(split, key, other, other_split, other_key, ["look"]))
        shared = {(row[0], row[1]): row[2:] for row in database.execute(_COUNTS, {"other": number})}
        for one, two in sorted(shared.keys() | alike.keys()):
          by_id, by_pixels, total = shared.get((one, two), (0, 0, 0))
          counts.append(SharedCounts(one, other, two, by_id, by_pixels, total, alike[one, two]))
  return counts


def _alike(database: sqlite3.Connection, other: int, say: Say | None) -> Iterator[tuple[str, str, str, str]]:
  """Yields split and key of each image that only looks like one of another corpus, and split and key of that."""
  find = "SELECT DISTINCT split FROM pictures WHERE corpus = ?"
  splits = [[split for (split,) in database.execute(find, (corpus,))] for corpus in (0, other)]
  shared = "SELECT 1 FROM pictures WHERE corpus = ? AND split = ? AND (id = ? OR hash = ?) LIMIT 1"
  for split, other_split in itertools.product(*splits):
    looks, rows = _looks(database, 0, split)
    others, other_rows = _looks(database, other, other_split)
    for index, nearest in duplicates.alike(looks, others, f"{split}, {other_split}", say):
      (key, *names), (other_key, *_) = (
        database.execute("SELECT key, id, hash FROM pictures WHERE rowid = ?", (int(row),)).fetchone()
        for row in (rows[index], other_rows[nearest])
      )
      if not database.execute(shared, (other, other_split, *names)).fetchone():
        yield split, key, other_split, other_key


def _looks(database: sqlite3.Connection, corpus: int, split: str) -> tuple[np.ndarray, np.ndarray]:
  """Returns uint64 [N] and int64 [N]: the looks of a split's images, and their rows in the database."""
  looks, rows = array.array("Q"), array.array("q")
  for look, row in database.execute(_LOOKS, (corpus, split)):
    looks.append(int(look, 16))
    rows.append(row)
  return np.array(looks, np.uint64), np.array(rows, np.int64)


def _pair(*values: str | list[str]) -> bytes:
  pair = dict(zip(("split", "key", "other", "other_split", "other_key", "by"), values, strict=True))
  return f"{json.dumps(pair, ensure_ascii=False)}\n".encode()


def table(counts: Sequence[SharedCounts]) -> str:
  """Formats the rows as a table for the terminal."""
  if not counts:
    return "no picture is in another corpus"
  heads = ("split", "is in", "split of it", "pictures", "by id", "by pixels", "look alike")
  numbers = [(row.pictures, row.by_id, row.by_pixels, row.alike) for row in counts]
  rows = tuple(
    (row.split, row.other, row.other_split, *map("{:,}".format, of_row))
    for row, of_row in zip(counts, numbers, strict=True)
  )
  return Grid(heads, rows, num_labels=3).text().rstrip()


def _fill(
  database: sqlite3.Connection,
  corpus: int,
  directory: str | os.PathLike,
  splits: Sequence[str],
  processes: int | None,
  say: Say | None,
) -> None:
  for split in splits or records.splits(directory) or ["train"]:  # of no corpus the first split says so
    source = RecordSource(directory, split)
    label = f"{directory}, {split}: pictures hashed"
    number = 0
    for rows in processes_lib.map_records(
      _hashes, source, chunk=_CHUNK, processes=processes, what=label, say=say
    ):
      numbered = [(corpus, split, place, *row) for place, row in enumerate(rows, number)]
      database.executemany("INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?)", numbered)
      number += len(rows)


def _hashes(source: RecordSource, indices: range) -> list[tuple[str, str, str, str]]:
  """Key, id, and hashes of the pixels and of the look of records; of a damaged image that of its bytes, and "0"."""
  rows = []
  for record in source.iterate(indices, parse_columns):
    identity = record.key[-12:] if _COCO_ID.fullmatch(record.key) else record.key
    try:
      pixels = images.decode(record.image, record.key)
      hashes = (
        duplicates.pixel_hash(pixels),
        f"{duplicates.difference_hash(pixels):x}",
      )  # SQLite's numbers are signed
    except XmcapError:
      hashes = hashlib.sha256(record.image).hexdigest(), "0"
    rows.append((record.key, identity, *hashes))
  return rows
