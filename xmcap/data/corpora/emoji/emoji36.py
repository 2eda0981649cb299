"""emoji36: drawn scenes and captions by people in 36 languages, made on the spot from two Debian packages.

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
import os
import pathlib
from typing import Any

from xmcap import languages
from xmcap.data.corpora import plans
from xmcap.data.corpora.emoji import choice as emoji_choice
from xmcap.data.corpora.emoji import release, scenes
from xmcap.data.corpora.emoji import sources as emoji_sources
from xmcap.data.corpora.emoji.combinations import Combinations
from xmcap.data.corpora.emoji.drawn_split import Captioner, DrawnSplit, write_beside, write_records
from xmcap.errors import UsageError
from xmcap.progress import Say

NAME = "emoji36"
VERSION = "1.0.0"
_DESCRIPTION = "Pictures of emoji with their names, by native speakers, as captions in 36 languages."
_RECORDS_IN_SHARD = 8192
_MIN_EMOJI = 5
_OPTIONAL = ("mi", "quz")  # languages in which an emoji may go without a name


def build(
  out: str | os.PathLike,
  *,
  num_emoji: int = 60,
  num_train: int = 120_000,
  num_validation: int = 600,
  num_test: int = 3_600,
  image_size: int = 64,
  seed: int = 0,
  difficulty: str = "medium",
  source: str = "auto",
  cache: str | os.PathLike | None = None,
  processes: int | None = None,
  progress: Say | None = None,
  **scene: float | str | None,
) -> pathlib.Path:
  """Builds the corpus; a folder that holds it already is left as it is, and one that a kill left is finished.

  The same options and source give the same bytes, whatever the number of processes.

  Args:
    num_emoji: classes, at least 5; about 360 can be told apart.
    image_size: side of the square pictures, in pixels.
    seed: of combinations, places, sizes, colours and backgrounds; not of the choice of emoji.
    difficulty: `easy`, `medium` or `hard`: a preset of scenes.SceneOptions.
    scene: changes of that preset, such as `jitter`; None: as there.
    source: where names and pictures come from (emoji_sources): auto, installed, debian or npm.
    cache: folder for what is fetched; None: in the user's cache folder.

  Raises:
    UsageError: an option is out of range, or the folder holds something else.
    XmcapError: no source works (names all three ways), or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  say = progress or (lambda line: None)
  scene_options = scenes.scene_options(difficulty, **scene)
  pictures = {"train": num_train, "validation": num_validation, "test": num_test}
  least = {"num_emoji": (num_emoji, _MIN_EMOJI), "seed": (seed, 0)}
  least |= {f"num_{split}": (count, 1) for split, count in pictures.items()}
  for name, (value, smallest) in least.items():
    if value < smallest:
      raise UsageError(f"{name}={value}: the least is {smallest}")
  options = {
    "num_emoji": num_emoji,
    "pictures": pictures,
    "image_size": image_size,
    "seed": seed,
    "scenes": dataclasses.asdict(scene_options),
    "source": source,
  }

  def make(work_dir: pathlib.Path) -> dict[str, Any]:
    say("names and pictures of emoji: looking for them")
    found = emoji_sources.find(source, cache)
    chosen = emoji_choice.choose(found.cldr.names, found.pictures, num_emoji, _OPTIONAL)
    names = {code: [emoji.names.get(code) for emoji in chosen] for code in languages.LANGUAGES}
    captioner = Captioner(names, found.cldr.standard, found.cldr.plain)
    combinations = Combinations(num_emoji, pictures, seed)
    renderer = scenes.Renderer([emoji.picture for emoji in chosen], image_size, scene_options)
    say(f"{num_emoji} emoji ({found.way})")
    tags = [emoji.tag for emoji in chosen]
    splits = [
      DrawnSplit(NAME, name, count, _RECORDS_IN_SHARD, seed, tags, captioner, renderer, combinations.draw)
      for name, count in pictures.items()
    ]
    _write(out, splits, work_dir, processes, say)
    about = [
      {
        "character": emoji.character,
        "tag": emoji.tag,
        "lacks": [code for code in languages.LANGUAGES if code not in emoji.names],
      }
      for emoji in chosen
    ]
    return {"way": found.way, "emoji": about}

  plan = {"corpus": NAME, "version": VERSION, "options": options, "inputs": {}}
  if plans.carry_out(out, plan, make)[1]:
    say(f"{out} holds this corpus already")
  return out


def _write(
  out: pathlib.Path, splits: list[DrawnSplit], work_dir: pathlib.Path, processes: int | None, say: Say
) -> None:
  train, validation, test = splits
  written = write_records(out, (train, validation), work_dir, processes, say)
  for split in (validation, test):
    records = (record for shard in split.shards for record in split.records(shard, references=True))
    release.write_release(out / split.name, records)
    say(f"{split.name}: {split.count:,} pictures in the release layout")
  write_beside(out, train, written, VERSION, _DESCRIPTION)
