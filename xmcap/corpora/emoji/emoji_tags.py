"""emoji_tags: generated scenes with tags by people in 36 languages, few human captions and many translated ones.

COCO-CN's setting on data that any machine can get. A picture shows one to three emoji. Its tags in a language are the
keywords that native speakers gave these emoji in CLDR. A human caption joins CLDR's names by the language's list
pattern. A machine-translated caption joins the English names as translated by dictionary (translation.py).

  split     captions                                     tags
  train_mt  English by people, 35 languages translated   English
  train     36 languages by people                       36 languages
  val       36 languages by people, unseen combinations  36 languages
  test      36 languages by people, unseen combinations  36 languages

A picture has no caption or no tags in a language that lacks a name or keywords for one of its emoji (Maori, Quechua).

The folder has these beside what `corpus.build` writes:

  records              the splits, with `tags` (the emoji in reading order) and `tags_by_language`
  labels/LANGUAGE/     labels.txt: the tags on at least `least` pictures of `train`, the most frequent first;
                       SPLIT.jsonl: the labels of each picture. As from `xmcap data tags`, from tags alone
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
        code: len({word for words in lists for word in words or ()}) for code, lists in keywords.items()
      },
      "translation": {
        code: {"words": counted.words, "unknown": counted.unknown, "same": counted.same}
        for code, counted in translated.items()
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
    code: {emoji: name for emoji, name in of_language.items() if emoji in keywords[code]}
    for code, of_language in source.cldr.names.items()
  }
  candidates = [emoji for emoji, _ in emoji_choice.candidates(names, emoji_choice.OPTIONAL)]
  codes = [code for code in names if code not in emoji_choice.OPTIONAL]
  counts = {
    code: collections.Counter(word for emoji in candidates for word in keywords[code][emoji])
    for code in codes
  }
  shared = {
    emoji
    for emoji in candidates
    if all(any(counts[code][word] > 1 for word in keywords[code][emoji]) for code in codes)
  }
  return emoji_choice.choose(names, source.pictures, count, emoji_choice.OPTIONAL, shared)


def write_labels(folder: pathlib.Path, splits: Sequence[DrawnSplit], least: int) -> dict[str, int]:
  """Writes the labels of each language, and those of the pictures of each split that has tags in it.

  Returns language -> number of labels; UsageError if no language has any.
  """
  pictures = [picture for split in splits for picture in split.annotated()]
  counts_of_labels = {}
  for code in languages.LANGUAGES:
    tagged = [picture for picture in pictures if code in picture.tags]
    counts = collections.Counter(
      tag for picture in tagged if picture.split == tag_labels.TRAIN for tag in picture.tags[code]
    )
    if max(counts.values(), default=0) < least:
      continue
    made = tag_labels.make(tagged, code, least=least)
    counts_of_labels[code] = len(made.counts)
    tag_labels.write(folder / code, made, code)
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
  names = {code: [emoji.names.get(code) for emoji in chosen] for code in languages.LANGUAGES}
  keywords = {
    code: [cldr.keywords[code].get(emoji.character) if code in emoji.names else None for emoji in chosen]
    for code in languages.LANGUAGES
  }
  of_machine = {code: translated[code].names if code in translated else names[code] for code in names}
  people = SceneCaptions(names, cldr.standard, cldr.plain)
  return people, SceneCaptions(of_machine, cldr.standard, cldr.plain, tuple(translated)), keywords
