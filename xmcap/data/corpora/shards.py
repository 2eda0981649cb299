"""One shard of records: the captions of its pictures, out of the spilled files, with the pictures themselves."""

import collections
import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Iterator

import numpy as np

from xmcap import languages
from xmcap.data.corpora import pictures as pictures_lib
from xmcap.data.corpora import spill
from xmcap.data.corpora.listing import Listing, Wanted
from xmcap.data.corpora.problems import KINDS, Problems
from xmcap.data.records import SOURCES, Caption, Record
from xmcap.errors import XmcapError
from xmcap.storage import files

_CODES = tuple(languages.LANGUAGES)


@dataclasses.dataclass(frozen=True)
class ShardMaker:
  """Makes the records of a shard, in any process.

  What was found and what was wrong goes to a file of its own (`result_path`), before the last record is given out.

  Attributes:
    work_dir: of the build.
    split: its name.
    captions: name of the file of captions, for messages.
    chunks: of that file.
    first_lines: int64 [chunks], the number of the first line of each.
    listing: the pictures that the split should have.
    pictures: where to read them.
    image_size, quality: as of `pictures.examine`.
    on_bad: as of `Problems`.
  """

  work_dir: pathlib.Path
  split: str
  captions: str
  chunks: int
  first_lines: np.ndarray
  listing: Listing
  pictures: pictures_lib.Pictures
  image_size: int | None
  quality: int
  on_bad: str

  def result_path(self, shard: int) -> pathlib.Path:
    """The file that holds what came of a shard: `tally` (see `SplitResult`) and `problems`, JSON."""
    return self.work_dir / f"{self.split}-{shard:05d}.result.json"

  def __call__(self, shard: int) -> Iterator[Record]:
    problems = Problems(self.on_bad)
    tally: collections.Counter[str] = collections.Counter()
    paths = [spill.path_of(self.work_dir, self.split, chunk) for chunk in range(self.chunks)]
    gathered = spill.gather(paths, shard)
    wanted = list(self.listing.wanted(shard))
    first = shard * self.listing.shard_pictures
    for chunk, line, place in gathered.repeated:
      row = gathered.rows[place]
      what = f"{wanted[row['picture'] - first].key}, caption {row['number']}, {_CODES[row['language']]}"
      problems.add("duplicate_line", f"{self.captions}, line {self.first_lines[chunk] + line - 1:,}", what)
    for picture, places in zip(wanted, gathered.by_picture(first, len(wanted)), strict=True):
      tally["listed"] += 1
      image = self._image(picture, problems, tally)
      if not image:
        continue
      if not places:
        problems.add("no_captions", picture.key)
        continue
      tally["captions"] += len(places)
      yield Record(picture.key, image, self._captions(gathered, places))
    result = {"tally": tally, "problems": problems.to_json()}
    files.write_text(self.result_path(shard), json.dumps(result, ensure_ascii=False))

  def _image(self, wanted: Wanted, problems: Problems, tally: collections.Counter[str]) -> bytes:
    if wanted.url is not None and self.pictures.has_urls:
      read = functools.partial(self.pictures.by_url, wanted.url)
    else:
      read = functools.partial(self.pictures.read, wanted.name)
    return image_to_store(read, wanted.key, wanted.where, self.image_size, self.quality, problems, tally)

  def _captions(self, gathered: spill.Gathered, places: range) -> list[Caption]:
    rows = gathered.rows[places.start : places.stop]
    return [
      Caption(_CODES[language], gathered.texts[place].decode(), "", SOURCES[source])
      for place, language, source in zip(
        places, rows["language"].tolist(), rows["source"].tolist(), strict=True
      )
    ]


def image_to_store(
  read: Callable[[], bytes],
  key: str,
  where: str,
  image_size: int | None,
  quality: int,
  problems: Problems,
  tally: collections.Counter[str],
) -> bytes:
  """The bytes of a picture as a record holds them; b"" if there are none.

  Args:
    read: gives the bytes as published; KeyError where there are none.
    key: of the picture.
    where: it was looked for, for messages.
    image_size, quality: as of `pictures.examine`.
    problems: takes what is wrong with it.
    tally: counts it as `found`, `missing` or `broken`.
  """
  try:
    data = read()
  except KeyError:
    tally["missing"] += 1
    problems.add("missing", key, where)
    return b""
  except XmcapError as error:
    tally["broken"] += 1
    problems.add("truncated", key, str(error))
    return b""
  found = pictures_lib.examine(data, key, image_size, quality)
  tally["found" if found.data else "broken"] += 1
  for kind, what in found.kinds.items():
    problems.add(kind, key, what)
  if not found.data and not any(KINDS[kind].rule == "skip" for kind in found.kinds):
    raise XmcapError(f"picture {key}: refused without a reason; this is a fault of xmcap")
  return found.data
