"""The list of pictures that a split should have, in order, in one file per shard."""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable

import msgspec

from xmcap.data.corpora.plans import Work
from xmcap.data.records import Caption
from xmcap.storage import files


@dataclasses.dataclass(frozen=True)
class Wanted:
  """A picture that a release names.

  Attributes:
    key: its key in the records.
    where: its place in the release, for messages.
    name: the name of its file, for `Pictures.read`.
    url: its URL, if the release has it; used instead of the name if the URLs of the pictures are known.
    captions: captions known beforehand; others may come from `spill.Spilled`.
    tags: its classes; a picture with tags may have no captions.
    tags_by_language: language code -> tags.
  """

  key: str
  where: str
  name: str
  url: str = ""
  locale: str = ""
  captions: list[Caption] = dataclasses.field(default_factory=list)
  tags: list[str] = dataclasses.field(default_factory=list)
  tags_by_language: dict[str, list[str]] = dataclasses.field(default_factory=dict)


_WANTED = msgspec.json.Decoder(list[Wanted])


@dataclasses.dataclass(frozen=True)
class Listing:
  """The list of pictures of a split, stored in a folder. Picklable."""

  folder: pathlib.Path
  split: str
  count: int
  shard_pictures: int

  @property
  def shards(self) -> int:
    """Number of shards; the last one may have fewer pictures."""
    return -(-self.count // self.shard_pictures)

  def places(self, shard: int) -> range:
    """Returns the positions of a shard's pictures."""
    start = shard * self.shard_pictures
    return range(start, min(start + self.shard_pictures, self.count))

  def wanted(self, shard: int) -> list[Wanted]:
    """Returns the pictures of a shard, in order."""
    return _WANTED.decode(_file(self.folder, self.split, shard).read_bytes())


def write(work: Work, split: str, pictures: Iterable[Wanted]) -> Listing:
  """Writes the files of a split's listing."""
  size, count, left = work.options.shard_pictures, 0, iter(pictures)
  while of_shard := list(itertools.islice(left, size)):
    files.write_bytes(_file(work.folder, split, count // size), msgspec.json.encode(of_shard))
    count += len(of_shard)
  return Listing(work.folder, split, count, size)


def _file(folder: pathlib.Path, split: str, shard: int) -> pathlib.Path:
  return folder / f"{split}-{shard:05d}.listing.json"
