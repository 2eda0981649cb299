"""The pictures that a split should have, in its order, in a file that gives them a shard at a time."""

import dataclasses
import pathlib
from collections.abc import Iterable

import msgspec

from xmcap.data.corpora.plans import Work
from xmcap.data.records import Caption
from xmcap.storage import databases

_SCHEMA = "CREATE TABLE pictures (number INTEGER PRIMARY KEY, picture)"


@dataclasses.dataclass(frozen=True)
class Wanted:
  """A picture that a release names.

  Attributes:
    key: in the records.
    where: the release names it, for messages.
    name: of its file, as `Pictures.read` takes it.
    url: from which it was fetched, if the release says so; looked for first, where addresses are known.
    captions: those that are known beforehand; others may come from `spill.Spilled`.
  """

  key: str
  where: str
  name: str
  url: str = ""
  locale: str = ""
  captions: list[Caption] = dataclasses.field(default_factory=list)


_WANTED = msgspec.json.Decoder(Wanted)


@dataclasses.dataclass(frozen=True)
class Listing:
  """The pictures of a split. Picklable."""

  path: pathlib.Path
  count: int
  shard_pictures: int

  @property
  def shards(self) -> int:
    """The number of shards; the last may have fewer pictures."""
    return -(-self.count // self.shard_pictures)

  def places(self, shard: int) -> range:
    """The positions of a shard's pictures."""
    start = shard * self.shard_pictures
    return range(start, min(start + self.shard_pictures, self.count))

  def wanted(self, shard: int) -> list[Wanted]:
    """The pictures of a shard, in order."""
    places = self.places(shard)
    with databases.reading(self.path) as database:
      rows = database.execute(
        "SELECT picture FROM pictures WHERE number >= ? AND number < ? ORDER BY number",
        (places.start, places.stop),
      )
      return [_WANTED.decode(picture) for (picture,) in rows]


def write(work: Work, split: str, pictures: Iterable[Wanted]) -> Listing:
  """Writes the file of a split's listing."""
  path = work.folder / f"{split}.listing"
  count = 0
  with databases.writing(path, _SCHEMA) as database:
    for picture in pictures:
      database.execute("INSERT INTO pictures VALUES (?, ?)", (count, msgspec.json.encode(picture)))
      count += 1
  return Listing(path, count, work.options.shard_pictures)
