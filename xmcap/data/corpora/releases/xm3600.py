"""XM3600: 3,600 pictures with captions by people in 36 languages -> records of the split `test`.

Inputs as published (Thapliyal et al. 2022): `captions.zip` or its `captions.jsonl`, and `images.tgz` or a folder of
its pictures. A record has `image/locale`, and its captions are in the order of the line, with the release's tokens.
Other releases in this layout, such as emoji36's, can be built too. Resuming and what `out` holds: build.py.
"""

import collections
import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Iterator, Sequence

import msgspec

from xmcap.data import record_writer
from xmcap.data.corpora import build as build_lib
from xmcap.data.corpora import pictures as pictures_lib
from xmcap.data.corpora import plans
from xmcap.data.corpora.build import Report
from xmcap.data.corpora.plans import Options
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases import xm3600_lines
from xmcap.data.corpora.shards import image_to_store
from xmcap.data.progress import Progress, Say
from xmcap.data.records import Caption, Record
from xmcap.errors import XmcapError
from xmcap.scoring.inputs import Input
from xmcap.storage import files

NAME = "xm3600"
VERSION = "1.0.0"
SPLIT = "test"
DESCRIPTION = "XM3600: 3,600 pictures with captions by people in 36 languages."

_IMAGE = msgspec.json.Decoder(xm3600_lines.Image)


def build(
  out: str | os.PathLike,
  *,
  captions: str | os.PathLike,
  images: str | os.PathLike | Sequence[str | os.PathLike],
  options: Options | None = None,
  processes: int | None = None,
  progress: Say | None = None,
) -> Report:
  """Builds the corpus; a folder that holds it already is left as it is, and one that a kill left is finished.

  The bytes of `out` depend on the release and the options alone.

  Args:
    out: folder; new, empty, or one of an earlier build of the same.
    captions: captions.zip or captions.jsonl.
    images: images.tgz, or a folder of pictures; any place that `pictures.open_pictures` knows, or several.
    options: of the build; `chunk_bytes` says nothing here.
    processes: None: one a core; 1: this process alone.
    progress: called with a line of text now and then.

  Raises:
    UsageError: an input is absent or of another kind, an option is out of range, or `out` holds something else.
    XmcapError: a file of the release is damaged, something is wrong with it and `on_bad` is `stop`, or the disk is
      full.
  """
  out, captions = pathlib.Path(out), pathlib.Path(captions)
  places = [images] if isinstance(images, str | os.PathLike) else list(images)
  options = options or Options()
  say = progress or (lambda line: None)
  inputs = {"captions": captions}
  inputs |= {f"images{number or ''}": pathlib.Path(place) for number, place in enumerate(places)}

  def make(wanted: dict, work_dir: pathlib.Path) -> Report:
    return _build(out, work_dir, wanted, captions, places, options, processes, say)

  return build_lib.into(out, NAME, VERSION, inputs, options, make)


def _build(
  out: pathlib.Path,
  work_dir: pathlib.Path,
  wanted: dict,
  captions: pathlib.Path,
  places: Sequence[str | os.PathLike],
  options: Options,
  processes: int | None,
  say: Say,
) -> Report:
  pictures = pictures_lib.open_pictures(
    places, work_dir, on_bad=options.on_bad, processes=processes, progress=say
  )
  lines = read_lines(captions, work_dir, options)
  say(f"{captions.name}: {lines.count:,} images with captions")
  maker = ShardMaker(work_dir, lines, pictures, options)
  shards = range(len(lines.offsets) - 1)
  written = record_writer.write_split(
    out,
    SPLIT,
    shards,
    maker,
    dataset=NAME,
    processes=processes,
    progress=Progress(say, f"{SPLIT}: records", lines.count),
    finished=work_dir,
  )
  tally: collections.Counter[str] = collections.Counter()
  lists = [pictures.problems, Problems.from_json(lines.problems)]
  for shard in shards:
    result = json.loads(maker.result_path(shard).read_text(encoding="utf-8"))
    tally.update(result["tally"])
    lists.append(Problems.from_json(result["problems"]))
  lists.append(without_lines(pictures, set(lines.keys), options.on_bad))
  total = Problems()
  for problems in lists:
    total.merge(problems)
  counts = {
    "lines": lines.lines,
    "records": sum(written.shard_lengths),
    **{name: tally[name] for name in ("captions", "listed", "found", "missing", "broken")},
  }
  record_writer.write_metadata(out, [written], dataset=NAME, version=VERSION, description=DESCRIPTION)
  plans.write_list(out / "problems.jsonl", [lambda: total])
  return build_lib.finish(out, NAME, wanted, {SPLIT: counts}, total)


@dataclasses.dataclass(frozen=True)
class Lines:
  """What became of the file of captions: `path` holds the good lines anew, one an image.

  Attributes:
    path: JSON lines of `xm3600_lines.Image`.
    lines: in the release, those that are left out included.
    keys: of the images, in order.
    offsets: of the first line of each shard in `path`, and the end.
    problems: `Problems.to_json`.
  """

  path: pathlib.Path
  lines: int
  keys: Sequence[str]
  offsets: Sequence[int]
  problems: dict

  @property
  def count(self) -> int:
    return len(self.keys)


def read_lines(captions: pathlib.Path, work_dir: pathlib.Path, options: Options) -> Lines:
  """Reads and checks all lines, or takes what an interrupted build made of them."""
  path, about = work_dir / "images.jsonl", work_dir / "images.json"
  if about.exists():
    return Lines(path, **json.loads(about.read_text(encoding="utf-8")))
  problems = Problems(options.on_bad)
  keys, offsets = [], []
  with Input(captions) as source, files.whole(path) as copy:
    for image in xm3600_lines.read_images(source, captions.name, problems):
      if len(keys) % options.shard_pictures == 0:
        offsets.append(copy.tell())
      keys.append(image.key)
      copy.write(msgspec.json.encode(image) + b"\n")
    offsets.append(copy.tell())
  if not keys:
    problems_seen = f" ({', '.join(problems.counts)})" if problems.counts else ""
    raise XmcapError(f"{captions}: no line of it can be used{problems_seen}: give the captions as published")
  values = {"lines": source.num_lines, "keys": keys, "offsets": offsets, "problems": problems.to_json()}
  files.write_text(about, json.dumps(values, ensure_ascii=False))
  return Lines(path, **values)


@dataclasses.dataclass(frozen=True)
class ShardMaker:
  """Makes the records of a shard, in any process; what came of it goes to a file, before the last record is out."""

  work_dir: pathlib.Path
  lines: Lines
  pictures: pictures_lib.Pictures
  options: Options

  def result_path(self, shard: int) -> pathlib.Path:
    return self.work_dir / f"{SPLIT}-{shard:05d}.result.json"

  def __call__(self, shard: int) -> Iterator[Record]:
    problems = Problems(self.options.on_bad)
    tally: collections.Counter[str] = collections.Counter()
    begin, end = self.lines.offsets[shard : shard + 2]
    with open(self.lines.path, "rb") as file:
      file.seek(begin)
      while file.tell() < end:
        image = _IMAGE.decode(file.readline())
        tally["listed"] += 1
        data = self._picture(image.key, problems, tally)
        if data and not image.captions:
          problems.add("no_captions", image.key)
        elif data:
          tally["captions"] += len(image.captions)
          texts = [Caption(*caption, source="human") for caption in image.captions]
          yield Record(image.key, data, texts, locale=image.locale)
    result = {"tally": tally, "problems": problems.to_json()}
    files.write_text(self.result_path(shard), json.dumps(result, ensure_ascii=False))

  def _picture(self, key: str, problems: Problems, tally: collections.Counter[str]) -> bytes:
    read = functools.partial(self.pictures.read, key)
    return image_to_store(read, key, "", self.options.image_size, self.options.quality, problems, tally)


def without_lines(pictures: pictures_lib.Pictures, keys: set[str], on_bad: str) -> Problems:
  """Pictures of which no line speaks; a folder may hold all of Open Images."""
  problems = Problems(on_bad, most=2**32)
  seen: set[str] = set()
  for key in pictures.names():
    if key not in keys and key not in seen:
      seen.add(key)
      problems.add("no_captions", key, "no line of the captions is about it")
  return problems
