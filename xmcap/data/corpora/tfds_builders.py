"""The corpora as TFDS builders, for `tfds build` on one machine, and on a cluster through Apache Beam.

  tfds build coco_35l --imports=xmcap.data.corpora.tfds_builders --manual_dir=RELEASE --data_dir=DIR
  ... --beam_pipeline_options="runner=DirectRunner,direct_num_workers=8,direct_running_mode=multi_processing"
  ... --config='{"name": "small", "image_size": 256}'

`tfds build` itself needs `pip install 'xmcap[beam]'`, with Beam or without; the builders need it for Beam alone.
`--manual_dir` holds the files of the release under their published names; nothing is downloaded. The records, and
their order, are those of `xmcap data build`, by the same code: captions are spilled by shard, then each shard is made
by itself. What lies between goes to DIR/.NAME-CONFIG.build, which all workers must see, as they must see the release.
The cut into files is TFDS's. Of what is wrong with the release, problems.jsonl beside the records has the list.
"""

import collections
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from xmcap.data import records, workers
from xmcap.data.corpora import lines, pictures, plans, spill
from xmcap.data.corpora import shards as shards_lib
from xmcap.data.corpora.build import Split
from xmcap.data.corpora.plans import Options
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases import cc3m35l, coco35l, xm3600
from xmcap.data.corpora.releases import file_names as release_files
from xmcap.data.corpora.releases.file_names import Part
from xmcap.data.corpora.releases.translations import Parser
from xmcap.data.records import Record
from xmcap.errors import UsageError
from xmcap.storage import files

_SHARD_PICTURES = 512  # smaller than those of `xmcap data build`: a worker's results stay in memory


@dataclasses.dataclass
class RecordsConfig(tfds.core.BuilderConfig):
  """Options of a build.

  Attributes:
    on_bad: `skip` or `stop`, as of `Problems`.
    image_size, quality: as of `pictures.examine`; None: pictures stay as published.
    shard_pictures: pictures in a piece of work.
  """

  on_bad: str = "skip"
  image_size: int | None = None
  quality: int = pictures.DEFAULT_QUALITY
  shard_pictures: int = _SHARD_PICTURES

  def options(self) -> Options:
    """As the corpora take them; UsageError if one is out of range."""
    options = Options(self.on_bad, self.image_size, self.quality, self.shard_pictures)
    options.check()
    return options


@dataclasses.dataclass(frozen=True)
class _Work:
  """A split in pieces that any process can work at: first every chunk, then every shard. Picklable.

  Attributes:
    chunks: how many.
    spill: spills the captions of a chunk.
    shards: how many.
    shard_pictures: in a shard, at most.
    make: shard -> its records.
  """

  chunks: int
  spill: Callable[[int], None]
  shards: int
  shard_pictures: int
  make: Callable[[int], Iterator[Record]]

  def examples(self, shard: int, after: Any = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The examples of a shard under their places in the split; `after` makes Beam wait, and is not looked at."""
    for number, record in enumerate(self.make(shard), shard * self.shard_pictures):
      yield number, records.as_example(record)


class _Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
  """What the three have in common; a subclass finds the parts of its release and cuts them into work."""

  VERSION = tfds.core.Version("1.0.0")
  BUILDER_CONFIGS = [RecordsConfig(name="published", description="Pictures as they were published.")]
  CORPUS = ""
  """The corpus, for messages and citations."""
  PARTS: Mapping[str, Part] = {}
  """Of the release."""

  def __init__(self, *, file_format: Any = None, **arguments):
    # The stream reads records by their index.
    super().__init__(file_format=file_format or tfds.core.FileFormat.ARRAY_RECORD, **arguments)
    self._beam = False
    self._problems: list[Callable[[], Iterator[Problems]]] = []

  @property
  def MANUAL_DOWNLOAD_INSTRUCTIONS(self) -> str:
    names = "; ".join(" or ".join(part.names) for part in self.PARTS.values() if not part.optional)
    return f"the files as published, under these names: {names}"

  def _info(self) -> tfds.core.DatasetInfo:
    return self.dataset_info_from_configs(
      description=self.CORPUS,
      features=records.FEATURES,
      homepage="https://google.github.io/crossmodal-3600/",
      disable_shuffling=True,  # the stream shuffles; here the release's order is kept
    )

  def download_and_prepare(self, *, download_config: Any = None, **arguments) -> None:
    """As TFDS has it; through Beam where its options or its runner are given."""
    if download_config is not None:
      self._beam = bool(download_config.beam_options or download_config.beam_runner)
    super().download_and_prepare(download_config=download_config, **arguments)
    if self._problems:
      self._report()

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
    parts = self._find(pathlib.Path(dl_manager.manual_dir))
    options = self.builder_config.options()
    folder, work_dir = self._work_dirs()
    plans.begin(folder, work_dir, self.name, plans.plan(self.name, str(self.VERSION), parts, options))
    self._problems = []
    works = self._cut(parts, work_dir, options)
    return {split: self._generate_examples(work) for split, work in works.items()}

  def _generate_examples(self, work: _Work) -> Any:
    return _transform(work) if self._beam else _generate(work)

  def _cut(
    self, parts: Mapping[str, pathlib.Path], work_dir: pathlib.Path, options: Options
  ) -> dict[str, _Work]:
    """Split -> work; adds to `_problems` what gives the problems when all is done."""
    raise NotImplementedError

  def _find(self, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The parts of the release in a folder; UsageError names one that is absent."""
    found = {}
    for role, part in self.PARTS.items():
      there = [folder / name for name in part.names if (folder / name).exists()]
      if there:
        found[role] = there[0]
      elif not part.optional:
        raise UsageError(
          f"{folder} has no {' or '.join(part.names)}: put the release there, or name its --manual_dir"
        )
    return found

  def _work_dirs(self) -> tuple[pathlib.Path, pathlib.Path]:
    """The folder for what lies between, and the one in it where the work is done."""
    folder = pathlib.Path(os.fspath(self._data_dir_root), f".{self.name}-{self.builder_config.name}.build")
    return folder, folder / "work"

  def _pictures(
    self,
    places: Sequence[pathlib.Path],
    work_dir: pathlib.Path,
    options: Options,
    key_map: pathlib.Path | None = None,
  ) -> pictures.Pictures:
    """The pictures of a release, without the problems met when they were searched for, which are noted."""
    found = pictures.open_pictures(places, work_dir, key_map=key_map, on_bad=options.on_bad)
    met, found.problems = found.problems, Problems()
    self._problems.append(lambda: iter([met]))
    return found

  def _translated(
    self, split: Split, found: pictures.Pictures, work_dir: pathlib.Path, options: Options
  ) -> _Work:
    """The work of a split of COCO-35L or CC3M-35L."""
    file = lines.open_lines(split.captions, work_dir, chunk_bytes=options.chunk_bytes)
    counts = split.listing.shards
    shards = _Shards(split, file.chunks, work_dir, found, options)

    def problems() -> Iterator[Problems]:
      yield from shards.problems_of_lines()
      yield from map(_result, map(shards.maker.result_path, range(len(counts))))

    self._problems.append(problems)
    write = functools.partial(spill.write, file, Parser(split.ids), work_dir, split.name, counts)
    return _Work(file.chunks, write, len(counts), options.shard_pictures, shards)

  def _report(self) -> None:
    """Writes the list of problems beside the records, says how many there were, and clears up."""
    total = Problems()
    with files.output(pathlib.Path(self.data_dir, "problems.jsonl")) as file:
      for problems in itertools.chain.from_iterable(read() for read in self._problems):
        total.merge(problems)
        file.write(total.take_listed().encode())
    print(total.summary() or "nothing was wrong with the release", file=sys.stderr)
    shutil.rmtree(self._work_dirs()[0], ignore_errors=True)


def _generate(work: _Work) -> Iterator[tuple[int, dict[str, Any]]]:
  """The examples of a split in order; its captions are spilled on all cores, its pictures read here."""
  processes = min(files.available_cores(), work.chunks)
  if processes > 1:
    with workers.pool(processes) as pool:
      collections.deque(pool.map(work.spill, range(work.chunks)), maxlen=0)
  else:
    for chunk in range(work.chunks):
      work.spill(chunk)
  for shard in range(work.shards):
    yield from work.examples(shard)


def _transform(work: _Work) -> Any:
  """The same for Beam: a transform that makes the examples of a split, in any order, under their places in it."""
  try:
    import apache_beam as beam
  except ImportError:
    raise UsageError("Apache Beam is not installed: pip install 'xmcap[beam]'") from None

  class _Examples(beam.PTransform):
    def expand(self, pipeline):
      spilled = (
        pipeline
        | "Chunks" >> beam.Create(range(work.chunks))
        | "SpreadChunks" >> beam.Reshuffle()
        | "Spill" >> beam.Map(work.spill)
        | "Spilled" >> beam.combiners.Count.Globally()
      )
      return (
        pipeline
        | "Shards" >> beam.Create(range(work.shards))
        | "SpreadShards" >> beam.Reshuffle()
        | "Records" >> beam.FlatMap(work.examples, after=beam.pvalue.AsSingleton(spilled))
      )

  return _Examples()


class _Translated(_Builder, skip_registration=True):
  """COCO-35L and CC3M-35L."""

  def _splits(
    self, parts: Mapping[str, pathlib.Path], work_dir: pathlib.Path, options: Options
  ) -> Sequence[Split]:
    raise NotImplementedError

  def _cut(self, parts, work_dir, options):
    works, opened = {}, {}
    for split in self._splits(parts, work_dir, options):
      place = (tuple(split.places), split.key_map)
      if place not in opened:
        folder = work_dir / f"pictures-{split.name}"
        opened[place] = self._pictures(split.places, folder, options, split.key_map)
      works[split.name] = self._translated(split, opened[place], work_dir, options)
    return works


class Coco35l(_Translated):
  """COCO-35L; see coco35l.py."""

  name = coco35l.NAME
  CORPUS = coco35l.DESCRIPTION
  PARTS = release_files.COCO35L

  def _splits(self, parts, work_dir, options):
    paths = dict(parts)
    images = [paths.pop("train_images"), paths.pop("val_images")]
    return coco35l.corpus(images=images, options=options, **paths).splits(work_dir)


class Cc3m35l(_Translated):
  """CC3M-35L; see cc3m35l.py."""

  name = cc3m35l.NAME
  CORPUS = cc3m35l.DESCRIPTION
  PARTS = release_files.CC3M35L

  def _splits(self, parts, work_dir, options):
    return cc3m35l.corpus(options=options, **parts).splits(work_dir)


class Xm3600(_Builder):
  """XM3600; see xm3600.py."""

  name = xm3600.NAME
  CORPUS = xm3600.DESCRIPTION
  PARTS = release_files.XM3600

  def _cut(self, parts, work_dir, options):
    found = self._pictures((parts["images"],), work_dir, options)
    read = xm3600.read_lines(parts["captions"], work_dir, options)
    maker = xm3600.ShardMaker(work_dir, read, found, options)
    shards = len(read.offsets) - 1

    def problems() -> Iterator[Problems]:
      yield Problems.from_json(read.problems)
      yield from map(_result, map(maker.result_path, range(shards)))
      yield xm3600.without_lines(found, set(read.keys), options.on_bad)

    self._problems.append(problems)
    return {xm3600.SPLIT: _Work(0, _nothing, shards, options.shard_pictures, maker)}


@dataclasses.dataclass(frozen=True)
class _Shards:
  """Makes the records of a shard when all captions are spilled: only then the lines of each chunk are known."""

  split: Split
  chunks: int
  work_dir: pathlib.Path
  pictures: pictures.Pictures
  options: Options

  def __call__(self, shard: int) -> Iterator[Record]:
    return self.maker(shard)

  @property
  def maker(self) -> shards_lib.ShardMaker:
    counts = [spill.num_lines(self._path(chunk)) for chunk in range(self.chunks)]
    return shards_lib.ShardMaker(
      work_dir=self.work_dir,
      split=self.split.name,
      captions=self.split.captions.name,
      chunks=self.chunks,
      first_lines=1 + np.concatenate([[0], np.cumsum(counts[:-1], dtype=np.int64)]),
      listing=self.split.listing,
      pictures=self.pictures,
      image_size=self.options.image_size,
      quality=self.options.quality,
      on_bad=self.options.on_bad,
    )

  def problems_of_lines(self) -> Iterator[Problems]:
    """What was wrong with lines, a chunk at a time, each with its file and line."""
    for chunk, first in enumerate(self.maker.first_lines.tolist()):
      problems = Problems()
      for kind, line, what in spill.problems_of(self._path(chunk)).listed:
        problems.add(kind, f"{self.split.captions.name}, line {first + int(line) - 1:,}", what)
      yield problems

  def _path(self, chunk: int) -> pathlib.Path:
    return spill.path_of(self.work_dir, self.split.name, chunk)


def _result(path: pathlib.Path) -> Problems:
  return Problems.from_json(json.loads(path.read_text(encoding="utf-8"))["problems"])


def _nothing(chunk: int) -> None:
  """XM3600 is small: its lines are read when the work is cut."""
