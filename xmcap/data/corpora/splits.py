"""A split of a release, whose records are made shard by shard, in any process."""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterator

from xmcap import languages
from xmcap.data.corpora import picture_check
from xmcap.data.corpora.listing import Listing, Wanted
from xmcap.data.corpora.pictures import Pictures
from xmcap.data.corpora.plans import Options
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.spill import Spilled
from xmcap.data.records import SOURCES, Caption, Record
from xmcap.errors import XmcapError
from xmcap.storage import files

_CODES = tuple(languages.LANGUAGES)
_HUMAN = SOURCES.index("human")


@dataclasses.dataclass(frozen=True)
class Split:
  """A split: its list of pictures, their source, and their captions. Picklable.

  Attributes:
    listing: the list; its folder also receives a file with the result of each shard.
    lines: number of lines of captions that were read.
    captions: captions in addition to those in the listing.
  """

  listing: Listing
  pictures: Pictures
  options: Options
  lines: int = 0
  captions: Spilled | None = None

  @property
  def name(self) -> str:
    """The name of the split."""
    return self.listing.split

  def make(self, shard: int) -> Iterator[Record]:
    """Makes the records of a shard."""
    problems = Problems(self.options.on_bad)
    tally: collections.Counter[str] = collections.Counter()
    wanted_pictures = self.listing.wanted(shard)
    self._add_captions(self.listing.places(shard), wanted_pictures, problems)
    for wanted in wanted_pictures:
      tally["listed"] += 1
      image = self._image(wanted, problems, tally)
      if image and not (wanted.captions or wanted.tags or wanted.tags_by_language):
        problems.add("no_captions", wanted.key)
      elif image:
        tally["captions"] += len(wanted.captions)
        yield Record(wanted.key, image, wanted.captions, wanted.tags, wanted.locale, wanted.tags_by_language)
    result = {"tally": tally, "problems": problems.listed}
    files.write_text(self._path(shard), json.dumps(result, ensure_ascii=False))

  def collect(self, problems: Problems) -> collections.Counter[str]:
    """Adds the problems of all shards, which must be made, to `problems`.

    Returns the number of captions, and of pictures `listed`, `found`, `missing` and `broken`.
    """
    tally: collections.Counter[str] = collections.Counter()
    for shard in range(self.listing.shards):
      result = json.loads(self._path(shard).read_text(encoding="utf-8"))
      tally.update(result["tally"])
      problems.extend(result["problems"])
    return tally

  def _path(self, shard: int) -> pathlib.Path:
    return self.listing.folder / f"{self.name}-{shard:05d}.result.json"

  def _add_captions(self, places: range, pictures: list[Wanted], problems: Problems) -> None:
    if self.captions is None:
      return
    last = None
    for row in self.captions.captions(places):
      wanted = pictures[row.picture - places.start]
      if row[:3] != last:
        last = row[:3]
        wanted.captions.append(Caption(_CODES[row.language], row.text, "", SOURCES[row.source]))
      elif row.source != _HUMAN:  # English is in the lines of all languages
        what = f"{wanted.key}, caption {row.number}, {_CODES[row.language]}"
        problems.add("duplicate_line", f"{self.captions.name}, line {row.line:,}", what)

  def _image(self, wanted: Wanted, problems: Problems, tally: collections.Counter[str]) -> bytes:
    """Returns the bytes to store; b"" if there are none."""
    try:
      data = self.pictures.find(wanted)
    except KeyError:
      tally["missing"] += 1
      problems.add("missing", wanted.key, wanted.where)
      return b""
    except XmcapError as error:
      tally["broken"] += 1
      problems.add("truncated", wanted.key, str(error))
      return b""
    picture = picture_check.examine(data, wanted.key, self.options.image_size, self.options.quality)
    tally["found" if picture.data else "broken"] += 1
    for kind, what in picture.kinds.items():
      problems.add(kind, wanted.key, what)
    return picture.data
