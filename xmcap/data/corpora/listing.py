"""The pictures that a release names, in its order: read from its own file, a shard at a time."""

import abc
import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np

from xmcap.errors import UsageError
from xmcap.storage import files
from xmcap.terminal import shown

MAX_PICTURES = 50_000_000
"""Lines of a listing; CC12M would have 12 million."""

_PIECE = 16 << 20


@dataclasses.dataclass(frozen=True)
class Wanted:
  """A picture: its key in the records, where the release names it, and its name or its address (the other is None)."""

  key: str
  where: str
  name: str | None
  url: str | None = None


@dataclasses.dataclass(frozen=True)
class Listing(abc.ABC):
  """A file with a line a picture. Picklable.

  Attributes:
    path: of the file.
    count: pictures.
    offsets: int64 [shards + 1], the byte at which each shard's first line begins, and the end.
    shard_pictures: pictures in a shard; the last may have fewer.
  """

  path: pathlib.Path
  count: int
  offsets: np.ndarray
  shard_pictures: int

  @property
  def shards(self) -> list[int]:
    """The number of pictures of each shard."""
    return [
      min(self.shard_pictures, self.count - start) for start in range(0, self.count, self.shard_pictures)
    ]

  def wanted(self, shard: int) -> Iterator[Wanted]:
    """The pictures of a shard, in order."""
    with open(self.path, "rb") as file:
      file.seek(int(self.offsets[shard]))
      text = file.read(int(self.offsets[shard + 1] - self.offsets[shard]))
    lines = text.split(b"\n")[: self.shards[shard]]
    for number, line in enumerate(lines, shard * self.shard_pictures + 1):
      yield self._wanted(number, line.rstrip(b"\r"))

  @abc.abstractmethod
  def _wanted(self, number: int, line: bytes) -> Wanted:
    """The picture of a line; `number` counts from 1."""


class NamedListing(Listing):
  """Lines `key<TAB>name`, as `write_named` writes them."""

  def _wanted(self, number: int, line: bytes) -> Wanted:
    key, name = line.decode().split("\t")
    return Wanted(key, name, name)


class AddressListing(Listing):
  """The TSV of Conceptual Captions, `caption<TAB>url`; a picture's key is the number of its line, eight digits."""

  def _wanted(self, number: int, line: bytes) -> Wanted:
    key = f"{number:08d}"
    url = line.rpartition(b"\t")[2].decode("utf-8", "replace")
    return Wanted(key, f"{self.path.name}, line {number} ({shown(url)})", key, url)


def write_named(path: pathlib.Path, pictures: list[tuple[str, str]], shard_pictures: int) -> NamedListing:
  """Writes (key, name) pairs and lists them."""
  files.write_text(path, "".join(f"{key}\t{name}\n" for key, name in pictures))
  return NamedListing(path, *_offsets(path, shard_pictures), shard_pictures)


def read_addresses(path: pathlib.Path, shard_pictures: int) -> AddressListing:
  """Lists a TSV; UsageError if it is absent or empty, too long, or its first line has no address."""
  try:
    with open(path, "rb") as file:
      first = file.readline(1 << 20)
    if b"://" not in first.rpartition(b"\t")[2]:
      raise UsageError(f"{path}, line 1: no `caption<TAB>address`: give the TSV as it was published")
    return AddressListing(path, *_offsets(path, shard_pictures), shard_pictures)
  except OSError as error:
    raise UsageError(f"cannot read {path}: {error.strerror}; give the TSV as it was published") from None


def _offsets(path: pathlib.Path, shard_pictures: int) -> tuple[int, np.ndarray]:
  """The number of lines of a file, and `Listing.offsets`."""
  offsets, count, read, last = [0], 0, 0, b""
  with open(path, "rb") as file:
    while piece := file.read(_PIECE):
      ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n"))
      # Of lines that end here, those after which a shard is full.
      full = np.arange(-(count + 1) % shard_pictures, len(ends), shard_pictures)
      offsets += (read + 1 + ends[full]).tolist()
      count += len(ends)
      if count > MAX_PICTURES:
        raise UsageError(f"{path}: over {MAX_PICTURES:,} lines: give the TSV as it was published")
      read += len(piece)
      last = piece[-1:]
  if last not in (b"\n", b""):
    count += 1
  if offsets[-1] != read:
    offsets.append(read)
  return count, np.array(offsets, np.int64)
