"""emoji_tags: generated scenes with tags by people in 36 languages, few human captions and many translated ones.

COCO-CN's setting on data that any machine can get. An image shows one to three emoji. Its tags in a language are the
keywords that native speakers gave these emoji in CLDR. A human caption joins CLDR's names by the language's list
pattern. A machine-translated caption joins the English names as translated by dictionary (translation.py).

  split     captions                                     tags
  train_mt  English by people, 35 languages translated   English
  train     36 languages by people                       36 languages
  val       36 languages by people, unseen combinations  36 languages
  test      36 languages by people, unseen combinations  36 languages

An image has no caption or no tags in a language that lacks a name or keywords for one of its emoji (Maori, Quechua).

The folder has these beside what `corpus.build` writes:

  records              the splits, with `tags` (the emoji in reading order) and `tags_by_language`
  labels/LANGUAGE/     labels.txt: the tags on at least `least` images of `train`, the most frequent first;
                       SPLIT.jsonl: the labels of each image. As from `xmcap data tags`, from tags alone
"""

import collections
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import languages
from xmcap.corpora.building import tag_labels
from xmcap.corpora.emoji import cedict, scenes, translation
from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.corpora.emoji.cldr import Cldr
from xmcap.corpora.emoji.combinations import Combinations
from xmcap.corpora.emoji.drawn_split import SEED, Drawing, DrawnSplit, SceneCaptions
from xmcap.corpora.emoji.presets import Preset
from xmcap.errors import UsageError
from xmcap.progress import Say

MT = "train_mt"
# Both training splits draw from the same combinations, but shards of different numbers have different scenes.
_FIRST_MT_SHARD = 1 << 20


def draw(preset: Preset, say: Say) -> Drawing:
  """Draws the corpus.

  Raises:
    UsageError: there are too few emoji, or CC-CEDICT is not installed.
    XmcapError: no source works; the message lists all three.
  """
  dictionary = cedict.find()  # at once, if it is not installed
  say("looking for names, keywords and pictures of emoji")
  source = emoji_sources.find(preset.source or "auto")
  chosen = choose(source, preset.num_emoji)
  say(f"{preset.num_emoji} emoji ({source.way}); translating their names")
  characters = [emoji.character for emoji in chosen]
  translated = translation.translate(source.cldr, characters, cedict.read(dictionary))
  renderer = scenes.Renderer([emoji.picture for emoji in chosen], preset.image_size, preset.scene)
  counts = {"validation": preset.num_validation, "test": preset.num_test}
  draw_scenes = functools.partial(_draw, Combinations(preset.num_emoji, counts, SEED))
  tags = [emoji.tag for emoji in chosen]
  people, machine, keywords = _texts(source.cldr, chosen, translated)
  splits = [
    DrawnSplit(
      preset.name, name, count, preset.shard_records, tags, machine if name == MT else people, renderer, draw_scenes,
      {"en": keywords["en"]} if name == MT else keywords,
    )
    for name, count in preset.pictures.items()
  ]  # fmt: skip

  def write_more(out: pathlib.Path) -> Mapping[str, Any]:
    labels = write_labels(out / "labels", splits, preset.least)
    say(f"labels in {len(labels)} languages: {min(labels.values())} to {max(labels.values())}")
    return {"labels": labels}

  return Drawing(
    "Pictures of emoji with tags and captions by native speakers, and translated captions, in 36 languages.",
    recorded=splits,
    released=splits[2:],
    trained=splits[:2],
    about={
      "way": source.way,
      "emoji": emoji_choice.described(chosen),
      "keywords": {
        language: len({word for words in lists for word in words or ()})
        for language, lists in keywords.items()
      },
      "translation": {
        language: {"words": counted.words, "unknown": counted.unknown, "same": counted.same}
        for language, counted in translated.items()
      },
    },
    write_more=write_more,
  )


def choose(source: emoji_sources.EmojiSource, count: int) -> list[emoji_choice.Emoji]:
  """Returns emoji with a name and keywords in all languages but the optional ones; UsageError if there are too few.

  Those come first that share a keyword with another candidate in each of these languages.
  """
  keywords = source.cldr.keywords
  names = {
    language: {emoji: name for emoji, name in of_language.items() if emoji in keywords[language]}
    for language, of_language in source.cldr.names.items()
  }
  candidates = [emoji for emoji, _ in emoji_choice.candidates(names, emoji_choice.OPTIONAL)]
  codes = [language for language in names if language not in emoji_choice.OPTIONAL]
  counts = {
    language: collections.Counter(word for emoji in candidates for word in keywords[language][emoji])
    for language in codes
  }
  shared = {
    emoji
    for emoji in candidates
    if all(any(counts[language][word] > 1 for word in keywords[language][emoji]) for language in codes)
  }
  return emoji_choice.choose(names, source.images, count, emoji_choice.OPTIONAL, shared)


def write_labels(folder: pathlib.Path, splits: Sequence[DrawnSplit], least: int) -> dict[str, int]:
  """Writes the labels of each language, and those of the images of each split that has tags in it.

  Returns language -> number of labels; UsageError if no language has any.
  """
  images = [image for split in splits for image in split.annotated()]
  counts_of_labels = {}
  for language in languages.LANGUAGES:
    tagged = [image for image in images if language in image.tags]
    counts = collections.Counter(
      tag for image in tagged if image.split == tag_labels.TRAIN for tag in image.tags[language]
    )
    if max(counts.values(), default=0) < least:
      continue
    made = tag_labels.make(tagged, language, least=least)
    counts_of_labels[language] = len(made.counts)
    tag_labels.write(folder / language, made, language)
  if not counts_of_labels:
    raise UsageError(f"no tag is on {least} pictures of train: choose a larger --num_train")
  return counts_of_labels


def _draw(
  combinations: Combinations, split: str, shard: int, start: int, count: int
) -> tuple[list[list[int]], np.random.Generator]:
  """Draws scenes, as `Combinations.draw`, for our names of the splits."""
  if split == MT:
    return combinations.draw("train", shard + _FIRST_MT_SHARD, start, count)
  return combinations.draw("validation" if split == "val" else split, shard, start, count)


def _texts(
  cldr: Cldr, chosen: Sequence[emoji_choice.Emoji], translated: Mapping[str, translation.Translated]
) -> tuple[SceneCaptions, SceneCaptions, dict[str, list[list[str] | None]]]:
  """Returns what writes human and translated captions, and language -> keywords of each emoji."""
  names = {language: [emoji.names.get(language) for emoji in chosen] for language in languages.LANGUAGES}
  keywords = {
    language: [
      cldr.keywords[language].get(emoji.character) if language in emoji.names else None for emoji in chosen
    ]
    for language in languages.LANGUAGES
  }
  of_machine = {
    language: translated[language].names if language in translated else names[language] for language in names
  }
  people = SceneCaptions(names, cldr.standard, cldr.plain)
  return people, SceneCaptions(of_machine, cldr.standard, cldr.plain, tuple(translated)), keywords
