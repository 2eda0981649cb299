"""emoji100: generated scenes with captions in 101 languages, and zero-shot classification tests by three artists.

As in emoji36, the names are CLDR's, here in every language in which CLDR names 1,000 pictographs. Training shows one to
three of Noto's emoji per picture. The tests show them in other scenes, and the same emoji drawn by other artists. Some
emoji are held out of training.

`build` writes a folder:

  records              `train`, `validation` and `test` (combinations that training never sees, for retrieval); `noto`,
                       `twemoji`, `openmoji` and `held_out` (Noto's), with one emoji per picture
  tags.txt             the classes, held-out ones last
  labels.json          names of the trained classes in Babel-ImageNet's layout, without those equal to an English name
  labels_held_out.json the same for the held-out classes
  vocabulary_text.txt  names and captions in all languages, for training a SentencePiece model
"""

import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from xmcap.corpora.emoji import artists as artists_lib
from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import drawn_split, scenes
from xmcap.corpora.emoji import pictures as emoji_pictures
from xmcap.corpora.emoji.combinations import Combinations
from xmcap.corpora.emoji.options import Emoji100Options
from xmcap.files import files
from xmcap.progress import Say

NAME = "emoji100"
VERSION = "1.0.0"
HELD_OUT = "held_out"
SPLITS = ("train", "validation", "test", *artists_lib.ARTISTS, HELD_OUT)
_DESCRIPTION = "Pictures of emoji with their names, by native speakers, as captions in 101 languages."
_RECORDS_IN_SHARD = 4096
# Different seeds, so that no two artists or splits share scenes.
_SEED_OF_SINGLES = 100


def build(
  out: str | os.PathLike,
  *,
  cache: str | os.PathLike | None = None,
  processes: int | None = None,
  progress: Say | None = None,
  **given: Any,
) -> pathlib.Path:
  """Builds the corpus; leaves a folder alone that already has it, and completes one that a kill left.

  Args:
    out: the folder.
    cache, processes, progress: as in `emoji36.build`.
    given: fields of `Emoji100Options`.

  Raises:
    UsageError: an option is out of range, or the folder contains something else.
    XmcapError: npm cannot fetch the names and pictures, or the disk is full or cannot be written.
  """
  options = Emoji100Options(**given)
  num_emoji, num_held_out, seed = options.num_emoji, options.num_held_out, options.seed

  def make(out: pathlib.Path, work_dir: pathlib.Path, say: Say) -> dict[str, Any]:
    say("looking for names and pictures of emoji")
    artists = artists_lib.find(cache)
    chosen = emoji_choice.choose(artists.cldr.names, artists_lib.Common(artists), num_emoji + num_held_out)
    say(f"{num_emoji} emoji and {num_held_out} held out, in {len(artists.cldr.names)} languages")
    names = {language: [emoji.names[language] for emoji in chosen] for language in artists.cldr.names}
    tags = [emoji.tag for emoji in chosen]
    captioner = drawn_split.SceneCaptions(names, artists.cldr.standard, artists.cldr.plain)
    renderers = {
      artist: scenes.Renderer(_drawn(drawn, chosen), options.image_size, options.scene)
      for artist, drawn in artists.pictures.items()
    }
    noto = renderers[artists_lib.ARTISTS[0]]
    draw = Combinations(num_emoji, options.pictures, seed).draw
    split = functools.partial(
      drawn_split.DrawnSplit,
      NAME,
      shard_records=_RECORDS_IN_SHARD,
      seed=seed,
      tags=tags,
      captioner=captioner,
    )
    splits = [split(name, count, renderer=noto, draw=draw) for name, count in options.pictures.items()]
    trained, held_out = range(num_emoji), range(num_emoji, len(tags))
    for number, (name, renderer) in enumerate((*renderers.items(), (HELD_OUT, noto))):
      classes = held_out if name == HELD_OUT else trained
      draw = functools.partial(_draw_singles, classes, (seed, _SEED_OF_SINGLES + number))
      splits.append(split(name, len(classes) * options.num_each, renderer=renderer, draw=draw))
    written = drawn_split.write_records(out, splits, work_dir, processes, say)
    drawn_split.write_beside(out, splits[:1], written, VERSION, _DESCRIPTION)
    for name, classes in (("labels", trained), ("labels_held_out", held_out)):
      files.write_text(out / f"{name}.json", json.dumps(labels(names, classes), ensure_ascii=False))
    return {"emoji": [{"character": emoji.character, "tag": emoji.tag} for emoji in chosen]}

  planned = options.plan("num_emoji", "num_held_out", "num_each")
  return drawn_split.build_once(out, NAME, VERSION, planned, make, progress)


def _draw_singles(
  classes: Sequence[int], seed: tuple[int, ...], _: str, shard: int, start: int, count: int
) -> tuple[list[list[int]], np.random.Generator]:
  """Draws scenes of one emoji each, in a cycle through the classes, as `Combinations.draw`."""
  chosen = [[classes[index % len(classes)]] for index in range(start, start + count)]
  return chosen, np.random.default_rng((*seed, shard))


def labels(names: Mapping[str, Sequence[str]], classes: Sequence[int]) -> dict[str, list[list]]:
  """Returns the names of classes in Babel-ImageNet's layout: {"DE": [[index, ...], [name, ...]]}, English first.

  As in Babel-ImageNet, other languages leave out names that equal an English name of any of these classes, ignoring
  case. Languages with fewer than two remaining classes are left out.
  """
  english = {names["en"][index].casefold() for index in classes}
  by_language = {}
  for language in ("en", *(language for language in names if language != "en")):
    own = [
      (index, names[language][index])
      for index in classes
      if language == "en" or names[language][index].casefold() not in english
    ]
    if len(own) > 1:
      by_language[language.upper()] = [[index for index, _ in own], [name for _, name in own]]
  return by_language


def _drawn(images: emoji_pictures.EmojiImages, chosen: Sequence[emoji_choice.Emoji]) -> list[Image.Image]:
  drawn = (images.draw(emoji.character) for emoji in chosen)
  # None never occurs, because only emoji that all artists have were chosen.
  return [image for image in drawn if image is not None]
