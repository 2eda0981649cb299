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

`build` writes a folder:

  records              the splits, with `tags` (the emoji in reading order) and `tags_by_language`
  tags.txt             the emoji
  labels/LANGUAGE/     labels.txt: the tags on at least `least` pictures of `train`, the most frequent first;
                       SPLIT.jsonl: the labels of each picture. As from `xmcap data tags`, from tags alone
  val/, test/          captions.jsonl and images/KEY.png, in XM3600's release layout; with a second reference if the
                       language has a pattern without "and"
  vocabulary_text.txt  names and captions of both training splits, for training a SentencePiece model
  emoji_tags.json      options, emoji, and counts; written last, so it marks a complete corpus
"""

import collections
import functools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import languages
from xmcap.corpora.building import tag_labels
from xmcap.corpora.emoji import cedict, drawn_split, scenes, translation
from xmcap.corpora.emoji import choice as emoji_choice
from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.corpora.emoji.cldr import Cldr
from xmcap.corpora.emoji.combinations import Combinations
from xmcap.corpora.emoji.drawn_split import DrawnSplit, SceneCaptions
from xmcap.corpora.emoji.options import EmojiTagsOptions
from xmcap.corpora.releases.coco_cn import write_tag_lines
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.progress import Say

NAME = "emoji_tags"
VERSION = "1.0.0"
MT = "train_mt"
SPLITS = tuple(EmojiTagsOptions.SPLITS)
_DESCRIPTION = (
  "Pictures of emoji with tags and captions by native speakers, and translated captions, in 36 languages."
)
_RECORDS_IN_SHARD = 4_096
_OPTIONAL = ("mi", "quz")  # languages in which an emoji may lack a name or keywords
# Both training splits draw from the same combinations, but shards of different numbers have different scenes.
_FIRST_MT_SHARD = 1 << 20


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
    given: fields of `EmojiTagsOptions`.

  Raises:
    UsageError: an option is out of range, the folder contains something else, or CC-CEDICT is not installed.
    XmcapError: no source works (the message lists all three), or the disk is full or cannot be written.
  """
  options = EmojiTagsOptions(**given)

  def make(out: pathlib.Path, work_dir: pathlib.Path, say: Say) -> dict[str, Any]:
    dictionary = cedict.find()  # at once, if it is not installed
    say("looking for names, keywords and pictures of emoji")
    source = emoji_sources.find(options.source, cache)
    chosen = choose(source, options.num_emoji)
    say(f"{options.num_emoji} emoji ({source.way}); translating their names")
    characters = [emoji.character for emoji in chosen]
    translated = translation.translate(source.cldr, characters, cedict.read(dictionary))
    renderer = scenes.Renderer([emoji.picture for emoji in chosen], options.image_size, options.scene)
    counts = {"train": options.num_human, "validation": options.num_val, "test": options.num_test}
    draw = functools.partial(_draw, Combinations(options.num_emoji, counts, options.seed))
    tags = [emoji.tag for emoji in chosen]
    people, machine, keywords = _texts(source.cldr, chosen, translated)
    splits = [
      DrawnSplit(
        NAME, name, count, _RECORDS_IN_SHARD, options.seed, tags, machine if name == MT else people, renderer, draw,
        {"en": keywords["en"]} if name == MT else keywords,
      )
      for name, count in options.pictures.items()
    ]  # fmt: skip
    written = drawn_split.write_records(out, splits, work_dir, processes, say)
    drawn_split.write_released(out, splits[2:], say)
    labels = write_labels(out / "labels", splits, options.least)
    say(f"labels in {len(labels)} languages: {min(labels.values())} to {max(labels.values())}")
    drawn_split.write_beside(out, splits[:2], written, VERSION, _DESCRIPTION)
    return {
      "way": source.way,
      "emoji": emoji_choice.described(chosen),
      "keywords": {
        language: len({word for words in own for word in words or ()}) for language, own in keywords.items()
      },
      "translation": {
        language: {"words": own.words, "unknown": own.unknown, "same": own.same}
        for language, own in translated.items()
      },
      "labels": labels,
    }

  planned = options.plan("num_emoji", "least", "source")
  return drawn_split.build_once(out, NAME, VERSION, planned, make, progress)


def choose(source: emoji_sources.EmojiSource, count: int) -> list[emoji_choice.Emoji]:
  """Returns emoji with a name and keywords in all languages but the optional ones; UsageError if there are too few.

  Those come first that share a keyword with another candidate in each of these languages.
  """
  keywords = source.cldr.keywords
  names = {
    language: {emoji: name for emoji, name in of_language.items() if emoji in keywords[language]}
    for language, of_language in source.cldr.names.items()
  }
  candidates = [emoji for emoji, _ in emoji_choice.candidates(names, _OPTIONAL)]
  codes = [language for language in names if language not in _OPTIONAL]
  counts = {
    language: collections.Counter(word for emoji in candidates for word in keywords[language][emoji])
    for language in codes
  }
  shared = {
    emoji
    for emoji in candidates
    if all(any(counts[language][word] > 1 for word in keywords[language][emoji]) for language in codes)
  }
  return emoji_choice.choose(names, source.pictures, count, _OPTIONAL, shared)


def write_labels(folder: pathlib.Path, splits: Sequence[DrawnSplit], least: int) -> dict[str, int]:
  """Writes the labels of each language, and those of the pictures of each split that has tags in it.

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
    files.make_folder(folder / language)
    files.write_text(folder / language / "labels.txt", "".join(f"{label}\n" for label in made.counts))
    for split in dict.fromkeys(split for _, split, _ in made.pictures):
      rows = ((key, language, labels) for key, of, labels in made.pictures if of == split)
      write_tag_lines(folder / language / f"{split}.jsonl", rows)
  if not counts_of_labels:
    raise UsageError(
      f"least={least}: no tag is on so many pictures of train; choose fewer, or a larger num_human"
    )
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
