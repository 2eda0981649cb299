"""Counts of `annotations.jsonl`: sentences by source, words and characters of those by people, tags, and labels.

The definitions are those by which the published figures of COCO-CN come out:

- Words are the release's; a word is punctuation if its part of speech begins with w, or, where it has none, if it holds
  nothing but punctuation and signs. Lengths and vocabulary are without punctuation, of sentences by people alone
  (source `human`); characters are Unicode code points of these words.
- Tags are counted as they stand, repeated ones too; the mean is over the pictures that have tags.
- Labels are those of `tag_labels.make`, at 20 training pictures.
"""

import collections
import dataclasses
import os
import unicodedata
from collections.abc import Sequence

from xmcap.data import records
from xmcap.data.checking import tag_statistics
from xmcap.data.checking.tag_statistics import TagRow
from xmcap.data.corpora import tag_labels
from xmcap.data.corpora.annotations import Annotated, Sentence
from xmcap.errors import UsageError
from xmcap.scoring.grid import Grid
from xmcap.storage import addresses

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
"""(quantity, split) of version 1805: its README's, and tags, vocabulary and labels as counted in the release itself."""


@dataclasses.dataclass
class Counts:
  """The counts of one split, or of `ALL`.

  Attributes:
    sentences: source -> sentences.
    words, characters: number in a sentence by people, without punctuation -> sentences.
    vocabulary: distinct words of these.
    tags: of the pictures.
  """

  split: str
  pictures: int = 0
  sentences: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
  words: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
  characters: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
  vocabulary: set[str] = dataclasses.field(default_factory=set)
  tags: TagRow = dataclasses.field(default_factory=lambda: TagRow("", LANGUAGE))

  def add(self, picture: Annotated) -> None:
    """Counts a picture."""
    self.pictures += 1
    for sentence in picture.sentences:
      if sentence.language != LANGUAGE:
        continue
      self.sentences[sentence.source] += 1
      if sentence.source == "human" and sentence.words:
        words = spoken(sentence)
        self.words[len(words)] += 1
        self.characters[sum(map(len, words))] += 1
        self.vocabulary.update(words)
    if tags := picture.tags.get(LANGUAGE):
      self.tags.add(tag_statistics.count([{LANGUAGE: tags}])[LANGUAGE])

  def quantities(self) -> dict[str, int]:
    """Quantity of `PUBLISHED` -> how many were found."""
    tags = {"tags": self.tags.counts.total(), "distinct tags": len(self.tags.counts)}
    return {"pictures": self.pictures, **self.sentences, **tags, "vocabulary": len(self.vocabulary)}


def spoken(sentence: Sentence) -> list[str]:
  """The words of a sentence that are no punctuation."""
  tagged = zip(sentence.words, sentence.parts, strict=True)
  return [word for word, part in tagged if not (part.startswith("w") if part else _is_punctuation(word))]


def count(pictures: Sequence[Annotated]) -> list[Counts]:
  """The counts of each split, in the order in which they occur, and of `ALL`."""
  counts = {split: Counts(split) for split in (*dict.fromkeys(picture.split for picture in pictures), ALL)}
  for picture in pictures:
    counts[picture.split].add(picture)
    counts[ALL].add(picture)
  return list(counts.values())


def tables(directory: str | os.PathLike) -> list[str]:
  """The tables of a folder that has `annotations.jsonl`; those of COCO-CN end with the published figures."""
  pictures = list(tag_labels.read_pictures(directory))
  counts = count(pictures)
  shown = [_sentences(counts), _lengths(counts), _tags(counts)]
  found = {(name, of.split): number for of in counts for name, number in of.quantities().items()}
  segmented = [
    bool(sentence.words)
    for picture in pictures
    for sentence in picture.sentences
    if (sentence.language, sentence.source) == (LANGUAGE, "human")
  ]
  if all(segmented):  # jieba would make other labels
    try:
      labels = tag_labels.make(pictures, LANGUAGE)
      shown.append(f"labels on {tag_labels.LEAST} or more training pictures: {labels.table()}")
      found["labels", "train"] = len(labels.counts)
    except UsageError:
      found["labels", "train"] = 0
  if any(
    addresses.is_file(addresses.join(directory, name)) for name in ("coco_cn.json", "coco_cn_text.json")
  ):
    shown.append(_compared(found))
  return shown


def _is_punctuation(word: str) -> bool:
  return all(unicodedata.category(character)[0] in "PSZ" for character in word)


def _sentences(counts: Sequence[Counts]) -> str:
  heads = ("split", "pictures", *records.SOURCES)
  rows = tuple(
    (of.split, f"{of.pictures:,}", *(f"{of.sentences[source]:,}" for source in records.SOURCES))
    for of in counts
  )
  return f"annotations: sentences in {LANGUAGE}, by source\n\n{Grid(heads, rows[:-1], rows[-1:]).text()}"


def _lengths(counts: Sequence[Counts]) -> str:
  heads = ("split", "sentences", "vocabulary", "words from", "mean", "to", "characters from", "mean", "to")
  rows = tuple(
    (of.split, f"{of.words.total():,}", f"{len(of.vocabulary):,}", *_span(of.words), *_span(of.characters))
    for of in counts
  )
  title = "annotations: sentences by people that are segmented, without punctuation"
  return f"{title}\n\n{Grid(heads, rows[:-1], rows[-1:]).text()}"


def _tags(counts: Sequence[Counts]) -> str:
  heads = ("split", "pictures with tags", "tags", "distinct", "a picture from", "mean", "to")
  rows = tuple(
    (
      of.split,
      f"{of.tags.numbers.total():,}",
      f"{of.tags.counts.total():,}",
      f"{len(of.tags.counts):,}",
      *_span(of.tags.numbers),
    )
    for of in counts
  )
  return f"annotations: tags in {LANGUAGE}\n\n{Grid(heads, rows[:-1], rows[-1:]).text()}"


def _span(numbers: collections.Counter[int]) -> tuple[str, str, str]:
  """The least, the mean and the most; dashes where there is nothing."""
  if not numbers:
    return "-", "-", "-"
  mean = sum(number * times for number, times in numbers.items()) / numbers.total()
  return f"{min(numbers)}", f"{mean:.2f}", f"{max(numbers)}"


def _compared(found: dict[tuple[str, str], int]) -> str:
  rows = []
  for (name, split), expected in PUBLISHED.items():
    number = found.get((name, split), 0)
    rows.append(
      (name, split, f"{number:,}", f"{expected:,}", f"{number - expected:+,}" if number != expected else "0")
    )
  grid = Grid(("", "split", "found", "published", "difference"), tuple(rows), num_labels=2)
  return f"annotations against COCO-CN's version 1805\n\n{grid.text()}"
