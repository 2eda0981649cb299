"""Labels for tagging, and the labels of each image, out of tags and sentences.

Chinese (Li et al., COCO-CN, section III-C): labels are the tags, and the words of sentences with a part of speech n*,
or a* and v* with at least two characters, if at least 20 training images have them. Parts of speech are those of the
release, else of `jieba.posseg`. English (section IV-B): the most frequent nouns, verbs and adjectives, by TextBlob's
tagger. In other languages: the most frequent lower-case words of at least three letters.
"""

import collections
import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import regex

from xmcap import extras, wording
from xmcap.corpora.building import annotations
from xmcap.corpora.building.annotations import Annotated, Sentence
from xmcap.data import features, records
from xmcap.errors import UsageError
from xmcap.files import addresses, files
from xmcap.grid import Grid
from xmcap.progress import Say
from xmcap.reading import label_words, tag_files
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

LEAST = 20
"""Training images that a label needs, in the paper."""

TRAIN = "train"
_WORDS = regex.compile(r"\p{L}[\p{L}\p{M}'’-]*")
_MIN_LETTERS = 3
_MOST_TAGS, _LEAST_LABELS = 20, 2  # of a picture of Flickr that is no noise

TAGS = "tags"
"""In the place of a source of sentences: the tags alone."""

_WITH_TAGS = ("human", TAGS)
"""The sources with which tags count."""


@dataclasses.dataclass(frozen=True)
class TagLabels:
  """The labels, and those of every image.

  Attributes:
    counts: label -> training images that have it, most frequent first, equal ones by their characters.
    images: (key, split, labels in the order of `counts`) of each image, also of those without any.
    read: how many sentences and tags the labels are of, in words.
  """

  counts: dict[str, int]
  images: list[tuple[str, str, list[str]]]
  read: str

  def table(self) -> str:
    """Returns a text: training images per label, and for each split labels per image and images without one."""
    counts = list(self.counts.values()) or [0]
    mean = sum(counts) / len(counts)
    span = f"{min(counts):,} to {max(counts):,}, mean {mean:.1f}"
    first = f"{len(self.counts):,} labels; training pictures a label: {span}"
    lines = []
    for split in dict.fromkeys(split for _, split, _ in self.images):
      sizes = [len(labels) for _, of, labels in self.images if of == split]
      lines.append((split, f"{len(sizes):,}", f"{sum(sizes) / len(sizes):.2f}", f"{sizes.count(0):,}"))
    grid = Grid(("split", "pictures", "labels/picture", "without one"), tuple(lines))
    return f"{self.read}\n{first}\n\n{grid.text()}"


def make(
  images: Iterable[Annotated],
  language: str,
  *,
  source: str = "human",
  given: Sequence[str] | None = None,
  least: int = LEAST,
  most: int | None = None,
) -> TagLabels:
  """Chooses the labels, and assigns them to the images.

  Args:
    language: code of the language of tags and sentences.
    source: source of the sentences, of `records.SOURCES`, where `human` takes tags too; or `TAGS`: tags alone.
    given: labels to use instead of the rule.
    least: training images that a label needs.
    most: keep only so many, the most frequent; None: all.

  Raises:
    UsageError: there is no such sentence or tag, no image is in the split `train`, or none has a label.
  """
  candidates, counts_read = [], collections.Counter()
  for image in images:
    counts_read.update(sentence.source for sentence in image.sentences if sentence.language == language)
    counts_read[TAGS] += len(image.tags.get(language, ()))
    candidates.append((image.key, image.split, _candidates(image, language, source)))
  read = _in_words(counts_read, language, source, len(candidates))
  train = [of_image for _, split, of_image in candidates if split == TRAIN]
  if not train and given is None:
    raise UsageError(f"no picture is in the split {TRAIN}: give the labels by --labels=FILE")
  counts = collections.Counter(label for of_image in train for label in of_image)
  if given is not None:
    chosen = {label: counts[label] for label in map(label_words.word, given)}
  else:
    frequent = [(label, count) for label, count in counts.items() if count >= least]
    chosen = dict(sorted(frequent, key=lambda item: (-item[1], item[0]))[:most])
  places = {label: place for place, label in enumerate(chosen)}
  labelled = [
    (key, split, sorted(of_image & places.keys(), key=places.__getitem__))
    for key, split, of_image in candidates
  ]
  if not any(labels for _, _, labels in labelled):
    rare = f"on {least:,} training pictures" if given is None else "among the labels that were given"
    raise UsageError(f"no picture has a label: of {read}, no tag or word is {rare}")
  return TagLabels(chosen, labelled, read)


def _in_words(counts: collections.Counter[str], language: str, source: str, images: int) -> str:
  """Returns how many sentences and tags are read, in words; UsageError if there are none.

  `counts` has the number of sentences of each source, and of tags as `TAGS`.
  """
  parts = [] if source == TAGS else [f"{wording.count(counts[source], 'sentence')} of source {source}"]
  parts += [wording.count(counts[TAGS], "tag")] if source in _WITH_TAGS else []
  if not (counts[source] or (source in _WITH_TAGS and counts[TAGS])):
    others = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()) if count)
    there = f"there are others by source: {others}" if others else "nor are there any others"
    raise UsageError(
      f"no picture has a label: {' and '.join(parts)} in '{language}'; {there}; choose another --source or --language"
    )
  return f"{' and '.join(parts)} in '{language}' of {wording.count(images, 'picture')}"


def read_pictures(directory: str | os.PathLike) -> Iterator[Annotated]:
  """Yields the images of a corpus, from `annotations.jsonl` or its records; UsageError if it has neither."""
  path = addresses.join(directory, annotations.NAME)
  if addresses.is_file(path):
    with addresses.local_copy(path) as copy:
      yield from annotations.read(copy)
    return
  splits = records.splits(directory)
  if not splits:
    raise UsageError(f"{directory} holds no corpus ({annotations.NAME} or dataset_info.json): build one")
  for split in splits:
    for record in records.RecordSource(directory, split):
      sentences = [Sentence(caption.language, caption.source, caption.text) for caption in record.captions]
      yield Annotated(record.key, split, record.tags_by_language, sentences)


def with_tags(images: Iterable[Annotated], path: str, language: str) -> Iterator[Annotated]:
  """The images with the tags of a file in place of their own; UsageError as `tag_files.read`, or if it has others."""
  tags, matched = tag_files.read(path, language, [language])[language], 0
  for image in images:
    matched += image.key in tags
    yield Annotated(image.key, image.split, {language: list(tags.get(image.key, ()))}, image.sentences)
  if not matched:
    raise UsageError(f"{path}: none of its pictures ({wording.first_few(list(tags))}) is in the corpus")


def mapped(
  images: Iterable[Annotated], path: str, language: str, say: Say = lambda line: None
) -> Iterator[Annotated]:
  """The images with labels for their English tags, as COCO-CN's tag recommender is taught (section III-A3).

  An image with over 20 tags, or under two labels, is noise, and has none. Lines of the table are an English tag, a tab
  and its label, which several tags may share; a tag with several meanings has a label of several words. Both are
  words, see `label_words`; at the end, `say` takes the line about tags that are in the table but for their case.
  """
  label_of = {}
  with Input(path) as source:
    for number, line in source.lines():
      tag, tab, label = line.partition("\t")
      if not (tab and tag.strip() and label.strip()) or "\t" in label:
        raise UsageError(f"{path}, line {number}: give an English tag, a tab and its label")
      tag, label = label_words.word(tag), label_words.word(label)
      if label_of.setdefault(tag, label) != label:
        raise UsageError(f"{path}, line {number}: '{shown(tag)}' has another label before: keep one of them")
  seen: set[str] = set()
  for image in images:
    tags = label_words.words(image.tags.get("en", ()))
    seen.update(tags)
    labels = list(dict.fromkeys(label_of[tag] for tag in tags if tag in label_of))
    kept = labels if len(tags) <= _MOST_TAGS and len(labels) >= _LEAST_LABELS else []
    yield Annotated(image.key, image.split, {language: kept}, image.sentences)
  for line in label_words.note("tags", f"those of {path}", {"en": label_words.alike(seen, label_of.keys())}):
    say(line)


def read(path: str | os.PathLike) -> list[str]:
  """Reads labels, one a line, as words; UsageError names one that is repeated, or a file without any."""
  with Input(path) as source:
    labels = list(map(label_words.word, source.distinct_lines()))
  if repeated := wording.repeated(labels):
    raise UsageError(f"{path}: the label '{shown(repeated[0])}' is given twice; keep one")
  if not labels:
    raise UsageError(f"{path} has no labels: give a file with one a line")
  return labels


def write(folder: pathlib.Path, made: TagLabels, language: str) -> None:
  """Writes `labels.txt`, one a line, and `SPLIT.jsonl` with the labels of each image."""
  files.make_folder(folder)
  files.write_text(folder / "labels.txt", "".join(f"{label}\n" for label in made.counts))
  for split in dict.fromkeys(split for _, split, _ in made.images):
    rows = ((key, language, labels) for key, of, labels in made.images if of == split)
    write_lines(folder / f"{split}.jsonl", rows)


def write_features(folder: pathlib.Path, made: TagLabels, path: str) -> None:
  """Writes `features.safetensors`: stored vectors of the images, and behind each 1 for a label that it has, else 0.

  Captioning with tags: Li et al., COCO-CN, Table 13. UsageError as `features.read`, or if an image has no vector.
  """
  keys = [key for key, _, _ in made.images]
  vectors = features.of_keys(features.read(path), keys, path, "the corpus")
  places = {label: place for place, label in enumerate(made.counts)}
  bags = np.zeros((len(keys), len(places)), np.float32)
  for bag, (_, _, labels) in zip(bags, made.images, strict=True):
    bag[[places[label] for label in labels]] = 1
  joined = features.Features(tuple(keys), np.concatenate([vectors, bags], axis=1))
  features.write(
    folder / "features.safetensors", joined, metadata={"labels": str(len(places)), "vectors": path}
  )


def write_lines(path: pathlib.Path, tags: Iterable[tuple[str, str, list[str]]]) -> None:
  """Writes (key, language, tags) as lines `{"image/key", "language", "tags"}`, references of tags."""
  rows = ({"image/key": key, "language": language, "tags": of_image} for key, language, of_image in tags)
  files.write_lines(path, (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def _candidates(image: Annotated, language: str, source: str) -> set[str]:
  candidates = set(label_words.words(image.tags.get(language, ()))) if source in _WITH_TAGS else set()
  for sentence in image.sentences:
    if (sentence.language, sentence.source) == (language, source):
      candidates |= set(label_words.words(_WORDS_OF.get(language, _of_other)(sentence)))
  return candidates


def _of_chinese(sentence: Sentence) -> set[str]:
  if sentence.words:
    tagged = list(zip(sentence.words, sentence.parts, strict=True))
  else:
    tagged = tag_words(sentence.text)
  return {
    word for word, part in tagged if part.startswith("n") or (part.startswith(("a", "v")) and len(word) >= 2)
  }


def _of_english(sentence: Sentence) -> set[str]:
  return {word for word, part in _english_tagger()(sentence.text.lower()) if part[:2] in ("NN", "VB", "JJ")}


def _of_other(sentence: Sentence) -> set[str]:
  words = {word.rstrip("'’-") for word in _WORDS.findall(sentence.text.lower())}
  return {word for word in words if len(word) >= _MIN_LETTERS}


_WORDS_OF = {"zh": _of_chinese, "en": _of_english}
"""Language code -> the words of a sentence that may be labels."""


@functools.cache
def _english_tagger() -> Callable[[str], list[tuple[str, str]]]:
  """TextBlob's tagger, which brings its lexicon: text -> words and the Penn Treebank's parts of speech."""
  try:
    from textblob.en import tag
  except ImportError as error:
    raise UsageError(
      f"textblob, which tags parts of speech of English, is not installed: {extras.install('words')}, or give"
      " --labels=FILE"
    ) from error
  return tag


def tag_words(text: str) -> list[tuple[str, str]]:
  """Splits a Chinese sentence into words and ICTCLAS's parts of speech (`n`, `vn`, `a`, ...), by `jieba.posseg`."""
  return [(pair.word, pair.flag) for pair in _tagger().cut(text) if not pair.word.isspace()]


@functools.cache
def dictionary() -> frozenset[str]:
  """The words of jieba's dictionary, nearly 350,000."""
  return frozenset(word for word, frequency in _tagger().tokenizer.FREQ.items() if frequency)


@functools.cache
def _tagger() -> Any:
  import jieba
  from jieba import posseg

  tokenizer = jieba.Tokenizer()
  # Its `initialize` would unmarshal a cache from the shared temporary folder, where anybody can put one.
  with tokenizer.get_dict_file() as file:
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(file)
  tokenizer.initialized = True
  return posseg.POSTokenizer(tokenizer)
