"""A split of a release: the images that it should have, in one file per shard, and the records made of them."""

import collections
import dataclasses
import itertools
import json
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from xmcap.corpora.building import duplicates, image_check
from xmcap.corpora.building.image_search import ImageSearch, Wanted
from xmcap.corpora.building.options import BuildInProgress, Options
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.building.spill import Spilled
from xmcap.data.records import SOURCES, Caption, Record
from xmcap.errors import XmcapError
from xmcap.files import files

_HUMAN = SOURCES.index("human")
_WANTED = msgspec.json.Decoder(list[Wanted])


@dataclasses.dataclass(frozen=True)
class Split:
  """A split: the list of its images, where they are searched for, and their captions. Made by `write`. Picklable.

  Attributes:
    folder: has a file with the list of each shard, and receives one with its result.
    count: number of images.
    lines: number of lines of captions that were read.
    captions: captions in addition to those in the list.
  """

  name: str
  folder: pathlib.Path
  options: Options
  pictures: ImageSearch
  count: int
  lines: int = 0
  captions: Spilled | None = None

  @property
  def shards(self) -> int:
    """Number of shards; the last one may have fewer images."""
    return -(-self.count // self.options.shard_pictures)

  def places(self, shard: int) -> range:
    """Returns the positions of a shard's images."""
    start = shard * self.options.shard_pictures
    return range(start, min(start + self.options.shard_pictures, self.count))

  def wanted(self, shard: int) -> list[Wanted]:
    """Returns the images of a shard, in order."""
    return _WANTED.decode(_path(self.folder, self.name, shard, "listing").read_bytes())

  def make(self, shard: int) -> Iterator[Record]:
    """Makes the records of a shard."""
    problems = Problems(self.options.on_bad)
    tally: collections.Counter[str] = collections.Counter()
    languages: collections.Counter[str] = collections.Counter()
    images = self.wanted(shard)
    pixels: list[tuple[str, str]] = []
    self._add_captions(self.places(shard), images, problems)
    for entry in images:
      tally["listed"] += 1
      image = self._image(entry, problems, tally)
      if image and not (entry.captions or entry.tags or entry.tags_by_language):
        problems.add("no_captions", entry.key)
      elif image:
        tally["captions"] += len(entry.captions)
        languages.update(caption.language for caption in entry.captions)
        pixels.append((entry.key, entry.pixels or duplicates.image_hash(image)))
        yield Record(entry.key, image, entry.captions, entry.tags, entry.locale, entry.tags_by_language)
    result = {"tally": tally, "languages": languages, "problems": problems.listed, "pixels": pixels}
    files.write_text(_path(self.folder, self.name, shard, "result"), json.dumps(result, ensure_ascii=False))

  def collect(self, problems: Problems) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """Adds the problems of all shards, which must be made, to `problems`.

    Returns the number of captions, and of images `listed`, `found`, `missing` and `broken`; and the number of captions
    in each language.
    """
    tally: collections.Counter[str] = collections.Counter()
    languages: collections.Counter[str] = collections.Counter()
    for result in self._results():
      tally.update(result["tally"])
      languages.update(result["languages"])
      problems.extend(result["problems"])
    return tally, languages

  def pixels(self) -> Iterator[tuple[str, str, str]]:
    """Yields the name of the split, and key and `duplicates.pixel_hash` of each record, after all shards are made."""
    for result in self._results():
      for key, pixels in result["pixels"]:
        yield self.name, key, pixels

  def _results(self) -> Iterator[dict[str, Any]]:
    for shard in range(self.shards):
      yield json.loads(_path(self.folder, self.name, shard, "result").read_bytes())

  def _add_captions(self, places: range, images: list[Wanted], problems: Problems) -> None:
    if self.captions is None:
      return
    last = None
    for row in self.captions.captions(places):
      entry = images[row.picture - places.start]
      if row[:3] != last:
        last = row[:3]
        entry.captions.append(Caption(row.language, row.text, "", SOURCES[row.source]))
      elif row.source != _HUMAN:  # English is in the lines of all languages
        detail = f"{entry.key}, caption {row.number}, {row.language}"
        problems.add("duplicate_line", f"{self.captions.name}, line {row.line:,}", detail)

  def _image(self, entry: Wanted, problems: Problems, tally: collections.Counter[str]) -> bytes:
    """Returns the bytes to store; b"" if there are none."""
    try:
      data = self.pictures.find(entry)
    except KeyError:
      tally["missing"] += 1
      problems.add("missing", entry.key, entry.where)
      return b""
    except XmcapError as error:
      tally["broken"] += 1
      problems.add("truncated", entry.key, str(error))
      return b""
    examined = image_check.examine(data, entry.key, self.options.image_size, self.options.quality)
    tally["found" if examined.data else "broken"] += 1
    if examined.kind:
      problems.add(examined.kind, entry.key, examined.what)
    return examined.data


def write(
  work: BuildInProgress, name: str, listing: Iterable[Wanted], images: ImageSearch, lines: int = 0
) -> Split:
  """Writes the list of a split's images; they are searched for in `images`."""
  size, count, left = work.options.shard_pictures, 0, iter(listing)
  while of_shard := list(itertools.islice(left, size)):
    files.write_bytes(_path(work.folder, name, count // size, "listing"), msgspec.json.encode(of_shard))
    count += len(of_shard)
  return Split(name, work.folder, work.options, images, count, lines)


def _path(folder: pathlib.Path, split: str, shard: int, kind: str) -> pathlib.Path:
  return folder / f"{split}-{shard:05d}.{kind}.json"
