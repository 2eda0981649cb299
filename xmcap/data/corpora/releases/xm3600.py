"""XM3600: 3,600 pictures with captions by people in 36 languages -> records of the split `test`.

Inputs as published (Thapliyal et al. 2022): `captions.zip` or its `captions.jsonl`, and `images.tgz` or a folder of
its pictures. A record has `image/locale`, and its captions are in the order of the line, with the release's tokens.
Other releases in this layout, such as emoji36's, can be built too.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence

import msgspec

from xmcap.data.corpora import build
from xmcap.data.corpora.listing import Wanted
from xmcap.data.corpora.pictures import Pictures, open_pictures
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases import xm3600_lines
from xmcap.data.corpora.shards import ShardMaker
from xmcap.data.records import Caption
from xmcap.errors import XmcapError
from xmcap.scoring.inputs import Input
from xmcap.storage import databases

NAME = "xm3600"
VERSION = "1.0.0"
SPLIT = "test"
DESCRIPTION = "XM3600: 3,600 pictures with captions by people in 36 languages."

_IMAGE = msgspec.json.Decoder(xm3600_lines.Image)
_SCHEMA = "CREATE TABLE images (number INTEGER PRIMARY KEY, image)"


def corpus(
  *,
  captions: str | os.PathLike,
  images: str | os.PathLike | Sequence[str | os.PathLike],
) -> build.Corpus:
  """The corpus, for `build.build`.

  Args:
    captions: captions.zip or captions.jsonl.
    images: images.tgz, or a folder of pictures; any place that `pictures.open_pictures` knows, or several.
  """
  captions = pathlib.Path(captions)
  places = [images] if isinstance(images, str | os.PathLike) else list(images)
  inputs = {"captions": captions}
  inputs |= {f"images{number or ''}": pathlib.Path(place) for number, place in enumerate(places)}

  def splits(work: build.Work) -> list[build.Split]:
    pictures = open_pictures(places, work.folder / "pictures", problems=work.problems, say=work.say)
    path = work.folder / f"{SPLIT}.captions"
    keys, lines = _write_lines(captions, path, work.problems)
    work.say(f"{captions.name}: {len(keys):,} images with captions")
    _add_without_lines(pictures, keys, work.problems)
    read = _Captions(path, work.options.shard_pictures)
    shards = -(-len(keys) // work.options.shard_pictures)
    make = ShardMaker(work.folder, SPLIT, read, pictures, work.options)
    return [build.Split(SPLIT, places, len(keys), lines, shards, make)]

  return build.Corpus(NAME, VERSION, DESCRIPTION, inputs, splits)


def _write_lines(captions: pathlib.Path, path: pathlib.Path, problems: Problems) -> tuple[set[str], int]:
  """Writes the images of all good lines to a database; returns their keys, and the number of all lines."""
  keys: set[str] = set()
  with databases.writing(path, _SCHEMA) as database, Input(captions) as source:
    for image in xm3600_lines.read_images(source, captions.name, problems):
      database.execute("INSERT INTO images VALUES (?, ?)", (len(keys), msgspec.json.encode(image)))
      keys.add(image.key)
    if not keys:
      seen = f" ({', '.join(problems.counts)})" if problems.counts else ""
      raise XmcapError(f"{captions}: no line of it can be used{seen}: give the captions as published")
  return keys, source.num_lines


@dataclasses.dataclass(frozen=True)
class _Captions:
  """Yields the pictures of a shard with their captions; see `ShardMaker`."""

  path: pathlib.Path
  shard_pictures: int

  def __call__(self, shard: int, problems: Problems) -> Iterator[tuple[Wanted, list[Caption]]]:
    start = shard * self.shard_pictures
    with databases.reading(self.path) as database:
      rows = database.execute(
        "SELECT image FROM images WHERE number >= ? AND number < ? ORDER BY number",
        (start, start + self.shard_pictures),
      )
      for (row,) in rows:
        image = _IMAGE.decode(row)
        captions = [Caption(*caption, source="human") for caption in image.captions]
        yield Wanted(image.key, "", name=image.key, locale=image.locale), captions


def _add_without_lines(pictures: Pictures, keys: set[str], problems: Problems) -> None:
  """Counts pictures of which no line speaks; a folder may hold all of Open Images."""
  seen: set[str] = set()
  for key in pictures.names():
    if key not in keys and key not in seen:
      seen.add(key)
      problems.add("no_captions", key, "no line of the captions is about it")
