"""TFDS builders of the corpora, for `tfds build` on one machine, or on a cluster through Apache Beam.

  tfds build coco_35l --imports=xmcap.corpora.tfds_builders --manual_dir=RELEASE --data_dir=DIR
  ... --beam_pipeline_options="runner=DirectRunner,direct_num_workers=8,direct_running_mode=multi_processing"
  ... --config='{"name": "small", "image_size": 256}'

`tfds build` itself needs the extra beam, even without Beam; the builders need it only for Beam.
`--manual_dir` must contain the files of the release under their published names; nothing is downloaded. The records and
their order are those of `xmcap data build`, made by the same code: this machine sorts the captions by shard on all its
cores, then each shard is made separately, here or by a Beam worker. Intermediate files are in DIR/.NAME-CONFIG.build,
which all workers must be able to read, like the release. TFDS decides the sharding of the output. problems.jsonl beside
the records lists the problems of the release.
"""

import contextlib
import dataclasses
import functools
import itertools
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds
from tensorflow_datasets import features as of

from xmcap import extras, processes
from xmcap.corpora.building import build, duplicates, file_names, image_check
from xmcap.corpora.building import options as options_lib
from xmcap.corpora.building.options import Options
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.building.splits import Split
from xmcap.corpora.releases import cc3m35l, coco35l, xm3600
from xmcap.data import records
from xmcap.errors import UsageError
from xmcap.files import files, plans


@functools.cache
def features() -> of.FeaturesDict:
  """Returns the columns of a record, as `tfds_metadata.features_json`. Images are stored with their released bytes."""
  caption = {field: of.Text() for field in ("language", "text", "text_tokenized", "source")}
  return of.FeaturesDict(
    {
      "image/key": of.Text(),
      "image/locale": of.Text(),
      "image": of.Image(shape=(None, None, 3)),
      "captions": of.Sequence(caption),
      "tags": of.Sequence(of.Text()),
      "tags_by_language": of.Sequence({"language": of.Text(), "tag": of.Text()}),
    }
  )


def as_example(record: records.Record) -> dict[str, Any]:
  """Returns a record as a nested dictionary, which TFDS encodes with `features()`."""
  return {
    "image/key": record.key,
    "image/locale": record.locale,
    "image": record.image,
    "captions": [dataclasses.asdict(caption) for caption in record.captions],
    "tags": record.tags,
    "tags_by_language": [{"language": language, "tag": tag} for language, tag in record.tag_pairs()],
  }


@dataclasses.dataclass
class RecordsConfig(tfds.core.BuilderConfig):
  """Options of a build, as in `plans.Options`."""

  on_bad: str = "skip"
  image_size: int | None = None
  quality: int = image_check.DEFAULT_QUALITY
  shard_pictures: int = 512  # fewer than in `xmcap data build`, because a worker's results stay in memory


class _Builder(  # pyright: ignore[reportGeneralTypeIssues]
  tfds.core.GeneratorBasedBuilder,
  skip_registration=True,  # pyright: ignore[reportCallIssue]
):
  """Makes the records of a corpus, which a subclass names."""

  VERSION = tfds.core.Version("1.0.0")
  BUILDER_CONFIGS = [RecordsConfig(name="published", description="Pictures as they were published.")]
  CORPUS: type[build.CorpusBuild]
  builder_config: RecordsConfig  # from BUILDER_CONFIGS or the user, so never None

  def __init__(self, *, file_format: Any = None, **arguments):
    # The stream reads records by index.
    super().__init__(file_format=file_format or tfds.core.FileFormat.ARRAY_RECORD, **arguments)
    self._beam = False

  @property
  def MANUAL_DOWNLOAD_INSTRUCTIONS(self) -> str:
    names = "; ".join(" or ".join(part.names) for part in self.CORPUS.PARTS.values() if not part.optional)
    return f"the files as published, under these names: {names}"

  def _info(self) -> tfds.core.DatasetInfo:
    return self.dataset_info_from_configs(
      description=self.CORPUS.DESCRIPTION,
      features=features(),
      homepage=self.CORPUS.HOMEPAGE,
      disable_shuffling=True,  # the stream shuffles; the records keep the order of the release
    )

  def download_and_prepare(self, *, download_config: Any = None, **arguments) -> None:
    """Does what TFDS's method does; uses Beam if its options or runner are given."""
    if download_config is not None:
      self._beam = bool(download_config.beam_options or download_config.beam_runner)
    folder = pathlib.Path(os.fspath(self._data_dir_root), f".{self.name}-{self.builder_config.name}.build")
    self._folder, self._splits = folder, []
    with contextlib.ExitStack() as self._opened:
      super().download_and_prepare(download_config=download_config, **arguments)
      for split in self._splits:
        split.collect(self._problems)
      pixels = itertools.chain.from_iterable(split.pixels() for split in self._splits)
      duplicates.count(folder / "splits.sqlite", pixels, self._problems)
    if self._splits:
      shutil.move(folder / "problems.jsonl", pathlib.Path(self.data_dir, "problems.jsonl"))
      print(self._problems.summary() or "no problems with the release", file=sys.stderr)
      shutil.rmtree(folder, ignore_errors=True)

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
    config = self.builder_config
    options = Options(config.on_bad, config.image_size, config.quality, config.shard_pictures)
    corpus = self.CORPUS(**file_names.find(pathlib.Path(dl_manager.manual_dir), self.CORPUS.PARTS))
    work_dir = self._folder / "work"
    plans.begin(self._folder, work_dir, corpus.plan(options))
    listed = self._opened.enter_context(files.whole(self._folder / "problems.jsonl"))
    self._problems = Problems(options.on_bad, listed)
    work = options_lib.BuildInProgress(work_dir, options, processes.available_cores(), self._problems)
    self._splits = list(corpus.splits(work))
    return {split.name: self._generate_examples(split) for split in self._splits}

  def _generate_examples(self, split: Split) -> Any:
    examples = functools.partial(_examples, split)
    if not self._beam:
      return itertools.chain.from_iterable(map(examples, range(split.shards)))
    try:
      import apache_beam as beam  # pyright: ignore[reportMissingImports]  # an extra that CI does not install
    except ImportError:
      raise UsageError(f"Apache Beam is not installed: {extras.install('beam')}") from None
    return beam.Create(range(split.shards)) | beam.Reshuffle() | beam.FlatMap(examples)


def _examples(split: Split, shard: int) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields the examples of a shard, keyed by their position in the split, which keeps the order."""
  for number, record in enumerate(split.make(shard), split.places(shard).start):
    yield number, as_example(record)


class Coco35l(_Builder):
  """COCO-35L; see coco35l.py."""

  CORPUS = coco35l.Coco35l
  name = CORPUS.NAME


class Cc3m35l(_Builder):
  """CC3M-35L; see cc3m35l.py."""

  CORPUS = cc3m35l.Cc3m35l
  name = CORPUS.NAME


class Xm3600(_Builder):
  """XM3600; see xm3600.py."""

  CORPUS = xm3600.Xm3600
  name = CORPUS.NAME
