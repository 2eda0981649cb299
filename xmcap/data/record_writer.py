"""Writing a folder of records: ArrayRecord files, several at a time, and TFDS's metadata beside them.

records.py says what such a folder holds, and reads it.
"""

import concurrent.futures.process
import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import tensorflow_datasets as tfds
from array_record.python import array_record_module

from xmcap.data import files, workers
from xmcap.data.records import FEATURES, Record, check, serialize
from xmcap.errors import XmcapError

# Group size 1: every record can be read by itself. Uncompressed: images are compressed already, and short texts
# hardly can be; Snappy would save some 2% of the space and cost the stream as much (benchmarks/disk.py, stream.py).
_WRITER_OPTIONS = "group_size:1,uncompressed"

T = TypeVar("T")


class EmptySplitError(XmcapError):
  """A split for which there is no record to write."""


@dataclasses.dataclass(frozen=True)
class WrittenSplit:
  """What `write_split` wrote: records and bytes, a number a shard."""

  name: str
  shard_lengths: tuple[int, ...]
  num_bytes: int


def _shard_name(dataset: str, split: str, index: int, count: int) -> str:
  return f"{dataset}-{split}.array_record-{index:05d}-of-{count:05d}"


def _write_shard(
  path: pathlib.Path, records: Callable[[T], Iterable[Record]], shard: T, finished: pathlib.Path | None
) -> tuple[int, int]:
  """Writes one shard under a temporary name, then renames it; returns its records and bytes.

  `finished`, if given, says that the shard is whole, and holds what is returned.
  """
  if finished is not None and finished.exists() and path.exists():
    held = json.loads(finished.read_text(encoding="utf-8"))
    return held["records"], held["bytes"]
  count = num_bytes = 0
  try:
    with files.replacing(path) as temporary:
      writer = array_record_module.ArrayRecordWriter(str(temporary), _WRITER_OPTIONS)
      for record in records(shard):
        check(record)
        serialized = serialize(record)
        writer.write(serialized)
        count += 1
        num_bytes += len(serialized)
      writer.close()
  except (RuntimeError, OSError) as error:
    reason = str(error).split(";")[0]
    raise XmcapError(
      f"cannot write records to {path}: {reason}; is the disk full or the folder locked?"
    ) from None
  if finished is not None:
    files.write_text(finished, json.dumps({"records": count, "bytes": num_bytes}))
  return count, num_bytes


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

  Memory is constant: a record is written as it is made. The bytes depend on `shards` and `records` alone, not
  on the number of processes. A file appears under its own name only when it is whole.

  Args:
    out: folder of the corpus; made if absent.
    split: name, such as `train`.
    shards: what each file is made from: anything that can be pickled.
    records: makes the records of a shard; picklable, so a function of a module or a partial of one.
    dataset: name of the corpus, the beginning of the file names.
    processes: number of processes; None: one a CPU core; 1: this process alone.
    progress: called with the number of records so far, after every shard.
    finished: a folder in which a file for each shard says that it is whole; such a shard is not written again, so
      that a build goes on after a kill. None: all are written.

  Raises:
    XmcapError: a record is not valid, the split is empty, or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  files.make_folder(out)
  paths = [out / _shard_name(dataset, split, index, len(shards)) for index in range(len(shards))]
  processes = min(processes or files.available_cores(), len(shards))
  marks = [finished and finished / f"{path.name}.json" for path in paths]
  results: list[tuple[int, int]] = []

  def collect(pairs: Iterable[tuple[int, int]]) -> None:
    for pair in pairs:
      results.append(pair)
      if progress is not None:
        progress(sum(count for count, _ in results))

  if processes <= 1:
    collect(map(_write_shard, paths, [records] * len(shards), shards, marks))
  else:
    with workers.pool(processes) as pool:
      try:
        collect(pool.map(_write_shard, paths, [records] * len(shards), shards, marks))
      except concurrent.futures.process.BrokenProcessPool:
        raise XmcapError(
          f"a process that wrote the split '{split}' was killed, perhaps for memory: use fewer processes "
          "(a script that builds needs `if __name__ == '__main__':`)"
        ) from None
  if not sum(count for count, _ in results):
    raise EmptySplitError(f"the split '{split}' for {out} has no records: nothing to write")
  return WrittenSplit(split, tuple(count for count, _ in results), sum(size for _, size in results))


def write_metadata(
  out: str | os.PathLike,
  splits: Sequence[WrittenSplit],
  *,
  dataset: str,
  version: str = "1.0.0",
  description: str = "",
) -> None:
  """Writes TFDS's metadata beside the splits, after which `tfds.builder_from_directory(out)` works."""
  out = pathlib.Path(out)
  infos = []
  for split in splits:
    template = tfds.core.ShardedFileTemplate(
      data_dir=out, dataset_name=dataset, split=split.name, filetype_suffix="array_record"
    )
    infos.append(
      tfds.core.SplitInfo(
        name=split.name,
        shard_lengths=list(split.shard_lengths),
        num_bytes=split.num_bytes,
        filename_template=template,
      )
    )
  try:
    tfds.folder_dataset.write_metadata(
      data_dir=out,
      features=FEATURES,
      split_infos=infos,
      version=version,
      check_data=False,
      filename_template=infos[0].filename_template.replace(split=None),
      description=description or f"The corpus {dataset}, one record an image.",
    )
  except OSError as error:
    raise XmcapError(f"cannot write {out}/dataset_info.json: {error.strerror}") from None


def write_tags(out: str | os.PathLike, tags: Sequence[str]) -> None:
  """Writes `tags.txt`: the classes in the order of their ids, one a line."""
  files.write_text(pathlib.Path(out) / "tags.txt", "".join(f"{tag}\n" for tag in tags))
