"""emoji36: real pictures and real captions in 36 languages, made on the spot from two Debian packages.

A picture shows one to three emoji from left to right; its caption joins their names, as CLDR has them from
native speakers, by the language's own list pattern. Test and validation pictures are combinations that
training never sees. Where a language has no name for an emoji (Maori, Quechua), the picture has no caption
in it.

`build` writes a folder:

  records              `train` and `validation` (records.py) and tags.txt; one caption a language, by the
                       usual pattern
  test/, validation/   captions.jsonl and images/KEY.png, in XM3600's release layout; with a second reference
                       where the language can do without "and" (cldr.py)
  vocabulary_text.txt  names and captions in all languages, to train a SentencePiece model on
  emoji36.json         the options, the emoji and their source; written last, so its presence says "whole"
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator

import tensorflow_datasets as tfds

from xmcap import languages
from xmcap.data import record_writer, records
from xmcap.data.corpora.emoji import choice as emoji_choice
from xmcap.data.corpora.emoji import release, scenes
from xmcap.data.corpora.emoji import sources as emoji_sources
from xmcap.data.corpora.emoji.cldr import ListPattern
from xmcap.data.corpora.emoji.combinations import SPLITS, Combinations
from xmcap.data.records import Caption, Record
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import files, outputs

NAME = "emoji36"
VERSION = "1.0.0"
_DESCRIPTION = "Pictures of emoji with their names, by native speakers, as captions in 36 languages."
_RECORDS_IN_SHARD = 8192
_NUM_TEST = 3_600
_MIN_EMOJI = 5
_VOCABULARY_SCENES = 600
_NAME_REPEATS = 2


@dataclasses.dataclass(frozen=True)
class _Captioner:
  """Captions of scenes: language -> names by class (None where there is none), and the patterns."""

  names: dict[str, list[str | None]]
  standard: dict[str, ListPattern]
  plain: dict[str, ListPattern]

  def captions(self, scene: list[int]) -> dict[str, str]:
    """Language -> the usual caption, for the languages that name everything in the scene."""
    return self._join(scene, self.standard)

  def references(self, scene: list[int]) -> dict[str, list[str]]:
    """Language -> one or two references; the usual caption comes first."""
    plain = self._join(scene, self.plain)
    return {
      language: [text, plain[language]] if plain.get(language, text) != text else [text]
      for language, text in self.captions(scene).items()
    }

  def _join(self, scene: list[int], patterns: dict[str, ListPattern]) -> dict[str, str]:
    joined = {}
    for language, pattern in patterns.items():
      names = [self.names[language][emoji] for emoji in scene]
      if None not in names:
        joined[language] = pattern.join(names)
    return joined


@dataclasses.dataclass(frozen=True)
class _Maker:
  """Makes the records of a shard in any process: (split, shard, first picture, pictures) -> records."""

  seed: int
  tags: list[str]
  captioner: _Captioner
  combinations: Combinations
  renderer: scenes.Renderer

  def scenes(self, shard: tuple[str, int, int, int]) -> Iterator[tuple[list[int], Record]]:
    """The scenes of a shard, class ids in reading order, each with its record."""
    split, number, start, count = shard
    drawn, rng = self.combinations.draw(split, number, start, count)
    for index, (scene, picture) in enumerate(
      zip(drawn, self.renderer.render(drawn, rng), strict=True), start
    ):
      yield (
        scene,
        Record(
          key=hashlib.blake2b(f"{NAME}/{self.seed}/{split}/{index}".encode(), digest_size=8).hexdigest(),
          image=scenes.encode_png(picture),
          captions=[Caption(language, text) for language, text in self.captioner.captions(scene).items()],
          tags=[self.tags[emoji] for emoji in scene],
        ),
      )

  def __call__(self, shard: tuple[str, int, int, int]) -> Iterator[Record]:
    return (record for _, record in self.scenes(shard))


def build(
  out: str | os.PathLike,
  *,
  num_emoji: int = 60,
  num_train: int = 120_000,
  num_validation: int = 600,
  num_test: int = _NUM_TEST,
  image_size: int = 64,
  seed: int = 0,
  difficulty: str = "medium",
  min_size: float | None = None,
  max_size: float | None = None,
  jitter: float | None = None,
  overlap: float | None = None,
  background: str | None = None,
  contrast: float | None = None,
  source: str = "auto",
  cache: str | os.PathLike | None = None,
  processes: int | None = None,
  progress: Callable[[str], None] | None = None,
) -> pathlib.Path:
  """Builds the corpus; a folder that already holds it with these options is left as it is.

  The same options and source give the same bytes, whatever the number of processes.

  Args:
    out: folder to build in; new, empty, or one of an earlier build.
    num_emoji: classes, at least 5; about 360 can be told apart.
    num_train, num_validation, num_test: pictures of the splits.
    image_size: side of the square pictures, in pixels.
    seed: of combinations, places, sizes, colours and backgrounds; not of the choice of emoji.
    difficulty: `easy`, `medium` or `hard`: a preset of the six options that follow (scenes.DIFFICULTIES).
    min_size, max_size, jitter, overlap, background, contrast: scenes.SceneOptions; None: as in the preset.
    source: where names and pictures come from (emoji_sources): auto, installed, debian or npm.
    cache: folder for what is fetched; None: in the user's cache folder.
    processes: None: one a CPU core.
    progress: called with a line of text now and then.

  Returns:
    The folder.

  Raises:
    UsageError: an option is out of range, or the folder holds something else.
    XmcapError: no source works (names all three ways), or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  say = progress or (lambda line: None)
  options = scenes.scene_options(
    difficulty,
    min_size=min_size,
    max_size=max_size,
    jitter=jitter,
    overlap=overlap,
    background=background,
    contrast=contrast,
  )
  pictures = {"train": num_train, "validation": num_validation, "test": num_test}
  for name, value, least in [
    ("num_emoji", num_emoji, _MIN_EMOJI),
    ("seed", seed, 0),
    *((f"num_{split}", pictures[split], 1) for split in SPLITS),
  ]:
    if value < least:
      raise UsageError(f"{name}={value}: the least is {least}")
  wanted = {
    "version": VERSION,
    "num_emoji": num_emoji,
    "pictures": pictures,
    "image_size": image_size,
    "seed": seed,
    "scenes": dataclasses.asdict(options),
    "source": source,
  }
  if _is_built(out, wanted):
    say(f"{out} holds this corpus already")
    return out

  say("names and pictures of emoji: looking for them")
  found = emoji_sources.find(source, cache)
  chosen = emoji_choice.choose(found, num_emoji)
  maker = _maker(found, chosen, pictures, image_size, options, seed)
  say(f"{num_emoji} emoji ({found.way})")

  written = []
  for split in ("train", "validation"):
    total = pictures[split]
    written.append(
      record_writer.write_split(
        out,
        split,
        _shards(split, total),
        maker,
        dataset=NAME,
        processes=processes,
        progress=lambda count, split=split, total=total: say(f"{split}: {count:,} of {total:,} pictures"),
      )
    )
  for split in ("validation", "test"):
    release.write_release(out / split, _release_images(maker, split, pictures[split]))
    say(f"{split}: {pictures[split]:,} pictures in the release layout")
  record_writer.write_tags(out, maker.tags)
  files.write_text(out / "vocabulary_text.txt", _vocabulary_text(maker, num_train))
  record_writer.write_metadata(out, written, dataset=NAME, version=VERSION, description=_DESCRIPTION)
  about = {
    **wanted,
    "way": found.way,
    "emoji": [
      {
        "character": emoji.character,
        "tag": emoji.tag,
        "lacks": [code for code in languages.LANGUAGES if code not in emoji.names],
      }
      for emoji in chosen
    ],
  }
  files.write_text(out / f"{NAME}.json", json.dumps(about, ensure_ascii=False, indent=1) + "\n")
  return out


def _maker(
  found: emoji_sources.Source,
  chosen: list[emoji_choice.Emoji],
  pictures: dict[str, int],
  image_size: int,
  options: scenes.SceneOptions,
  seed: int,
) -> _Maker:
  names = {code: [emoji.names.get(code) for emoji in chosen] for code in languages.LANGUAGES}
  return _Maker(
    seed=seed,
    tags=[emoji.tag for emoji in chosen],
    captioner=_Captioner(names, found.cldr.standard, found.cldr.plain),
    combinations=Combinations(len(chosen), pictures, seed),
    renderer=scenes.Renderer([emoji.picture for emoji in chosen], image_size, options),
  )


def _shards(split: str, total: int) -> list[tuple[str, int, int, int]]:
  starts = range(0, total, _RECORDS_IN_SHARD)
  return [
    (split, number, start, min(_RECORDS_IN_SHARD, total - start)) for number, start in enumerate(starts)
  ]


def _release_images(maker: _Maker, split: str, total: int) -> Iterator[release.ReleaseImage]:
  for shard in _shards(split, total):
    for scene, record in maker.scenes(shard):
      yield release.ReleaseImage(record.key, record.image, maker.captioner.references(scene))


def _vocabulary_text(maker: _Maker, num_train: int) -> str:
  """Names, and captions of training scenes, in every language; no caption of a held-out combination."""
  lines = []
  for names in maker.captioner.names.values():
    lines += [name for name in names if name is not None] * _NAME_REPEATS
  count = min(_VOCABULARY_SCENES, num_train, _RECORDS_IN_SHARD)
  drawn, _ = maker.combinations.draw("train", 0, 0, min(num_train, _RECORDS_IN_SHARD))
  for scene in drawn[:count]:
    lines += maker.captioner.captions(scene).values()
  return "".join(f"{line}\n" for line in lines)


def _is_built(out: pathlib.Path, wanted: dict) -> bool:
  """Whether `out` holds the corpus with these options; clears what an interrupted build left.

  UsageError if the folder holds a build with other options, or files that are not ours.
  """
  about = out / f"{NAME}.json"
  try:
    held = json.loads(about.read_text(encoding="utf-8"))
  except FileNotFoundError:
    held = None
  except (OSError, ValueError) as error:
    raise XmcapError(f"cannot read {about}: {one_line(error)}; remove {out} and build again") from None
  if held is not None:
    different = [name for name, value in wanted.items() if held.get(name) != value]
    if different:
      raise UsageError(
        f"{out} holds {NAME} with another {different[0]} ({held.get(different[0])}, not "
        f"{wanted[different[0]]}): remove it, or choose another folder"
      )
    return True
  if not out.exists():
    return False
  if not out.is_dir():
    raise UsageError(f"{out} is a file: choose a folder to build in")
  ours = ("test", "validation", "tags.txt", "vocabulary_text.txt", "dataset_info.json", "features.json")
  ours += (outputs.FOLDER_LOCK,)
  for path in sorted(out.iterdir()):
    if path.name.startswith((f"{NAME}-", f".{NAME}-")):
      path.unlink()
    elif path.name not in ours and not path.name.endswith(".incomplete"):
      raise UsageError(f"{out} holds {path.name}, which is not of {NAME}: choose a new or empty folder")
  return False


@dataclasses.dataclass
class Emoji36Config(tfds.core.BuilderConfig):
  """Options of the TFDS builder, with the meaning and the defaults of `build`."""

  num_emoji: int = 60
  num_train: int = 120_000
  num_validation: int = 600
  image_size: int = 64
  seed: int = 0
  difficulty: str = "medium"
  source: str = "auto"
  cache: str | None = None


class Emoji36(tfds.core.ShardBasedBuilder):
  """The records of emoji36 for `tfds build` (with `--file_format=array_record`), in one process.

  The records are those of `build` with the same options; the releases, tags.txt and the text for the
  vocabulary are only made there.
  """

  VERSION = tfds.core.Version(VERSION)
  BUILDER_CONFIGS = [Emoji36Config(name="default", description="60 emoji, 64 x 64 pixels")]

  def _info(self) -> tfds.core.DatasetInfo:
    return tfds.core.DatasetInfo(builder=self, features=records.FEATURES, description=_DESCRIPTION)

  def _shard_iterators_per_split(self, dl_manager: tfds.download.DownloadManager) -> dict:
    config = self.builder_config
    found = emoji_sources.find(config.source, config.cache)
    pictures = {"train": config.num_train, "validation": config.num_validation, "test": _NUM_TEST}
    maker = _maker(
      found,
      emoji_choice.choose(found, config.num_emoji),
      pictures,
      config.image_size,
      scenes.scene_options(config.difficulty),
      config.seed,
    )
    return {
      split: [functools.partial(_examples, maker, shard) for shard in _shards(split, pictures[split])]
      for split in ("train", "validation")
    }


def _examples(maker: _Maker, shard: tuple[str, int, int, int]) -> Iterator[tuple[str, dict]]:
  for record in maker(shard):
    yield record.key, records.as_example(record)
