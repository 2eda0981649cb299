"""Finds images that two corpora share, by id and by bytes, to detect test images in training data.

Two records share an image if their keys are equal (MSCOCO ids in any form: `COCO_val2014_000000000042` is
`000000000042`), or if the SHA-256 hashes of their images are equal. A resized or re-encoded image has other bytes and
is found only by its id. Ids and hashes are in an sqlite file, so memory does not grow with the corpora.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import sqlite3
import tempfile
from collections.abc import Sequence

from xmcap import processes as processes_lib
from xmcap.data import records
from xmcap.data.records import RecordSource, parse_columns
from xmcap.errors import UsageError
from xmcap.files import databases, files, outputs
from xmcap.grid import Grid
from xmcap.progress import Say

_CHUNK = 512  # records hashed at a time by one process
_SCHEMA = """
CREATE TABLE pictures (corpus INTEGER, split, number INTEGER, key, id, hash);
CREATE INDEX ids ON pictures (corpus, id);
CREATE INDEX hashes ON pictures (corpus, hash);
"""
# A pair that shares both is one row.
_PAIRS = """
SELECT one.split, one.key, other.split AS other_split, other.key AS other_key,
  one.id = other.id AS by_id, one.hash = other.hash AS by_bytes, one.rowid AS picture
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
  COUNT(DISTINCT CASE WHEN by_bytes THEN picture END), COUNT(DISTINCT picture)
FROM ({_PAIRS}) GROUP BY split, other_split ORDER BY split, other_split
"""
_COCO_ID = re.compile(r"COCO_(?:train|val|test)201[0-9]_[0-9]{12}|[0-9]{12}")


@dataclasses.dataclass(frozen=True)
class SharedCounts:
  """Images of a split of the corpus that is checked, in a split of another: by id, by bytes, or by any of them."""

  split: str
  other: str
  other_split: str
  by_id: int
  by_bytes: int
  pictures: int


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
    out: folder for `shared.jsonl`: `split`, `key`, `other`, `other_split`, `other_key`, `by` (id, bytes) of each pair.
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
        for split, key, other_split, other_key, by_id, by_bytes, _ in database.execute(
          _PAIRS, {"other": number}
        ):
          by = [name for name, is_shared in (("id", by_id), ("bytes", by_bytes)) if is_shared]
          pair = {"split": split, "key": key, "other": other, "other_split": other_split}
          pair |= {"other_key": other_key, "by": by}
          lines.write(f"{json.dumps(pair, ensure_ascii=False)}\n".encode())
        for split, other_split, *numbers in database.execute(_COUNTS, {"other": number}):
          counts.append(SharedCounts(split, other, other_split, *numbers))
  return counts


def table(counts: Sequence[SharedCounts]) -> str:
  """Formats the rows as a table for the terminal."""
  if not counts:
    return "no picture is in another corpus"
  heads = ("split", "is in", "split of it", "pictures", "by id", "by bytes")
  rows = tuple(
    (row.split, row.other, row.other_split, f"{row.pictures:,}", f"{row.by_id:,}", f"{row.by_bytes:,}")
    for row in counts
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
      database.executemany("INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?)", numbered)
      number += len(rows)


def _hashes(source: RecordSource, indices: range) -> list[tuple[str, str, bytes]]:
  """Key, id and hash of records."""
  rows = []
  for record in source.iterate(indices, parse_columns):
    identity = record.key[-12:] if _COCO_ID.fullmatch(record.key) else record.key
    rows.append((record.key, identity, hashlib.sha256(record.image).digest()))
  return rows
