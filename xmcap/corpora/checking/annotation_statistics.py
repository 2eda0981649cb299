"""Counts of `annotations.jsonl`: sentences by source, words and characters of those by people, tags, and labels.

The definitions reproduce the published figures of COCO-CN:

- Words are the release's. A word is punctuation if its part of speech begins with w, or, without a part of speech, if
  it has only punctuation and signs. Lengths and vocabulary leave out punctuation, and count only sentences by people
  (source `human`). Characters are Unicode code points of these words.
- Repeated tags count each time; the mean is over the images that have tags.
- Labels are those of `tag_labels.make`, at 20 training images.
"""

import collections
import dataclasses
import os
import unicodedata
from collections.abc import Sequence

from xmcap.corpora.building import tag_labels
from xmcap.corpora.building.annotations import Annotated, Sentence
from xmcap.corpora.checking import annotation_keywords
from xmcap.data import records
from xmcap.errors import UsageError
from xmcap.files import addresses
from xmcap.grid import Grid

ALL = "all"
LANGUAGE = "zh"

PUBLISHED = {
  ("pictures", ALL): 20_341,
  ("pictures", "train"): 18_341,
  ("pictures", "val"): 1_000,
  ("pictures", "test"): 1_000,
  ("human", ALL): 22_218,
  ("human", "train"): 20_065,
  ("human", "val"): 1_100,
  ("human", "test"): 1_053,
  ("translated", "test"): 5_000,
  ("tags", ALL): 71_089,
  ("distinct tags", ALL): 4_867,
  ("vocabulary", ALL): 7_096,
  ("labels", "train"): 744,
}
"""(quantity, split) of version 1805: its README's, and tags, vocabulary and labels as counted in the release itself.

The paper (section III-C) counts a picture more, 70,993 tags, and 655 labels, the 744 gone through by hand.
"""

PUBLISHED_EXTENSION = {("pictures", ALL): 4_573, ("human", ALL): 4_712}
"""The same of the extension of 2020, which has no other split than train: the README's."""


@dataclasses.dataclass
class Counts:
  """The counts of one split, or of `ALL`.

  Attributes:
    sentences: source -> sentences.
    words, characters: number in a sentence by people, without punctuation -> sentences.
    vocabulary: distinct words of these.
    tags: tag -> how often it was given.
    tagged: number of tags -> images that have so many; images without tags are left out.
  """

  split: str
  pictures: int = 0
  sentences: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
  words: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
  characters: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
  vocabulary: set[str] = dataclasses.field(default_factory=set)
  tags: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
  tagged: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)

  def add(self, image: Annotated) -> None:
    """Counts an image."""
    self.pictures += 1
    for sentence in image.sentences:
      if sentence.language != LANGUAGE:
        continue
      self.sentences[sentence.source] += 1
      if sentence.source == "human" and sentence.words:
        words = spoken(sentence)
        self.words[len(words)] += 1
        self.characters[sum(map(len, words))] += 1
        self.vocabulary.update(words)
    if tags := image.tags.get(LANGUAGE):
      self.tags.update(tags)
      self.tagged[len(tags)] += 1

  def quantities(self) -> dict[str, int]:
    """Quantity of `PUBLISHED` -> how many were found."""
    tags = {"tags": self.tags.total(), "distinct tags": len(self.tags)}
    return {"pictures": self.pictures, **self.sentences, **tags, "vocabulary": len(self.vocabulary)}


def spoken(sentence: Sentence) -> list[str]:
  """The words of a sentence that are no punctuation."""
  tagged = zip(sentence.words, sentence.parts, strict=True)
  return [word for word, part in tagged if not (part.startswith("w") if part else _is_punctuation(word))]


def tables(directory: str | os.PathLike) -> list[str]:
  """The tables of a folder that has `annotations.jsonl`; those of COCO-CN end with the published figures."""
  images = list(tag_labels.read_pictures(directory))
  of_split: dict[str, Counts] = {}
  total = Counts(ALL)
  for image in images:
    of_split.setdefault(image.split, Counts(image.split)).add(image)
    total.add(image)
  counts = [*of_split.values(), total]
  shown = [_sentences(counts), _lengths(counts), _tags(counts)]
  numbers = {(name, of.split): number for of in counts for name, number in of.quantities().items()}
  if total.words.total() == total.sentences["human"]:  # all are segmented; jieba would make other labels
    try:
      labels = tag_labels.make(images, LANGUAGE)
      shown.append(f"labels on {tag_labels.LEAST} or more training pictures: {labels.table()}")
      numbers["labels", "train"] = len(labels.counts)
    except UsageError:
      numbers["labels", "train"] = 0
  names = ("coco_cn.json", "coco_cn_text.json")
  if any(addresses.is_file(addresses.join(directory, name)) for name in names):
    whole = len(of_split) > 1
    shown += [annotation_keywords.table(images)] if whole else []
    shown.append(_compared(numbers, "1805" if whole else "icap2020"))
  return shown


def _is_punctuation(word: str) -> bool:
  return all(unicodedata.category(character)[0] in "PSZ" for character in word)


def _table(title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
  """A table whose last row is that of `ALL`."""
  return f"annotations: {title}\n\n{Grid(tuple(heads), tuple(rows[:-1]), tuple(rows[-1:])).text()}"


def _sentences(counts: Sequence[Counts]) -> str:
  rows = [
    (of.split, f"{of.pictures:,}", *(f"{of.sentences[source]:,}" for source in records.SOURCES))
    for of in counts
  ]
  return _table(f"sentences in {LANGUAGE}, by source", ("split", "pictures", *records.SOURCES), rows)


def _lengths(counts: Sequence[Counts]) -> str:
  heads = ("split", "sentences", "vocabulary", "words from", "mean", "to", "characters from", "mean", "to")
  rows = [
    (of.split, f"{of.words.total():,}", f"{len(of.vocabulary):,}", *_span(of.words), *_span(of.characters))
    for of in counts
  ]
  return _table("sentences by people that are segmented, without punctuation", heads, rows)


def _tags(counts: Sequence[Counts]) -> str:
  heads = ("split", "pictures with tags", "tags", "distinct", "a picture from", "mean", "to")
  rows = [
    (of.split, f"{of.tagged.total():,}", f"{of.tags.total():,}", f"{len(of.tags):,}", *_span(of.tagged))
    for of in counts
  ]
  return _table(f"tags in {LANGUAGE}", heads, rows)


def _span(numbers: collections.Counter[int]) -> tuple[str, str, str]:
  """The least, the mean and the most; dashes where there is nothing."""
  if not numbers:
    return "-", "-", "-"
  mean = sum(number * times for number, times in numbers.items()) / numbers.total()
  return f"{min(numbers)}", f"{mean:.2f}", f"{max(numbers)}"


def _compared(numbers: dict[tuple[str, str], int], version: str) -> str:
  rows = []
  published = PUBLISHED if version == "1805" else PUBLISHED_EXTENSION
  for (name, split), expected in published.items():
    number = numbers.get((name, split), 0)
    difference = f"{number - expected:+,}" if number != expected else "0"
    rows.append((name, split, f"{number:,}", f"{expected:,}", difference))
  grid = Grid(("", "split", "found", "published", "difference"), tuple(rows), num_labels=2)
  return f"annotations against COCO-CN's version {version}\n\n{grid.text()}"
