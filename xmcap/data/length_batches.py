"""Batches by length: which images are in a batch, and its target length, before a record is read.

With several lengths, the plan follows from the index of lengths, the number of pieces of every caption of a split, so
all processes compute the same plan. The index is made for one vocabulary and stored beside the records:

  DIR/lengths/SPLIT-1a2b3c4d/lengths.npy   pieces of each caption, including EOS: uint8 (uint16 if necessary)
  DIR/lengths/SPLIT-1a2b3c4d/layouts.npy   number of each record's layout, as the smallest unsigned integers
  DIR/lengths/SPLIT-1a2b3c4d/index.json    the hash of the vocabulary, the sizes of the records, and the layouts, which
                                           are the languages and sources of a record's captions: `en/human de/mt`

1a2b3c4d are the first digits of the hash (SHA-256 of the SentencePiece model). With one byte per caption, CC3M-35L's
112,821,180 captions take 120 MB, memory-mapped (or read into memory from a bucket).
"""

import dataclasses
import functools
import io
import json
import os
import pathlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from xmcap import processes as processes_lib
from xmcap.data import draws
from xmcap.data.caption_choice import Drawing
from xmcap.data.order import Order
from xmcap.data.records import RecordSource, parse_columns
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import addresses, files, outputs
from xmcap.progress import Say

_FORMAT = 2
SMALL = 10_000  # up to so many records, a run makes the index itself, in memory
_MOST_PIECES = 65_535  # longer captions count as this long

_INDEX, _LENGTHS, _LAYOUTS = "index.json", "lengths.npy", "layouts.npy"
_NEIGHBOURS = 16  # cached batches before and after a batch
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
class LengthIndex:
  """Lengths of the captions of N records.

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


def folder_of(directory: addresses.Address, split: str, vocabulary: Vocabulary) -> str:
  """Returns the folder of the index of a whole split."""
  return addresses.join(directory, "lengths", f"{split}-{vocabulary.sha256[:8]}")


def index_of(source: RecordSource, vocabulary: Vocabulary) -> LengthIndex:
  """Returns the index for a source: the one stored beside it, or for a small source one made in memory.

  If a large source has none, or the index is outdated or damaged, UsageError gives the command that makes it.
  """
  splits = list(dict.fromkeys(stretch.split for stretch in source.stretches))
  indexes = [counted for split in splits if (counted := read(source, split, vocabulary)) is not None]
  if len(indexes) == len(splits):
    sizes = [len(layout_of) for _, layout_of, _ in indexes]
    first_of = dict(zip(splits, np.cumsum([0, *sizes]).tolist(), strict=False))
    places = [np.arange(part.count) + part.first + first_of[part.split] for part in source.stretches]
    counted = indexes[0] if len(indexes) == 1 else _merged(indexes)
    chosen = np.concatenate(places)
    return _index(counted, chosen if source.chosen is None else chosen[source.chosen])
  if len(source) > SMALL:
    raise UsageError(
      f"{source.directory} has no index of lengths for '{source.split}' and {vocabulary.path}, which target_lengths "
      f"needs: make it with `{_command(source, vocabulary)}`"
    )
  logging.info("no index of lengths in %s: counting the pieces of %s", source.directory, source.split)
  return _index(_count(source, range(len(source)), vocabulary), np.arange(len(source)))


def _index(counted: Counted, chosen: np.ndarray) -> LengthIndex:
  """Returns the index of the chosen records."""
  layouts, layout_of, pieces = counted
  sizes = _sizes(layouts)[layout_of]
  starts = np.cumsum(sizes) - sizes
  return LengthIndex(list(map(LayoutCodes.parse, layouts)), layout_of[chosen], starts[chosen], pieces)


def read(source: RecordSource, split: str, vocabulary: Vocabulary) -> Counted | None:
  """Reads the index of a whole split; None if there is none, UsageError if it is outdated or damaged."""
  folder = folder_of(source.directory, split, vocabulary)
  again = f"make it again: `{_command(source, vocabulary)}`"
  try:
    about = json.loads(addresses.read_text(addresses.join(folder, _INDEX)))
    layouts = about["layouts"]
    for name, expected in _facts(source, split, vocabulary).items():
      if about.get(name) != expected:
        raise UsageError(f"{folder}: the {name} changed after the index was made: {again}")
    lengths, layout_of = (_array(addresses.join(folder, name)) for name in (_LENGTHS, _LAYOUTS))
    if not all(pair.count("/") == 1 for layout in layouts for pair in layout.split()):
      raise ValueError("a layout is not of LANGUAGE/SOURCE")
    captions, records = _sizes(layouts)[layout_of].sum(), sum(about["records"]["shard_lengths"])
    if lengths.shape != (captions,) or layout_of.shape != (records,):
      raise ValueError("a file is too short or too long")
  except FileNotFoundError:
    return None
  except XmcapError:
    raise
  except Exception as error:  # damaged files fail in many ways
    raise UsageError(f"{folder} is damaged ({one_line(error)}): {again}") from None
  return layouts, layout_of, lengths


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
    about = {**_facts(source, split, vocabulary), "captions": len(pieces), "layouts": layouts}
    with outputs.together(folder):
      files.write_array(folder / _LENGTHS, pieces)
      files.write_array(folder / _LAYOUTS, layout_of.astype(np.min_scalar_type(len(layouts) - 1)))
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


def _array(address: str) -> np.ndarray:
  """Returns the array in a file, memory-mapped if it is local."""
  if addresses.is_remote(address):
    return np.load(io.BytesIO(addresses.read_bytes(address)), allow_pickle=False)
  return np.load(address, mmap_mode="r", allow_pickle=False)


def _count(source: RecordSource, indices: range, vocabulary: Vocabulary) -> Counted:
  layouts: dict[str, int] = {}
  layout_of: list[int] = []
  texts: list[str] = []
  for record in source.iterate(indices, parse_columns):
    pairs = zip(record.languages, record.sources, strict=True)
    layout = " ".join(f"{language.decode()}/{source.decode()}" for language, source in pairs)
    layout_of.append(layouts.setdefault(layout, len(layouts)))
    texts += [text.decode() for text in record.texts]
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


class LengthBatch(NamedTuple):
  """The plan of a batch: the positions of its images, int64 [B], and its target length T."""

  positions: np.ndarray
  length: int


class LengthBatches:
  """The batches of a stream, by step.

  Args:
    drawing: draws languages and captions.
    indexes: for each corpus, the index of the lengths of its captions; () if there is only one length.
    order: the images at the positions of the stream.
    images: B.
    lengths: possible values of T, ascending. A batch gets the smallest that fits all its captions, or the largest.
    window: number of batches whose images are sorted by caption length among each other; 1 keeps the order.
    prompts: if captions are drawn in pairs, the number of tokens of each language's LangId, which a target contains
      together with both captions (see `families/plugs/stabilizer.py`).
  """

  def __init__(
    self,
    drawing: Drawing,
    indexes: Sequence[LengthIndex],
    order: Order,
    images: int,
    lengths: Sequence[int],
    window: int = 1,
    prompts: Sequence[int] = (),
  ):
    self._drawing, self._indexes, self._order = drawing, indexes, order
    self._prompts = np.array(prompts)
    self._num_images, self._lengths, self._window = images, np.array(lengths), window
    # Cached, because threads work on neighbouring steps.
    self._kept = functools.lru_cache(maxsize=1 + 2 * -(-_NEIGHBOURS // window))(self._made)
    self._lock = threading.Lock()

  def batch(self, step: int) -> LengthBatch:
    """Returns the batch of a step, independent of earlier calls."""
    with self._lock:
      return self._kept(step // self._window)[step % self._window]

  def mix(self, steps: int) -> dict[int, float]:
    """Returns T -> share of batches of that length among the first `steps` steps, rounded down to whole windows."""
    if len(self._lengths) == 1:
      return {int(self._lengths[0]): 1.0}
    windows = range(max(1, steps // self._window))
    counts = Counter(batch.length for window in windows for batch in self._made(window))
    return {length: counts[length] / counts.total() for length in self._lengths.tolist()}

  def _made(self, window: int) -> list[LengthBatch]:
    size = self._window * self._num_images
    positions = np.arange(size, dtype=np.int64) + window * size
    if len(self._lengths) == 1:
      return [LengthBatch(positions, int(self._lengths[0]))]
    longest = self._longest(positions)
    batches = np.arange(size).reshape(self._window, self._num_images)
    if self._window > 1:
      # The batches of a window are shuffled, so that training does not go from short to long.
      order = np.argsort(draws.bits(self._drawing.seed, "window", np.array([window]), self._window)[0])
      batches = np.argsort(longest, kind="stable").reshape(batches.shape)
      if self._order.neighbours > 1:
        batches = self._dealt(batches, longest)
      batches = batches[order]
    fitting = self._fitting(longest[batches])
    return [
      LengthBatch(positions[rows], int(self._lengths[place]))
      for rows, place in zip(batches, fitting, strict=True)
    ]

  def _dealt(self, batches: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """Deals images out among the batches of one target length again, int64 [W, B], in the order of their positions.

    So the images of a chunk are in about the same rows of these batches, and a process, which has the same rows of all
    batches, can read most of them together.
    """
    fitting, dealt = self._fitting(longest[batches]), np.empty_like(batches)
    for number in np.unique(fitting):
      same = fitting == number
      dealt[same] = np.sort(batches[same], axis=None).reshape(batches.shape[1], -1).T
    return dealt

  def _fitting(self, longest: np.ndarray) -> np.ndarray:
    """Returns int64 [W]: the number of the smallest target length that fits all captions of a batch, [W, B]."""
    return np.searchsorted(self._lengths[:-1], longest.max(axis=1))

  def _longest(self, positions: np.ndarray) -> np.ndarray:
    """Returns int64 [N]: pieces of the longest drawn caption of each image, including EOS; 0 if there is none."""
    images = self._order.at(positions)
    drawn = self._drawing.at(images)
    longest = np.zeros(len(positions), np.int64)
    for part, index in enumerate(self._indexes):
      of_part = np.flatnonzero(images.parts == part)
      indices = images.indices[of_part] - self._order.starts[part]
      layouts = index.layout_of[indices]
      by_layout = np.argsort(layouts, kind="stable")
      for group in np.split(by_layout, np.flatnonzero(np.diff(layouts[by_layout])) + 1):
        if not group.size:
          continue
        rows, layout = of_part[group], index.layouts[int(layouts[group[0]])]
        choices = self._drawing.layout(part, *layout)
        columns, places = drawn(rows, choices)
        if columns[0, 0] < len(self._drawing.languages):  # otherwise there is no caption in these languages
          starts = index.starts[indices[group], None]
          pieces = index.lengths[starts + places].astype(np.int64)
          if self._drawing.pivot:
            own = choices.pivots[places]
            # Both lengths count an EOS; the separator takes the place of one.
            pivot = index.lengths[starts + own].astype(np.int64)
            pieces = pivot + self._prompts[columns] + np.where(own == places, 1, pieces)
          longest[rows] = pieces.max(axis=1)
    return longest
