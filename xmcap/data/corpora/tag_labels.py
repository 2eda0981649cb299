"""Labels for tagging, and the labels of each picture, out of tags and sentences.

Chinese (Li et al., COCO-CN, section IV-A): labels are the tags, and of the sentences the words with a part of speech
n*, or a* and v* with two characters or more, if 20 or more training pictures have them. Parts are those of the release,
else `jieba.posseg`'s. Other languages have no tagger here: labels are their most frequent words of three letters or
more, in small letters, without the stop words of `stop_words.py` (English alone has some).
"""

import collections
import dataclasses
import os
from collections.abc import Collection, Iterable, Iterator, Sequence

import regex

from xmcap.data import records
from xmcap.data.corpora import annotations, parts_of_speech, stop_words
from xmcap.data.corpora.annotations import Annotated, Sentence
from xmcap.errors import UsageError
from xmcap.scoring.grid import Grid
from xmcap.storage import addresses

LEAST = 20
"""Training pictures that a label needs, in the paper."""

TRAIN = "train"
_WORDS = regex.compile(r"\p{L}[\p{L}\p{M}'’-]*")
_MIN_LETTERS = 3


@dataclasses.dataclass(frozen=True)
class Labels:
  """Labels with the training pictures that have each, and the labels of every picture.

  Attributes:
    counts: label -> training pictures, the most frequent first, equal ones by their characters.
    pictures: (key, split, labels in the order of `counts`) of each picture, those without any too.
  """

  counts: dict[str, int]
  pictures: list[tuple[str, str, list[str]]]

  def table(self) -> str:
    """Labels, training pictures a label, and of each split labels a picture and pictures without one."""
    counts = list(self.counts.values()) or [0]
    mean = sum(counts) / len(counts)
    span = f"{min(counts):,} to {max(counts):,}, mean {mean:.1f}"
    first = f"{len(self.counts):,} labels; training pictures a label: {span}"
    lines = []
    for split in dict.fromkeys(split for _, split, _ in self.pictures):
      held = [len(labels) for _, of, labels in self.pictures if of == split]
      lines.append((split, f"{len(held):,}", f"{sum(held) / len(held):.2f}", f"{held.count(0):,}"))
    grid = Grid(("split", "pictures", "labels/picture", "without one"), tuple(lines))
    return f"{first}\n\n{grid.text()}"


def make(
  pictures: Iterable[Annotated],
  language: str,
  *,
  source: str = "human",
  given: Sequence[str] | None = None,
  least: int = LEAST,
  most: int | None = None,
) -> Labels:
  """Chooses labels by the rule, and gives each picture its own.

  Args:
    language: code, of tags and sentences.
    source: of `records.SOURCES`, of the sentences; tags are used with `human` alone.
    given: the labels, in place of the rule.
    least: training pictures that a label needs.
    most: labels at most, the most frequent; None: all.

  Raises:
    UsageError: no picture is of the split `train`, or none has a label.
  """
  found = [(picture.key, picture.split, _candidates(picture, language, source)) for picture in pictures]
  train = [of_picture for _, split, of_picture in found if split == TRAIN]
  if not train and given is None:
    raise UsageError(f"no picture is in the split {TRAIN}: give the labels by --labels=FILE")
  counts = collections.Counter(label for of_picture in train for label in of_picture)
  if given is not None:
    chosen = {label: counts[label] for label in given}
  else:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    chosen = dict([(label, count) for label, count in ordered if count >= least][:most])
  places = {label: place for place, label in enumerate(chosen)}
  labelled = [
    (key, split, sorted(of_picture & places.keys(), key=places.__getitem__))
    for key, split, of_picture in found
  ]
  if not any(labels for _, _, labels in labelled):
    raise UsageError(
      f"no picture has a label: no tag or word in '{language}' from source '{source}' is on {least} training pictures"
    )
  return Labels(chosen, labelled)


def read_pictures(directory: str | os.PathLike) -> Iterator[Annotated]:
  """Yields the pictures of a corpus, from `annotations.jsonl`, or from its records, whose sentences have no parts.

  UsageError where there is neither.
  """
  path = addresses.join(directory, annotations.NAME)
  if addresses.is_file(path):
    with addresses.local_copy(path) as copy:
      yield from annotations.read(copy)
    return
  splits = records.splits(directory)
  if not splits:
    raise UsageError(
      f"{directory} holds no corpus (neither {annotations.NAME} nor dataset_info.json): build one"
    )
  for split in splits:
    for record in records.RecordSource(directory, split):
      sentences = [Sentence(caption.language, caption.source, caption.text) for caption in record.captions]
      yield Annotated(record.key, split, record.tags_by_language, sentences)


def _candidates(picture: Annotated, language: str, source: str) -> set[str]:
  found = set(picture.tags.get(language, ())) if source == "human" else set()
  for sentence in picture.sentences:
    if (sentence.language, sentence.source) == (language, source):
      found |= _of_chinese(sentence) if language == "zh" else _of_other(sentence.text, language)
  return found


def _of_chinese(sentence: Sentence) -> set[str]:
  tagged = (
    zip(sentence.words, sentence.parts, strict=True) if sentence.words else parts_of_speech.tag(sentence.text)
  )
  return {
    word for word, part in tagged if part.startswith("n") or (part.startswith(("a", "v")) and len(word) >= 2)
  }


def _of_other(text: str, language: str) -> set[str]:
  words = {word.rstrip("'’-") for word in _WORDS.findall(text.lower())}
  stopped: Collection[str] = stop_words.ENGLISH if language == "en" else ()
  return {word for word in words if len(word) >= _MIN_LETTERS and word not in stopped}
