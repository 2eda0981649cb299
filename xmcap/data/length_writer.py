"""Making an index of lengths (lengths.py): from records, in parallel, or while a build writes them.

Memory is constant but for four bytes a record: parts are counted by other processes and written in order.
"""

import contextlib
import functools
import itertools
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from xmcap.data import lengths, workers
from xmcap.data.corpus import PartSource
from xmcap.data.lengths import LengthIndex
from xmcap.data.records import Record, RecordSource, parse_columns
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError
from xmcap.storage import addresses, files, whole_files

_CHUNK = 1_024  # records counted at a time by one process
_CHUNKS_EACH = 8  # that a process counts at least: it takes seconds to begin
_ENCODED = 4_096  # captions in one call of SentencePiece

T = TypeVar("T")
Part = tuple[list[str], np.ndarray, np.ndarray]
"""Of some records, one after the other: (layouts, the layout of each record, pieces of each caption as uint16)."""


def index(
  directory: str | os.PathLike,
  vocabulary: Vocabulary,
  splits: Sequence[str],
  *,
  parts: pathlib.Path | None = None,
  processes: int | None = None,
  progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, int]:
  """Writes the index of each split beside its records, in the place of one that was there.

  The files depend on the records and the vocabulary alone, not on the number of processes.

  Args:
    directory: of the records.
    vocabulary: whose pieces are counted.
    splits: names of whole splits.
    parts: a folder with what `Counted` kept; read where it is of all shards of a split.
    processes: None: one a core.
    progress: called with the split, records so far, and all of its records.

  Returns:
    Captions of each split.

  Raises:
    UsageError: there is no such split, or the folder is in a bucket.
    XmcapError: a record is damaged, or the disk is full or cannot be written.
  """
  if addresses.is_remote(directory):
    raise UsageError(
      f"{directory}: an index is written on this machine alone: index a local copy, and copy `lengths` to it"
    )
  captions = {}
  for split in splits:
    source = RecordSource(directory, split)
    if [(part.split, part.first) for part in source.stretches[:1]] != [(split, 0)] or len(source) != sum(
      source.sizes[split]["shard_lengths"]
    ):
      raise UsageError(f"--splits: '{split}' is a part of a split: the index is of whole ones")
    shown = functools.partial(progress, split) if progress else None
    kept = _kept(source, split, vocabulary, parts) if parts else None
    made = kept if kept is not None else _counted(source, vocabulary, processes, shown)
    captions[split] = _write(source, split, vocabulary, made)
  return captions


def index_absent(
  directory: str | os.PathLike, vocabulary: Vocabulary, splits: Sequence[str], **options
) -> dict[str, int]:
  """`index` of those of the splits that have none; UsageError where one is there that is of other records."""
  absent = [
    split for split in splits if lengths.read(RecordSource(directory, split), split, vocabulary) is None
  ]
  return index(directory, vocabulary, absent, **options)


def in_memory(source: RecordSource | PartSource, vocabulary: Vocabulary) -> LengthIndex:
  """The index of a small source, made on the calling thread and written nowhere."""
  layouts, layout_of, pieces = _count(source, 0, len(source), vocabulary)
  sizes = np.array([layout.count(" ") + 1 if layout else 0 for layout in layouts])[layout_of]
  return LengthIndex(layouts, layout_of, np.cumsum(sizes) - sizes, pieces)


class Counted:
  """Makes the records of a shard as `records` does, and keeps their part of the index in a file.

  Args:
    records: shard number -> records; can be pickled.
    vocabulary: whose pieces are counted.
    folder: of the files.
    split: name.
  """

  def __init__(
    self, records: Callable[[int], Iterable[Record]], vocabulary: Vocabulary, folder: pathlib.Path, split: str
  ):
    self._records, self._vocabulary, self._folder, self._split = records, vocabulary, folder, split

  def __call__(self, shard: int) -> Iterator[Record]:
    tally = _Tally(self._vocabulary)
    for record in self._records(shard):
      tally.add(
        [caption.language for caption in record.captions], [caption.text for caption in record.captions]
      )
      yield record
    layouts, layout_of, pieces = tally.part()
    path = _part_path(self._folder, self._split, shard, self._vocabulary)
    # To a file, not a name: numpy would add .npz to that.
    with files.whole(path) as file:
      np.savez(file, layouts=np.array(layouts, np.str_), layout_of=layout_of, pieces=pieces)


class _Tally:
  """Takes the captions of records one by one."""

  def __init__(self, vocabulary: Vocabulary):
    self._vocabulary = vocabulary
    self._layouts: dict[str, int] = {}
    self._layout_of: list[int] = []
    self._texts: list[str] = []
    self._pieces: list[np.ndarray] = []

  def add(self, codes: Sequence[str], texts: Sequence[str]) -> None:
    """The languages and texts of a record's captions."""
    self._layout_of.append(self._layouts.setdefault(" ".join(codes), len(self._layouts)))
    self._texts += texts
    if len(self._texts) >= _ENCODED:
      self._encode()

  def part(self) -> Part:
    """Of all records added."""
    self._encode()
    pieces = np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.uint16)
    return list(self._layouts), np.array(self._layout_of, np.uint32), pieces

  def _encode(self) -> None:
    pieces = [len(ids) + 1 for ids in self._vocabulary.encode_all(self._texts)]
    self._pieces.append(np.array(pieces, np.int64).clip(max=lengths.MOST_PIECES).astype(np.uint16))
    self._texts = []


def _count(source: RecordSource | PartSource, start: int, stop: int, vocabulary: Vocabulary) -> Part:
  tally = _Tally(vocabulary)
  for record in source.iterate(range(start, stop), parse_columns):
    tally.add([code.decode() for code in record.languages], [text.decode() for text in record.texts])
  return tally.part()


@functools.cache
def _vocabulary(path: str) -> Vocabulary:
  return Vocabulary(path)  # once a process, not once a part


def _count_part(source: RecordSource, start: int, stop: int, vocabulary: str) -> Part:
  return _count(source, start, stop, _vocabulary(vocabulary))


def _counted(
  source: RecordSource,
  vocabulary: Vocabulary,
  processes: int | None,
  progress: Callable[[int, int], None] | None,
) -> Iterator[Part]:
  starts = range(0, len(source), _CHUNK)
  stops = [min(start + _CHUNK, len(source)) for start in starts]
  processes = min(processes or files.available_cores(), len(starts) // _CHUNKS_EACH)
  arguments = (itertools.repeat(source), starts, stops, itertools.repeat(vocabulary.path))
  with contextlib.ExitStack() as stack:
    run = map if processes <= 1 else stack.enter_context(workers.pool(processes)).map
    for stop, part in zip(stops, run(_count_part, *arguments), strict=True):
      yield part
      if progress is not None:
        progress(stop, len(source))


def _part_path(folder: pathlib.Path, split: str, shard: int, vocabulary: Vocabulary) -> pathlib.Path:
  return folder / f"lengths-{split}-{vocabulary.sha256[:8]}-{shard}.npz"


def _kept(
  source: RecordSource, split: str, vocabulary: Vocabulary, folder: pathlib.Path
) -> Iterator[Part] | None:
  """What `Counted` kept of all shards of a split; None if it kept nothing of one."""
  paths = [
    _part_path(folder, split, shard, vocabulary) for shard in range(len(source.sizes[split]["shard_lengths"]))
  ]
  return map(_read_part, paths) if all(path.exists() for path in paths) else None


def _read_part(path: pathlib.Path) -> Part:
  with np.load(path, allow_pickle=False) as part:
    return part["layouts"].tolist(), part["layout_of"], part["pieces"]


def _write(source: RecordSource, split: str, vocabulary: Vocabulary, parts: Iterable[Part]) -> int:
  """Writes an index into a folder of its own, which then takes its place; returns the captions."""
  folder = pathlib.Path(lengths.folder_of(source.directory, split, vocabulary))
  try:
    folder.parent.mkdir(exist_ok=True)
    whole_files.clear(folder.parent)
    with _replacing_folder(folder) as temporary:
      raw = temporary / "pieces"
      captions, layouts, layout_of = 0, {}, []
      with files.output(raw) as file:
        for names, numbers, pieces in parts:
          new = np.array([layouts.setdefault(name, len(layouts)) for name in names], np.uint32)
          layout_of.append(new[numbers])
          captions += len(pieces)
          file.write(pieces.tobytes())
      about = lengths.facts(source, split, vocabulary)
      pieces = np.memmap(raw, np.uint16, "r", shape=(captions,)) if captions else np.zeros(0, np.uint16)
      lengths.write(temporary, about, list(layouts), np.concatenate(layout_of), pieces)
      raw.unlink()
  except OSError as error:
    raise files.cannot_write(folder, error) from None
  return captions


@contextlib.contextmanager
def _replacing_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """`files.replacing` for a folder; what lay there before goes."""
  temporary = folder.with_name(f".{folder.name}.{os.getpid()}.incomplete")
  shutil.rmtree(temporary, ignore_errors=True)
  temporary.mkdir()
  try:
    yield temporary
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
  finally:
    shutil.rmtree(temporary, ignore_errors=True)
