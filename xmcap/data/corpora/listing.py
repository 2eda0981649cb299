"""The pictures that a release names, in its order, in a file that gives them a shard at a time."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator

from xmcap.errors import UsageError
from xmcap.storage import databases
from xmcap.terminal import shown

MAX_PICTURES = 50_000_000
"""Lines of a TSV; CC12M would have 12 million."""

_MAX_LINE = 1 << 20
_SCHEMA = "CREATE TABLE pictures (number INTEGER PRIMARY KEY, key, place, name, url)"


@dataclasses.dataclass(frozen=True)
class Wanted:
  """A picture: its key in the records, where the release names it, and its name or its address (the other is None)."""

  key: str
  where: str
  name: str | None = None
  url: str | None = None
  locale: str = ""


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
        "SELECT key, place, name, url FROM pictures WHERE number >= ? AND number < ? ORDER BY number",
        (places.start, places.stop),
      )
      return [Wanted(*row) for row in rows]


def write(path: pathlib.Path, pictures: Iterable[Wanted], shard_pictures: int) -> Listing:
  """Writes the file of a listing."""
  count = 0
  with databases.writing(path, _SCHEMA) as database:
    for count, picture in enumerate(pictures, 1):
      row = (count - 1, picture.key, picture.where, picture.name, picture.url)
      database.execute("INSERT INTO pictures VALUES (?, ?, ?, ?, ?)", row)
  return Listing(path, count, shard_pictures)


def read_tsv(path: pathlib.Path) -> Iterator[Wanted]:
  """The pictures of Conceptual Captions' TSV, `caption<TAB>url`; a key is the number of the line, eight digits.

  Raises:
    UsageError: it is absent or too long, or its first line has no address.
  """
  try:
    with open(path, "rb") as file:
      number = 0
      for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE), b""), 1):
        if number > MAX_PICTURES:
          raise UsageError(f"{path}: over {MAX_PICTURES:,} lines: give the TSV as it was published")
        url = line.rstrip(b"\r\n").rpartition(b"\t")[2].decode("utf-8", "replace")
        if number == 1 and "://" not in url:
          break
        key = f"{number:08d}"
        yield Wanted(key, f"{path.name}, line {number} ({shown(url)})", name=key, url=url)
      else:
        if number:
          return
  except OSError as error:
    raise UsageError(f"cannot read {path}: {error.strerror}; give the TSV as it was published") from None
  raise UsageError(f"{path}, line 1: no `caption<TAB>address`: give the TSV as it was published")
