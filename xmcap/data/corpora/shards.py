"""Records of a shard, made in any process: the captions of its pictures, with the pictures themselves."""

import collections
import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xmcap.data.corpora import picture_check
from xmcap.data.corpora.listing import Wanted
from xmcap.data.corpora.pictures import Pictures
from xmcap.data.corpora.plans import Options
from xmcap.data.corpora.problems import Problems
from xmcap.data.records import Caption, Record
from xmcap.errors import XmcapError
from xmcap.storage import files


@dataclasses.dataclass(frozen=True)
class ShardMaker:
  """Makes the records of a shard. Picklable.

  Attributes:
    folder: takes a file for each shard with what came of it.
    captions: given a shard and its problems, yields the wanted pictures in order, each with its captions.
  """

  folder: pathlib.Path
  split: str
  captions: Callable[[int, Problems], Iterator[tuple[Wanted, Sequence[Caption]]]]
  pictures: Pictures
  options: Options

  def __call__(self, shard: int) -> Iterator[Record]:
    problems = Problems(self.options.on_bad)
    tally: collections.Counter[str] = collections.Counter()
    for wanted, captions in self.captions(shard, problems):
      tally["listed"] += 1
      image = self._image(wanted, problems, tally)
      if image and not captions:
        problems.add("no_captions", wanted.key)
      elif image:
        tally["captions"] += len(captions)
        yield Record(wanted.key, image, captions, locale=wanted.locale)
    result = {"tally": tally, "problems": problems.listed}
    files.write_text(self._path(shard), json.dumps(result, ensure_ascii=False))

  def result(self, shard: int) -> dict[str, Any]:
    """What came of a shard: `tally` (captions; pictures listed, found, missing, broken) and listed `problems`."""
    return json.loads(self._path(shard).read_text(encoding="utf-8"))

  def _path(self, shard: int) -> pathlib.Path:
    return self.folder / f"{self.split}-{shard:05d}.result.json"

  def _image(self, wanted: Wanted, problems: Problems, tally: collections.Counter[str]) -> bytes:
    """The bytes to store; b"" if there are none."""
    if wanted.url is not None and self.pictures.has_urls:
      read = functools.partial(self.pictures.by_url, wanted.url)
    else:
      read = functools.partial(self.pictures.read, wanted.name)
    try:
      data = read()
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
