"""The index of lengths: the number of pieces of every caption of a split, made for one vocabulary.

It is stored beside the records:

  DIR/lengths/SPLIT-1a2b3c4d/lengths.npy   pieces of each caption, including EOS: uint8 (uint16 if necessary)
  DIR/lengths/SPLIT-1a2b3c4d/layouts.npy   number of each record's layout, as the smallest unsigned integers
  DIR/lengths/SPLIT-1a2b3c4d/offsets.npy   uint32, captions before each record in its block of 4,096 records
  DIR/lengths/SPLIT-1a2b3c4d/blocks.npy    int64 [B + 1, 4], captions before each block, and the checksums (CRC32C) of
                                           its parts of the three files
  DIR/lengths/SPLIT-1a2b3c4d/index.json    the hash of the vocabulary, the sizes of the records, the layouts, which
                                           are the languages and sources of a record's captions (`en/human de/mt`),
                                           and the checksum of these and of blocks.npy

1a2b3c4d are the first digits of the hash (SHA-256 of the SentencePiece model). With one byte per caption, CC3M-35L's
112,821,180 captions take 129 MB, memory-mapped; of a bucket the blocks that are needed, once a host (block_array.py).
"""

import dataclasses
import io
import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from absl import logging

from xmcap import processes as processes_lib
from xmcap.data.block_array import BlockArray, sums_of
from xmcap.data.records import RecordSource, Stretch, parse_columns
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import addresses, files, outputs
from xmcap.progress import Say

_FORMAT = 3
SMALL = 10_000  # up to so many records, a run makes the index itself, in memory
_MOST_PIECES = 65_535  # longer captions count as this long

_INDEX, _BLOCKS = "index.json", "blocks.npy"
_ARRAYS = _LENGTHS, _LAYOUTS, _OFFSETS = "lengths.npy", "layouts.npy", "offsets.npy"
_BLOCK = 4_096  # records
_CHUNK = 2_048  # records per call of a process
_ENCODED = 4_096  # captions per call of SentencePiece

Counted = tuple[list[str], np.ndarray, np.ndarray]
"""For some records: the layouts, the number of each record's layout, the pieces of each caption."""


class LayoutCodes(NamedTuple):
  """The language and source of each caption of a record. `key` is equal for equal languages and sources."""

  key: bytes
  languages: tuple[bytes, ...]
  sources: tuple[bytes, ...]

  @classmethod
  def parse(cls, text: str) -> "LayoutCodes":
    """Reads the text of a layout, such as `en/human de/mt`."""
    pairs = [pair.split(b"/") for pair in text.encode().split()]
    return cls(text.encode(), tuple(language for language, _ in pairs), tuple(source for _, source in pairs))


@dataclasses.dataclass(frozen=True)
class SplitLengths:
  """Lengths of the captions of a split, in memory.

  Attributes:
    layouts: the languages and sources of a record's captions.
    layout_of: integers [N], the number of each record's layout.
    starts: int64 [N], the index of each record's first caption in `lengths`.
    lengths: uint8 or uint16, pieces of each caption, including EOS.
  """

  layouts: Sequence[LayoutCodes]
  layout_of: np.ndarray
  starts: np.ndarray
  lengths: np.ndarray

  @classmethod
  def of(cls, counted: Counted) -> "SplitLengths":
    layouts, layout_of, pieces = counted
    sizes = _sizes(layouts)[layout_of]
    return cls(list(map(LayoutCodes.parse, layouts)), layout_of, np.cumsum(sizes) - sizes, pieces)

  def at(self, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns `layout_of` and `starts` of records, int64 [N], of the split; their lengths are then valid."""
    return self.layout_of[records], self.starts[records]


class StoredLengths:
  """As `SplitLengths`, in the files of a folder, of which the blocks that are needed are read.

  Args:
    folder: the folder; begins the messages.
    about: the contents of index.json.
    again: what to do if the files are damaged.
  """

  def __init__(self, folder: str, about: Mapping[str, Any], again: str):
    self._folder, self._again = folder, again
    records = sum(about["records"]["shard_lengths"])
    stored = addresses.read_bytes(addresses.join(folder, _BLOCKS))
    if _checksum(stored, about["layouts"]) != about["crc32c"]:
      raise ValueError(f"{_BLOCKS} or a layout does not match the checksum")
    blocks, ends = np.load(io.BytesIO(stored), allow_pickle=False), _ends_of_blocks(records)
    self.layouts = list(map(LayoutCodes.parse, about["layouts"]))
    self._starts, version = blocks[:, 0], str(about["crc32c"])
    columns = zip(_ARRAYS, (self._starts, ends, ends), blocks[:-1, 1:].T.astype(np.uint32), strict=True)
    self._arrays = [
      BlockArray(addresses.join(folder, name), np.dtype(about["dtypes"][name]), bounds, sums, version)
      for name, bounds, sums in columns
    ]

  @property
  def lengths(self) -> np.ndarray:
    """Pieces of each caption; valid for the records that `at` was called with."""
    return self._arrays[0].array

  def at(self, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See `SplitLengths`; UsageError if a file is damaged."""
    of_record = records // _BLOCK
    blocks = np.unique(of_record)
    try:
      for array in self._arrays:
        array.need(blocks)
    except ValueError as error:
      raise UsageError(f"{self._folder} is damaged ({one_line(error)}): {self._again}") from None
    _, layouts, offsets = (array.array for array in self._arrays)
    return layouts[records], self._starts[of_record] + offsets[records]


class LengthIndex:
  """Lengths of the captions of the records of a source.

  Args:
    splits: the lengths of whole splits, by name.
    stretches: the ranges of their records that make up the source.
    chosen: int64 [N], indices of records in the stretches; None: all.
  """

  def __init__(
    self,
    splits: Mapping[str, SplitLengths | StoredLengths],
    stretches: Sequence[Stretch],
    chosen: np.ndarray | None = None,
  ):
    self._splits, self._chosen = list(splits.values()), chosen
    places = {name: place for place, name in enumerate(splits)}
    counts = np.array([stretch.count for stretch in stretches], np.int64)
    self._ends = np.cumsum(counts)
    self._shifts = np.array([stretch.first for stretch in stretches]) - (self._ends - counts)
    self._split_of = np.array([places[stretch.split] for stretch in stretches])

  @classmethod
  def whole(cls, lengths: SplitLengths) -> "LengthIndex":
    """Returns the index of a source that is one split."""
    return cls({"": lengths}, [Stretch("", 0, len(lengths.layout_of))])

  def at(
    self, indices: np.ndarray
  ) -> Iterator[tuple[np.ndarray, SplitLengths | StoredLengths, np.ndarray, np.ndarray]]:
    """Yields (rows, split, *its `at`) for each split that has some of the records at indices int64 [N]."""
    places = indices if self._chosen is None else self._chosen[indices]
    stretches = np.searchsorted(self._ends, places, side="right")
    records, splits = places + self._shifts[stretches], self._split_of[stretches]
    for number, split in enumerate(self._splits):
      rows = np.flatnonzero(splits == number)
      if rows.size:
        yield rows, split, *split.at(records[rows])


def folder_of(directory: addresses.Address, split: str, vocabulary: Vocabulary) -> str:
  """Returns the folder of the index of a whole split."""
  return addresses.join(directory, "lengths", f"{split}-{vocabulary.sha256[:8]}")


def index_of(source: RecordSource, vocabulary: Vocabulary) -> LengthIndex:
  """Returns the index for a source: the one stored beside it, or for a small source one made in memory.

  If a large source has none, or the index is outdated or damaged, UsageError gives the command that makes it.
  """
  splits = list(dict.fromkeys(stretch.split for stretch in source.stretches))
  stored = {split: lengths for split in splits if (lengths := read(source, split, vocabulary)) is not None}
  if len(stored) == len(splits):
    return LengthIndex(stored, source.stretches, source.chosen)
  if len(source) > SMALL:
    raise UsageError(
      f"{source.directory} has no index of lengths for '{source.split}' and {vocabulary.path}, which target_lengths "
      f"needs: make it with `{_command(source, vocabulary)}`"
    )
  logging.info("no index of lengths in %s: counting the pieces of %s", source.directory, source.split)
  return LengthIndex.whole(SplitLengths.of(_count(source, range(len(source)), vocabulary)))


def read(source: RecordSource, split: str, vocabulary: Vocabulary) -> StoredLengths | None:
  """Opens the index of a whole split; None if there is none, UsageError if it is outdated or damaged."""
  folder = folder_of(source.directory, split, vocabulary)
  again = f"make it again: `{_command(source, vocabulary)}`"
  try:
    about = json.loads(addresses.read_text(addresses.join(folder, _INDEX)))
    for name, expected in _facts(source, split, vocabulary).items():
      if about.get(name) != expected:
        raise UsageError(f"{folder}: the {name} changed after the index was made: {again}")
    return StoredLengths(folder, about, again)
  except FileNotFoundError:
    return None
  except XmcapError:
    raise
  except Exception as error:  # damaged files fail in many ways
    raise UsageError(f"{folder} is damaged ({one_line(error)}): {again}") from None


def write(
  directory: str | os.PathLike,
  vocabulary: Vocabulary,
  splits: Sequence[str],
  *,
  processes: int | None = None,
  say: Say | None = None,
) -> dict[str, int]:
  """Writes the index of each whole split beside its records; returns the number of captions of each.

  The files depend only on the records and the vocabulary, not on the number of processes (None: one per core). `say`
  receives progress lines.
  """
  if addresses.is_remote(directory):
    raise UsageError(
      f"{directory}: an index can only be written locally: index a local copy, and upload its folder `lengths`"
    )
  captions = {}
  for split in splits:
    source = RecordSource(directory, split)
    if split not in source.sizes or len(source) != sum(source.sizes[split]["shard_lengths"]):
      raise UsageError(f"--splits: '{split}' is a part of a split: give whole splits")
    noun = f"{split}: records counted for the index"
    parts = processes_lib.map_records(
      _count, source, vocabulary, chunk=_CHUNK, processes=processes, what=noun, say=say
    )
    layouts, layout_of, pieces = _merged(parts)
    folder = pathlib.Path(folder_of(directory, split, vocabulary))
    arrays, blocks = _blocks(layouts, layout_of, pieces)
    about = {
      **_facts(source, split, vocabulary),
      "captions": len(pieces),
      "dtypes": {name: array.dtype.str for name, array in arrays.items()},
      "crc32c": _checksum(blocks, layouts),
      "layouts": layouts,
    }
    with outputs.together(folder):
      for name, array in arrays.items():
        files.write_array(folder / name, array)
      files.write_bytes(folder / _BLOCKS, blocks)
      files.write_text(folder / _INDEX, json.dumps(about, indent=1) + "\n")
    captions[split] = len(pieces)
  return captions


def write_absent(
  directory: str | os.PathLike, vocabulary: Vocabulary, splits: Sequence[str], **options
) -> None:
  """Calls `write` for the splits without an index; UsageError if an existing index is outdated or damaged."""
  for split in splits:
    outputs.settle(folder_of(directory, split, vocabulary))
  absent = [split for split in splits if read(RecordSource(directory, split), split, vocabulary) is None]
  write(directory, vocabulary, absent, **options)


def _command(source: RecordSource, vocabulary: Vocabulary) -> str:
  """Returns the command that makes the index of a source."""
  splits = ",".join(dict.fromkeys(stretch.split for stretch in source.stretches))
  return f"xmcap data index {source.directory} --vocabulary={vocabulary.path} --splits={splits}"


def _facts(source: RecordSource, split: str, vocabulary: Vocabulary) -> dict[str, Any]:
  """Returns the facts about a split and a vocabulary that identify their index."""
  records = source.sizes[split]
  return {"format": _FORMAT, "split": split, "vocabulary": vocabulary.sha256, "records": records}


def _sizes(layouts: Sequence[str]) -> np.ndarray:
  """Returns int64: the number of captions of each layout."""
  return np.array([len(layout.split()) for layout in layouts], np.int64)


def _checksum(blocks: bytes, layouts: Sequence[str]) -> int:
  """Returns the CRC32C of the contents of blocks.npy and the layouts."""
  return google_crc32c.value(blocks + "\n".join(layouts).encode())


def _ends_of_blocks(records: int) -> np.ndarray:
  """Returns int64 [B + 1]: where each block of records begins, and the end of the last."""
  return np.minimum(np.arange(-(-records // _BLOCK) + 1) * _BLOCK, records)


def _blocks(
  layouts: Sequence[str], layout_of: np.ndarray, pieces: np.ndarray
) -> tuple[dict[str, np.ndarray], bytes]:
  """Returns the arrays of an index by the names of their files, and the contents of the file of their blocks."""
  ends = _ends_of_blocks(len(layout_of))
  starts = np.concatenate([[0], np.cumsum(_sizes(layouts)[layout_of])])
  offsets = starts[:-1] - np.repeat(starts[ends[:-1]], np.diff(ends))
  numbers = layout_of.astype(np.min_scalar_type(len(layouts) - 1))
  arrays = {_LENGTHS: pieces, _LAYOUTS: numbers, _OFFSETS: offsets.astype(np.uint32)}
  sums = [sums_of(pieces, starts[ends]), sums_of(numbers, ends), sums_of(arrays[_OFFSETS], ends)]
  table = np.column_stack([starts[ends], *(np.append(column.astype(np.int64), 0) for column in sums)])
  stored = io.BytesIO()
  np.save(stored, table, allow_pickle=False)
  return arrays, stored.getvalue()


def _count(source: RecordSource, indices: range, vocabulary: Vocabulary) -> Counted:
  layouts: dict[str, int] = {}
  layout_of: list[int] = []
  texts: list[str] = []
  for record in source.iterate(indices, parse_columns):
    pairs = zip(record.languages, record.sources, strict=True)
    layout = " ".join(f"{language.decode()}/{source.decode()}" for language, source in pairs)
    layout_of.append(layouts.setdefault(layout, len(layouts)))
    texts += [vocabulary.text_at(record, place) for place in range(len(record.texts))]
  pieces: list[int] = []
  for start in range(0, len(texts), _ENCODED):
    encoded = vocabulary.encode_all(texts[start : start + _ENCODED])
    pieces += [min(len(ids) + 1, _MOST_PIECES) for ids in encoded]
  return list(layouts), np.array(layout_of, np.uint32), np.array(pieces, np.uint16)


def _merged(parts: Iterable[Counted]) -> Counted:
  """Merges parts for successive records; stores pieces as the smallest sufficient integers."""
  layouts: dict[str, int] = {}
  numbers, pieces = [], []
  for names, layout_of, counts in parts:
    new = np.array([layouts.setdefault(name, len(layouts)) for name in names], np.uint32)
    numbers.append(new[layout_of])
    pieces.append(counts)
  longest = max((int(counts.max()) for counts in pieces if len(counts)), default=0)
  kind = np.min_scalar_type(longest)
  return list(layouts), np.concatenate(numbers), np.concatenate([counts.astype(kind) for counts in pieces])
