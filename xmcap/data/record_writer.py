"""Writing a folder of records: ArrayRecord files, several at a time, and TFDS's metadata beside them.

records.py says what such a folder holds, and reads it.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import array_record.python.array_record_module as array_record_module
from etils import epath

from xmcap.data import workers
from xmcap.data.array_records.local import READER_OPTIONS, first_line
from xmcap.data.records import Record, check, features, serialize
from xmcap.errors import XmcapError
from xmcap.storage import files
from xmcap.terminal import shown

# Group size 1: every record can be read by itself. Uncompressed: images are compressed already, and short texts
# hardly can be; Snappy would save some 2% of the space and cost the stream as much (benchmarks/disk.py, stream.py).
_WRITER_OPTIONS = "group_size:1,uncompressed"

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class WrittenSplit:
  """What `write_split` wrote: records and bytes, a number a shard."""

  name: str
  shard_lengths: tuple[int, ...]
  num_bytes: int


@contextlib.contextmanager
def _writing(path: pathlib.Path) -> Iterator[None]:
  """Blames the disk; only for what the writer does: the records are made of a release, which has faults of its own."""
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
  """Writes one shard under a temporary name, renames it, and reads it back; returns its records and bytes.

  `finished`, if given, says that the shard is whole, and holds what is returned.
  """
  if finished is not None and finished.exists() and path.exists():
    held = tuple(json.loads(finished.read_text(encoding="utf-8")))
    if _read_back(path)[0] == held:
      return held
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
  found, reason = _read_back(path)
  if found != (count, num_bytes):
    raise XmcapError(
      f"{path}: {count:,} records ({num_bytes:,} bytes) were written, but {found[0]:,} ({found[1]:,} bytes) are read "
      f"back ({reason or 'another file'}): check the disk, and that nobody else writes there; then build again"
    )
  if finished is not None:
    files.write_text(finished, json.dumps(found))
  return found


def _read_back(path: pathlib.Path) -> tuple[tuple[int, int], str]:
  """Reads every record of a file, whose hashes are verified; returns records and bytes, and why there are no more."""
  count = num_bytes = 0
  try:
    reader = array_record_module.ArrayRecordReader(str(path), READER_OPTIONS)
    for _ in range(reader.num_records()):
      num_bytes += len(reader.read())
      count += 1
    reader.close()
  except (RuntimeError, IndexError, ValueError) as error:
    return (count, num_bytes), first_line(error)
  return (count, num_bytes), ""


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
  on the number of processes. A file appears under its own name only when it is whole, and is then read back.

  Args:
    shards: what each file is made from.
    records: makes the records of a shard; a function of a module or a partial of one, as it is pickled.
    dataset: name of the corpus, the beginning of the file names.
    processes: None: one a CPU core; 1: this process alone.
    progress: called with the number of records so far, after every shard.
    finished: a folder in which a file for each shard says that it is whole; such a shard is not written again, so
      that a build goes on after a kill. None: all are written.

  Raises:
    XmcapError: a record is not valid, or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  files.make_folder(out)
  names = [
    f"{dataset}-{split}.array_record-{number:05d}-of-{len(shards):05d}" for number in range(len(shards))
  ]
  marks = [finished and finished / f"{name}.json" for name in names]
  calls = ([out / name for name in names], [records] * len(shards), shards, marks)
  lengths: list[int] = []
  num_bytes = 0
  with workers.pool(min(processes or files.available_cores(), len(shards))) as pool:
    for count, size in pool.map(_write_shard, *calls):
      lengths.append(count)
      num_bytes += size
      if progress is not None:
        progress(sum(lengths))
  return WrittenSplit(split, tuple(lengths), num_bytes)


# TFDS makes up an address of its own catalogue for a corpus without a page.
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
  """Writes TFDS's metadata beside the splits, after which `tfds.builder_from_directory(out)` works."""
  out = pathlib.Path(out)
  import tensorflow_datasets as tfds  # takes TensorFlow with it, for seconds

  # TFDS writes in place, where a kill would leave half a file under its name.
  with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
    template = tfds.core.ShardedFileTemplate(
      data_dir=epath.Path(folder), dataset_name=dataset, filetype_suffix="array_record"
    )
    infos = []
    for split in splits:
      named = template.replace(split=split.name)
      shards = list(split.shard_lengths)
      infos.append(
        tfds.core.SplitInfo(
          name=split.name, shard_lengths=shards, num_bytes=split.num_bytes, filename_template=named
        )
      )
      # It looks for files of each split.
      pathlib.Path(folder, f"{dataset}-{split.name}.array_record-00000-of-{len(shards):05d}").touch()
    try:
      tfds.folder_dataset.write_metadata(
        data_dir=folder,
        features=features(),
        split_infos=infos,
        version=version,
        check_data=False,
        filename_template=template,
        description=description or f"The corpus {dataset}, one record an image.",
        homepage=homepage,
      )
    except OSError as error:
      raise files.cannot_write(folder, error) from None
    for name in ("features.json", "dataset_info.json"):  # by the last one a corpus is known
      files.write_bytes(out / name, pathlib.Path(folder, name).read_bytes())


def write_tags(out: str | os.PathLike, tags: Sequence[str]) -> None:
  """Writes `tags.txt`: the classes in the order of their ids, one a line."""
  files.write_text(pathlib.Path(out) / "tags.txt", "".join(f"{tag}\n" for tag in tags))
