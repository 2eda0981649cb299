"""The index of lengths: the pieces of every caption of a split, so that batches are planned before they are read.

It is made for one vocabulary and lies beside the records:

  DIR/lengths/SPLIT-1a2b3c4d/lengths.npy   pieces of each caption, its end included: uint8 (uint16 if one needs it)
  DIR/lengths/SPLIT-1a2b3c4d/layouts.npy   number of each record's layout: the smallest unsigned integers that hold it
  DIR/lengths/SPLIT-1a2b3c4d/index.json    the vocabulary's hash, the records' sizes, and the layouts: the languages of
                                           a record's captions, one after the other

1a2b3c4d are the first digits of the hash (SHA-256 of the SentencePiece model). A byte a caption: CC3M-35L's 112,821,180
captions take 120 MB, mapped into memory (of an index in a bucket: read into it).
"""

import dataclasses
import io
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from absl import logging

from xmcap.data import workers
from xmcap.data.records import RecordSource, parse_columns
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.progress import Say
from xmcap.storage import addresses, files, outputs

FORMAT = 1
SMALL = 10_000  # records of a split whose index a run makes for itself, in memory
MOST_PIECES = 65_535  # the length that longer captions are counted with

_INDEX, _LENGTHS, _LAYOUTS = "index.json", "lengths.npy", "layouts.npy"
_CHUNK = 2_048  # records counted at a time by one process
_ENCODED = 4_096  # captions in one call of SentencePiece

Counted = tuple[list[str], np.ndarray, np.ndarray]
"""Of some records: their layouts, the number of each record's layout, the pieces of each caption."""


@dataclasses.dataclass(frozen=True)
class LengthIndex:
  """Lengths of the captions of N records.

  Attributes:
    layouts: the codes of a record's captions, spaces between.
    layout_of: integers [N], the number of each record's layout.
    starts: int64 [N], the first caption of each record in `lengths`.
    lengths: uint8 or uint16, pieces of each caption, its end included.
  """

  layouts: Sequence[str]
  layout_of: np.ndarray
  starts: np.ndarray
  lengths: np.ndarray


def folder_of(directory: addresses.Address, split: str, vocabulary: Vocabulary) -> str:
  """The folder of a whole split's index."""
  return addresses.join(directory, "lengths", f"{split}-{vocabulary.sha256[:8]}")


def index_of(source: RecordSource, vocabulary: Vocabulary) -> LengthIndex:
  """The index of the records of a source: the one beside them, or for a small source one made in memory.

  UsageError names the command that makes it where there is none for a large source, or a wrong or damaged one.
  """
  splits = list(dict.fromkeys(stretch.split for stretch in source.stretches))
  found = [counted for split in splits if (counted := read(source, split, vocabulary)) is not None]
  if len(found) == len(splits):
    sizes = [len(layout_of) for _, layout_of, _ in found]
    first_of = dict(zip(splits, np.cumsum([0, *sizes]).tolist(), strict=False))
    places = [np.arange(part.count) + part.first + first_of[part.split] for part in source.stretches]
    counted = found[0] if len(found) == 1 else _merged(found)
    chosen = np.concatenate(places)
    return _index(counted, chosen if source.chosen is None else chosen[source.chosen])
  if len(source) > SMALL:
    raise UsageError(
      f"{source.directory} has no index of the lengths of '{source.split}' in pieces of {vocabulary.path}, which "
      f"target_lengths needs: `{_command(source, vocabulary)}` makes it"
    )
  logging.info("no index of lengths in %s: counting the pieces of %s", source.directory, source.split)
  return _index(_count(source, range(len(source)), vocabulary), np.arange(len(source)))


def _index(counted: Counted, chosen: np.ndarray) -> LengthIndex:
  """The index of some of the records counted."""
  layouts, layout_of, pieces = counted
  sizes = _sizes(layouts)[layout_of]
  starts = np.cumsum(sizes) - sizes
  return LengthIndex(layouts, layout_of[chosen], starts[chosen], pieces)


def read(source: RecordSource, split: str, vocabulary: Vocabulary) -> Counted | None:
  """What the index of a whole split says; None where there is none, UsageError if it is of other records or damaged."""
  folder = folder_of(source.directory, split, vocabulary)
  again = f"make it again: `{_command(source, vocabulary)}`"
  try:
    about = json.loads(addresses.read_text(addresses.join(folder, _INDEX)))
    layouts = about["layouts"]
    for name, expected in _facts(source, split, vocabulary).items():
      if about.get(name) != expected:
        raise UsageError(f"{folder} is an index of other {name} than there are now: {again}")
    lengths, layout_of = (_array(addresses.join(folder, name)) for name in (_LENGTHS, _LAYOUTS))
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
  """Writes the index of each whole split beside its records; returns the captions of each.

  The files depend on the records and the vocabulary alone, not on the number of processes (None: one a core). `say`
  gets lines on the progress.
  """
  if addresses.is_remote(directory):
    raise UsageError(
      f"{directory}: an index is written on this machine alone: index a local copy, and copy `lengths` to it"
    )
  captions = {}
  for split in splits:
    source = RecordSource(directory, split)
    if split not in source.sizes or len(source) != sum(source.sizes[split]["shard_lengths"]):
      raise UsageError(f"--splits: '{split}' is a part of a split: the index is of whole ones")
    what = f"{split}: lengths counted of records"
    parts = workers.map_records(
      _count, source, vocabulary, chunk=_CHUNK, processes=processes, what=what, say=say
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
  """`write` for those of the splits that have no index; UsageError where one is there that is of other records."""
  for split in splits:
    outputs.settle(folder_of(directory, split, vocabulary))
  absent = [split for split in splits if read(RecordSource(directory, split), split, vocabulary) is None]
  write(directory, vocabulary, absent, **options)


def _command(source: RecordSource, vocabulary: Vocabulary) -> str:
  """The command that makes the index of a source."""
  splits = ",".join(dict.fromkeys(stretch.split for stretch in source.stretches))
  return f"xmcap data index {source.directory} --vocabulary={vocabulary.path} --splits={splits}"


def _facts(source: RecordSource, split: str, vocabulary: Vocabulary) -> dict[str, Any]:
  """The facts of a split and a vocabulary by which their index is known."""
  records = source.sizes[split]
  return {"format": FORMAT, "split": split, "vocabulary": vocabulary.sha256, "records": records}


def _sizes(layouts: Sequence[str]) -> np.ndarray:
  """The captions of a record of each layout: int64."""
  return np.array([len(layout.split()) for layout in layouts], np.int64)


def _array(address: str) -> np.ndarray:
  """The array of a file: mapped into memory, or of an object read into it."""
  if addresses.is_remote(address):
    return np.load(io.BytesIO(addresses.read_bytes(address)), allow_pickle=False)
  return np.load(address, mmap_mode="r", allow_pickle=False)


def _count(source: RecordSource, indices: range, vocabulary: Vocabulary) -> Counted:
  layouts: dict[str, int] = {}
  layout_of: list[int] = []
  texts: list[str] = []
  pieces: list[int] = []

  def encode() -> None:
    encoded = vocabulary.encode_all(texts)
    pieces.extend(min(len(ids) + 1, MOST_PIECES) for ids in encoded)
    texts.clear()

  for record in source.iterate(indices, parse_columns):
    layout = b" ".join(record.languages).decode()
    layout_of.append(layouts.setdefault(layout, len(layouts)))
    texts += [text.decode() for text in record.texts]
    if len(texts) >= _ENCODED:
      encode()
  encode()
  return list(layouts), np.array(layout_of, np.uint32), np.array(pieces, np.uint16)


def _merged(parts: Iterable[Counted]) -> Counted:
  """The parts of successive records as one, the pieces as the smallest integers that hold them."""
  layouts: dict[str, int] = {}
  numbers, pieces = [], []
  for names, layout_of, counts in parts:
    new = np.array([layouts.setdefault(name, len(layouts)) for name in names], np.uint32)
    numbers.append(new[layout_of])
    pieces.append(counts)
  longest = max((int(counts.max()) for counts in pieces if len(counts)), default=0)
  kind = np.min_scalar_type(longest)
  return list(layouts), np.concatenate(numbers), np.concatenate([counts.astype(kind) for counts in pieces])
