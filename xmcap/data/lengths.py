"""The index of lengths: for each caption of a split its pieces, so that batches are planned before they are read.

It is made for one vocabulary and lies beside the records (length_writer.py makes it):

  DIR/lengths/SPLIT-1a2b3c4d/lengths.npy   pieces of each caption, its end included: uint8 (uint16 if one needs it)
  DIR/lengths/SPLIT-1a2b3c4d/layouts.npy   layout of each record: the smallest unsigned integers that hold the numbers
  DIR/lengths/SPLIT-1a2b3c4d/index.json    the vocabulary's hash, the records' sizes, the layouts: the languages of a
                                           record's captions, one after the other

1a2b3c4d are the first digits of the hash (SHA-256 of the SentencePiece model). A byte a caption: CC3M-35L's 112,821,180
captions take 120 MB, mapped into memory (of an index in a bucket: read into it).
"""

import dataclasses
import io
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from xmcap.data.corpus import PartSource
from xmcap.data.records import RecordSource
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, one_line
from xmcap.storage import addresses, files

FORMAT = 1
SMALL = 10_000
"""Records of a split whose index a run makes for itself, in memory."""
MOST_PIECES = 65_535
"""Longer captions count as of so many pieces."""

_INDEX, _LENGTHS, _LAYOUTS = "index.json", "lengths.npy", "layouts.npy"


@dataclasses.dataclass(frozen=True)
class LengthIndex:
  """Lengths of the captions of N records.

  Attributes:
    layouts: each the codes of a record's captions, spaces between.
    layout_of: integers [N], the layout of each record.
    starts: int64 [N], where the captions of each record begin in `lengths`.
    lengths: uint8 or uint16, pieces of each caption, its end included; `MOST_PIECES` at most.
  """

  layouts: Sequence[str]
  layout_of: np.ndarray
  starts: np.ndarray
  lengths: np.ndarray

  def of_records(self, indices: np.ndarray) -> "LengthIndex":
    """The index of some of the records: those at int64 [M], in this order."""
    return dataclasses.replace(self, layout_of=self.layout_of[indices], starts=self.starts[indices])


def folder_of(directory: addresses.Address, split: str, vocabulary: Vocabulary) -> str:
  """Where the index of a whole split lies."""
  return addresses.join(directory, "lengths", f"{split}-{vocabulary.sha256[:8]}")


def index_of(source: RecordSource | PartSource, vocabulary: Vocabulary) -> LengthIndex:
  """The index of the records of a source: the one beside them, or for a small source one made in memory.

  Raises:
    UsageError: there is none and the source is large, or it was made of other records, or it is damaged; says which
      command makes it.
  """
  found = _held(source, vocabulary)
  if found is not None:
    return found
  whole = source.whole if isinstance(source, PartSource) else source
  if len(source) > SMALL:
    raise UsageError(
      f"{source.directory} has no index of the lengths of '{source.split}' in pieces of {vocabulary.path}, which "
      f"target_lengths needs: `{command(whole, vocabulary)}` makes it"
    )
  from xmcap.data import length_writer  # only a small corpus needs it

  logging.info("no index of lengths in %s: counting the pieces of %s", source.directory, source.split)
  return length_writer.in_memory(source, vocabulary)


def command(source: RecordSource, vocabulary: Vocabulary) -> str:
  """The command that makes the index of a source."""
  splits = ",".join(dict.fromkeys(stretch.split for stretch in source.stretches))
  return f"xmcap data index {source.directory} --vocabulary={vocabulary.path} --splits={splits}"


def write(
  folder: pathlib.Path,
  about: Mapping[str, Any],
  layouts: Sequence[str],
  layout_of: np.ndarray,
  lengths: np.ndarray,
) -> None:
  """Writes the files of an index into a folder, `index.json` last.

  Args:
    folder: there, and empty.
    about: of `facts`.
    layouts, layout_of, lengths: as in `LengthIndex`; `lengths` may lie in a file.
  """
  files.write_array(folder / _LAYOUTS, layout_of.astype(np.min_scalar_type(len(layouts) - 1)))
  chunk = 1 << 22
  starts = range(0, len(lengths), chunk)
  longest = max((int(lengths[start : start + chunk].max()) for start in starts), default=0)
  kind = np.min_scalar_type(longest)
  # Written, not mapped: a disk that is full would end the process with SIGBUS.
  with files.output(folder / _LENGTHS) as out:
    about_array = {"descr": kind.str, "fortran_order": False, "shape": lengths.shape}
    np.lib.format.write_array_header_1_0(out, about_array)
    for start in starts:
      out.write(lengths[start : start + chunk].astype(kind).tobytes())
  text = json.dumps({**about, "captions": len(lengths), "layouts": list(layouts)}, indent=1)
  files.write_text(folder / _INDEX, text + "\n")


def facts(source: RecordSource, split: str, vocabulary: Vocabulary) -> dict[str, Any]:
  """What an index of a split must agree with."""
  return {
    "format": FORMAT,
    "split": split,
    "vocabulary": vocabulary.sha256,
    "records": source.sizes[split],
  }


def _held(source: RecordSource | PartSource, vocabulary: Vocabulary) -> LengthIndex | None:
  if isinstance(source, PartSource):
    whole = _held(source.whole, vocabulary)
    return None if whole is None else whole.of_records(source.indices)
  splits = list(dict.fromkeys(stretch.split for stretch in source.stretches))
  wholes = []
  for split in splits:
    index = read(source, split, vocabulary)
    if index is None:
      return None
    wholes.append(index)
  joined, firsts = (wholes[0], {splits[0]: 0}) if len(wholes) == 1 else _joined(splits, wholes)
  return joined.of_records(
    np.concatenate([np.arange(part.count) + part.first + firsts[part.split] for part in source.stretches])
  )


def read(source: RecordSource, split: str, vocabulary: Vocabulary) -> LengthIndex | None:
  """The index of a whole split of a source's folder; None where there is none.

  Raises:
    UsageError: it was made of other records or for another vocabulary, or is damaged.
  """
  folder = folder_of(source.directory, split, vocabulary)
  again = f"make it again: `{command(source, vocabulary)}`"
  try:
    about = json.loads(addresses.read_text(addresses.join(folder, _INDEX)))
    layouts = about.pop("layouts")
    captions = about.pop("captions")
    if not isinstance(layouts, list):
      raise ValueError("layouts are no list")
    expected = facts(source, split, vocabulary)
    different = [name for name in expected if about.get(name) != expected[name]]
    if different:
      raise UsageError(f"{folder} is an index of other {different[0]} than there are now: {again}")
    lengths, layout_of = (_array(addresses.join(folder, name)) for name in (_LENGTHS, _LAYOUTS))
    sizes = np.array([layout.count(" ") + 1 if layout else 0 for layout in layouts])
    ends = np.cumsum(sizes[layout_of])
    if lengths.shape != (captions,) or len(layout_of) != sum(about["records"]["shard_lengths"]):
      raise ValueError("a file is too short or too long")
    if len(ends) and ends[-1] != captions:
      raise ValueError(f"{ends[-1]} captions in layouts, not {captions}")
  except FileNotFoundError:
    return None
  except (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
  ) as error:
    raise UsageError(f"{folder} is damaged ({one_line(error)}): {again}") from None
  return LengthIndex(layouts, layout_of, ends - sizes[layout_of], lengths)


def _array(address: str) -> np.ndarray:
  """The array of a file: mapped into memory, or of an object read into it."""
  if addresses.is_remote(address):
    return np.load(io.BytesIO(addresses.read_bytes(address)), allow_pickle=False)
  return np.load(address, mmap_mode="r", allow_pickle=False)


def _joined(splits: Sequence[str], wholes: Sequence[LengthIndex]) -> tuple[LengthIndex, dict[str, int]]:
  """One index of several splits, held in memory, and the first record of each split in it."""
  firsts = np.cumsum([0, *(len(whole.starts) for whole in wholes)])
  layouts = np.cumsum([0, *(len(whole.layouts) for whole in wholes)])
  captions = np.cumsum([0, *(len(whole.lengths) for whole in wholes)])
  index = LengthIndex(
    [layout for whole in wholes for layout in whole.layouts],
    np.concatenate([whole.layout_of + first for whole, first in zip(wholes, layouts, strict=False)]),
    np.concatenate([whole.starts + first for whole, first in zip(wholes, captions, strict=False)]),
    np.concatenate([whole.lengths for whole in wholes]),
  )
  return index, dict(zip(splits, firsts.tolist(), strict=False))
