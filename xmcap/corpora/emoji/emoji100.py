"""emoji100: generated scenes with captions in 101 languages, and zero-shot classification tests by three artists.

As in emoji36, the names are CLDR's, here in every language in which CLDR names 1,000 pictographs. Training shows one to
three of Noto's emoji per image. The tests show them in other scenes, and the same emoji drawn by other artists. Some
emoji are held out of training.

The folder has these beside what `corpus.build` writes:

  records              `train`, `validation` and `test` (combinations that training never sees, for retrieval); `noto`,
                       `twemoji`, `openmoji` and `held_out` (Noto's), with one emoji per image
  tags.txt             the classes, held-out ones last
  labels.json          names of the trained classes in Babel-ImageNet's layout, without those equal to an English name
  labels_held_out.json the same for the held-out classes
"""

import functools
import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import drawn_split, scenes, sources
from xmcap.corpora.emoji import images as emoji_images
from xmcap.corpora.emoji.combinations import Combinations
from xmcap.corpora.emoji.drawn_split import SEED, Drawing
from xmcap.corpora.emoji.presets import Preset
from xmcap.files import files
from xmcap.progress import Say

HELD_OUT = "held_out"
SPLITS = ("train", "validation", "test", *sources.ARTISTS, HELD_OUT)
# Different seeds, so that no two artists or splits share scenes.
_SEED_OF_SINGLES = 100


def draw(preset: Preset, say: Say) -> Drawing:
  """Draws the corpus; XmcapError if npm cannot fetch the names and images, UsageError if there are too few."""
  num_emoji, num_held_out = preset.num_emoji, preset.num_held_out
  say("looking for names and pictures of emoji")
  source = sources.find_artists()
  chosen = emoji_choice.choose(source.cldr.names, source.images, num_emoji + num_held_out)
  say(f"{num_emoji} emoji and {num_held_out} held out, in {len(source.cldr.names)} languages")
  names = {language: [emoji.names[language] for emoji in chosen] for language in source.cldr.names}
  tags = [emoji.tag for emoji in chosen]
  captioner = drawn_split.SceneCaptions(names, source.cldr.standard, source.cldr.plain)
  renderers = {
    artist: scenes.Renderer(_drawn(images, chosen), preset.image_size, preset.scene)
    for artist, images in source.artists.items()
  }
  noto = renderers[sources.ARTISTS[0]]
  split = functools.partial(
    drawn_split.DrawnSplit, preset.name, shard_records=preset.shard_records, tags=tags, captioner=captioner
  )
  combinations = Combinations(num_emoji, preset.pictures, SEED)
  splits = [
    split(name, count, renderer=noto, draw=combinations.draw) for name, count in preset.pictures.items()
  ]
  trained, held_out = range(num_emoji), range(num_emoji, len(tags))
  for number, (name, renderer) in enumerate((*renderers.items(), (HELD_OUT, noto))):
    classes = held_out if name == HELD_OUT else trained
    singles = functools.partial(_draw_singles, classes, (SEED, _SEED_OF_SINGLES + number))
    splits.append(split(name, len(classes) * preset.num_each, renderer=renderer, draw=singles))

  def write_labels(out: pathlib.Path) -> Mapping[str, str]:
    for name, classes in (("labels", trained), ("labels_held_out", held_out)):
      files.write_text(out / f"{name}.json", json.dumps(labels(names, classes), ensure_ascii=False))
    return {}

  return Drawing(
    "Pictures of emoji with their names, by native speakers, as captions in 101 languages.",
    recorded=splits,
    trained=splits[:1],
    about={"emoji": [{"character": emoji.character, "tag": emoji.tag} for emoji in chosen]},
    write_more=write_labels,
  )


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


def _drawn(images: emoji_images.EmojiImages, chosen: Sequence[emoji_choice.Emoji]) -> list[Image.Image]:
  drawn = (images.draw(emoji.character) for emoji in chosen)
  # None never occurs, because only emoji that all artists have were chosen.
  return [image for image in drawn if image is not None]
