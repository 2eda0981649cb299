"""Writes a folder of records: ArrayRecord files, in parallel, and TFDS's metadata.

records.py describes the folder and reads it.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import array_record.python.array_record_module as array_record_module

from xmcap import processes as processes_lib
from xmcap.data.array_records import range_index, tfds_metadata
from xmcap.data.records import Record, check, serialize
from xmcap.errors import XmcapError, one_line
from xmcap.files import files
from xmcap.terminal import shown

# Group size 1: every record can be read separately. Uncompressed: images already are compressed, and short strings
# hardly compress; Snappy would save some 2% of the space and cost the stream as much (benchmarks/stream.py).
# An index of ranges (range_index.py) needs both.
_WRITER_OPTIONS = "group_size:1,uncompressed"

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class WrittenSplit:
  """The result of `write_split`: the number of records of each shard, and the total bytes."""

  name: str
  shard_lengths: tuple[int, ...]
  num_bytes: int


@contextlib.contextmanager
def _writing(path: pathlib.Path) -> Iterator[None]:
  """Turns errors of the writer into XmcapErrors about the disk; errors of the release must not pass through here."""
  try:
    yield
  except (RuntimeError, OSError) as error:
    reason = shown(str(error).split(";")[0])
    raise XmcapError(
      f"cannot write records to {path}: {reason}; check free space and permissions there, and start again"
    ) from None


def _write_shard(
  path: pathlib.Path, records: Callable[[T], Iterable[Record]], shard: T, finished: pathlib.Path | None
) -> tuple[int, int]:
  """Writes a shard under a temporary name, renames it, reads it back, and indexes it; returns its records and bytes.

  The file `finished`, if given, marks a complete shard, and contains the returned numbers.
  """
  if finished is not None and finished.exists() and path.exists():
    count, num_bytes = json.loads(finished.read_text(encoding="utf-8"))
    if not _read_back(path, count, num_bytes):
      return count, num_bytes
  count = num_bytes = 0
  with files.replacing(path) as temporary:
    with _writing(path):
      writer = array_record_module.ArrayRecordWriter(str(temporary), _WRITER_OPTIONS)
    for record in records(shard):
      check(record)
      serialized = serialize(record)
      with _writing(path):
        writer.write(serialized)
      count += 1
      num_bytes += len(serialized)
    with _writing(path):
      writer.close()
  if reason := _read_back(path, count, num_bytes):
    raise XmcapError(
      f"{path}: {count:,} records ({num_bytes:,} bytes) were written, but cannot be read back ({reason}): "
      "check the disk, and that nothing else writes there; then build again"
    )
  if finished is not None:
    files.write_text(finished, json.dumps([count, num_bytes]))
  return count, num_bytes


def _read_back(path: pathlib.Path, count: int, num_bytes: int) -> str:
  """Reads every record of a file, which verifies hashes, and writes the index; returns what is wrong, or ""."""
  try:
    index = range_index.RangeIndex.of_file(path)
  except (RuntimeError, IndexError, ValueError) as error:
    return one_line(error)
  rows, size = len(index.rows), int(index.rows["length"].sum())
  if (rows, size) != (count, num_bytes):
    return f"another file, of {rows:,} records and {size:,} bytes"
  files.write_bytes(path.with_name(path.name + range_index.SUFFIX), index.to_bytes())
  return ""


def write_split(
  out: str | os.PathLike,
  split: str,
  shards: Sequence[T],
  records: Callable[[T], Iterable[Record]],
  *,
  dataset: str,
  processes: int | None = None,
  progress: Callable[[int], None] | None = None,
  finished: pathlib.Path | None = None,
) -> WrittenSplit:
  """Writes a split, one ArrayRecord file for each of `shards`, in several processes.

  Memory is constant, because records are written as they are made. The bytes depend only on `shards` and `records`, not
  on the number of processes. A file gets its name only when it is complete, and is then read back and indexed.

  Args:
    out: the folder.
    split: name of the split.
    shards: arguments of `records`, one per file.
    records: makes the records of a shard; must be picklable.
    dataset: name of the corpus, with which file names begin.
    processes: None: one per CPU core; 1: only this process.
    progress: called with the number of records so far, after every shard.
    finished: folder of marks for complete shards, which are not written again, so that a killed build can resume; None:
      all are written.

  Raises:
    XmcapError: a record is invalid, or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  files.make_folder(out)
  names = [tfds_metadata.file_name(dataset, split, number, len(shards)) for number in range(len(shards))]
  marks = [finished and finished / f"{name}.json" for name in names]
  calls = ([out / name for name in names], [records] * len(shards), shards, marks)
  lengths: list[int] = []
  num_bytes = 0
  with processes_lib.pool(min(processes or processes_lib.available_cores(), len(shards))) as pool:
    for count, size in pool.map(_write_shard, *calls):
      lengths.append(count)
      num_bytes += size
      if progress is not None:
        progress(sum(lengths))
  return WrittenSplit(split, tuple(lengths), num_bytes)


# Without a homepage, TFDS would invent a URL in its own catalogue.
_FORMAT_PAGE = "https://www.tensorflow.org/datasets/external_tfrecord"


def write_metadata(
  out: str | os.PathLike,
  splits: Sequence[WrittenSplit],
  *,
  dataset: str,
  version: str = "1.0.0",
  description: str = "",
  homepage: str = _FORMAT_PAGE,
) -> None:
  """Writes TFDS's metadata for the splits, so that `tfds.builder_from_directory(out)` works."""
  about = tfds_metadata.info_json(
    [(split.name, split.shard_lengths, split.num_bytes) for split in splits],
    dataset=dataset,
    version=version,
    description=description or f"The corpus {dataset}, one record an image.",
    homepage=homepage,
  )
  files.write_bytes(pathlib.Path(out, tfds_metadata.FEATURES), tfds_metadata.features_json())
  files.write_bytes(pathlib.Path(out, tfds_metadata.NAME), about)  # the last marks the folder as a corpus


def write_tags(out: str | os.PathLike, tags: Sequence[str]) -> None:
  """Writes `tags.txt`: the classes in the order of their ids, one per line."""
  files.write_text(pathlib.Path(out) / "tags.txt", "".join(f"{tag}\n" for tag in tags))
