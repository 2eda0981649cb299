"""The text files of COCO-CN, versions 1805 and 1805v1.1, and of its extension of 2020 -> annotated images.

  coco-cn_train.txt, _val, _test                          ID
  imageid.human-written-caption.txt                       ID#n<TAB>sentence      (1805: imageid.caption.txt)
  imageid.human-written-caption.bosonseg.txt              ID#n word:part ...     (1805: imageid.caption.bosonseg.txt)
  imageid.human-written-tags.txt                          ID tag ...             (1805: imageid.tags.txt)
  imageid.manually-translated-caption.txt, .bosonseg.txt  ID#zhm#n ...           (of test alone)
  imageid.machine-translated-caption.bosonseg.txt         ID#zhbDec#n word:part  (1805v1.1 alone)
  coco-cn_ext.icap2020.txt                                ID#n<TAB>sentence      (the extension, which is one file)

The extension's images are in no list and in none of the other versions: they are all of train.
An ID is `COCO_train2014_000000296735`. Machine translations are only given in words; their text is the words joined.
"""

import collections
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping

from xmcap.corpora.building import line_check
from xmcap.corpora.building.annotations import Annotated, Sentence
from xmcap.corpora.building.problems import Problems
from xmcap.errors import UsageError
from xmcap.reading import tag_files
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

TRAIN = "train"
SPLITS = (TRAIN, "val", "test")
LANGUAGE = "zh"
EXTENSION = "coco-cn_ext.icap2020.txt"
"""4,573 images with 4,712 sentences that anybody may download (github.com/li-xirong/coco-cn, `data/`)."""

_VERSIONS = {"1805v1.1": "imageid.human-written-caption", "1805": "imageid.caption"}
# Role -> names, those of the later version first.
_NAMES: Mapping[str, tuple[str, ...]] = {
  **{split: (f"coco-cn_{split}.txt",) for split in SPLITS},
  "human": tuple(f"{name}.txt" for name in _VERSIONS.values()),
  "human_words": tuple(f"{name}.bosonseg.txt" for name in _VERSIONS.values()),
  "tags": ("imageid.human-written-tags.txt", "imageid.tags.txt"),
  "translated": ("imageid.manually-translated-caption.txt",),
  "translated_words": ("imageid.manually-translated-caption.bosonseg.txt",),
  "mt_words": ("imageid.machine-translated-caption.bosonseg.txt",),
}
_REQUIRED = (*SPLITS, "human", "tags")
NAMES = frozenset([EXTENSION, *(name for names in _NAMES.values() for name in names)])
"""The names of all files that are read."""

_ID = re.compile(r"COCO_(?:train|val)2014_[0-9]{12}")
_MARKS = {"human": "", "translated": "#zhm", "mt": "#zhbDec"}
_HEADS = {source: re.compile(rf"({_ID.pattern}){mark}#([0-9]{{1,4}})") for source, mark in _MARKS.items()}
_PART = re.compile(r"[A-Za-z]+")
_LETTER = re.compile(r"[A-Za-z0-9]")

_Place = tuple[str, int]
"""Id of an image and number of a sentence."""


@dataclasses.dataclass(frozen=True)
class Release:
  """The contents of the files.

  Attributes:
    version: `1805`, `1805v1.1` or `icap2020`, the extension.
    images: split -> its images, in the order of the list; the extension has train alone.
    lines: split -> lines of sentences and words that were read about its images.
  """

  version: str
  images: dict[str, list[Annotated]]
  lines: collections.Counter[str]


def read(
  by_name: Mapping[str, pathlib.Path],
  where: pathlib.Path,
  problems: Problems,
  labels: Collection[str] | None = None,
) -> Release:
  """Reads the files of a release, named as they were published.

  Args:
    by_name: name -> file, of `NAMES`; the extension alone, or the others.
    where: the release, for messages.
    labels: tags outside these are counted, and used; None: any tag is right.

  Raises:
    UsageError: a file that each version has is missing, or a file cannot be read.
  """
  paths, version = _paths(by_name, where)
  reader = _Reader(paths, problems)
  # First of all, as the sentences of the extension list its images.
  sentences = [sorted(reader.sentences(source).items(), key=lambda item: item[0]) for source in _HEADS]
  images = {key: Annotated(key, split) for key, split in reader.split_of.items()}
  for (key, _), sentence in itertools.chain.from_iterable(sentences):
    images[key].sentences.append(sentence)
  for key, tags in reader.tags(labels).items():
    images[key].tags[LANGUAGE] = tags
  by_split: dict[str, list[Annotated]] = {split: [] for split in SPLITS if reader.has_lists or split == TRAIN}
  for image in images.values():
    by_split[image.split].append(image)
  return Release(version, by_split, reader.lines)


def _paths(by_name: Mapping[str, pathlib.Path], where: pathlib.Path) -> tuple[dict[str, pathlib.Path], str]:
  """Returns role -> file, and the version."""
  if list(by_name) == [EXTENSION]:
    return {"human": by_name[EXTENSION]}, "icap2020"
  paths: dict[str, pathlib.Path] = {}
  for role, names in _NAMES.items():
    present = [by_name[name] for name in names if name in by_name]
    if present:
      paths[role] = present[0]
    elif role in _REQUIRED:
      raise UsageError(
        f"{where} has no {' or '.join(names)}: give the folder or archive of a whole version, or {EXTENSION}"
      )
  version = next(version for version, name in _VERSIONS.items() if paths["human"].name == f"{name}.txt")
  return paths, version


def split_word(token: str) -> tuple[str, str]:
  """Splits `word:part` at the last colon into a word and its part of speech, "" if there is none."""
  word, _, part = token.rpartition(":")
  return (word, part) if word and _PART.fullmatch(part) else (token, "")


def joined(words: list[str]) -> str:
  """Joins Chinese words, with spaces only between Latin letters or digits."""
  text = ""
  for word in words:
    space = text and _LETTER.fullmatch(text[-1]) and _LETTER.fullmatch(word[0])
    text += f" {word}" if space else word
  return text


class _Reader:
  """Reads the files by their roles; `lines` counts lines of sentences and words by split."""

  def __init__(self, paths: Mapping[str, pathlib.Path], problems: Problems):
    self._paths, self._problems = paths, problems
    self.lines: collections.Counter[str] = collections.Counter()
    self.split_of: dict[str, str] = {}
    self.has_lists = not set(SPLITS).isdisjoint(paths)
    for split in reversed(SPLITS):  # of an image in two lists, test counts, so that it is not trained on
      self._read_list(split)

  def _read_list(self, split: str) -> None:
    seen: set[str] = set()
    for where, line in self._lines(split):
      if not _ID.fullmatch(line):
        detail = f"no id such as COCO_val2014_000000000042: {shown(line, 80)}"
        self._problems.add("missing_field", where, detail)
      elif (earlier := self.split_of.setdefault(line, split)) != split:
        self._problems.add("other_split", where, f"{line} is in {earlier}")
      elif line in seen:
        self._problems.add("duplicate_line", where, line)
      seen.add(line)

  def sentences(self, source: str) -> dict[_Place, Sentence]:
    """Returns the sentences of a source of `records.SOURCES`; if only their words are given, these joined."""
    sentences: dict[_Place, Sentence] = {}
    for where, place, text in self._places(source, source):
      if text := line_check.usable(text, where, self._problems):
        sentences[place] = Sentence(LANGUAGE, source, text)
    for where, place, text in self._places(f"{source}_words", source):
      tagged = [split_word(token) for token in text.split()]
      words, parts = [word for word, _ in tagged], [part for _, part in tagged]
      for word, part in tagged:
        if not part:
          self._problems.add("no_part_of_speech", where, word)
      if not words:
        self._problems.add("empty_caption", where)
      elif place in sentences:
        sentences[place].words, sentences[place].parts = words, parts
      elif source in self._paths:
        self._problems.add("no_sentence", where, f"{place[0]}, sentence {place[1]}")
      elif text := line_check.usable(joined(words), where, self._problems):
        sentences[place] = Sentence(LANGUAGE, source, text, words, parts)
    return sentences

  def tags(self, labels: Collection[str] | None) -> dict[str, list[str]]:
    """Returns id -> tags, as they were given: some are repeated, some are odd."""
    tags_of: dict[str, list[str]] = {}
    for where, line in self._lines("tags"):
      key, *tags = line.split()
      if not _ID.fullmatch(key) or not tags:
        self._problems.add("missing_field", where, f"no id and tags: {shown(line, 80)}")
      elif tag_files.are_scored(tags) and "." in tags[1]:
        self._problems.add("missing_field", where, f"a tagger's scores among the tags: {shown(line, 80)}")
      elif key not in self.split_of:
        self._problems.add("unknown_id", where, key)
      elif key in tags_of:
        self._problems.add("duplicate_line", where, key)
      else:
        usable = (line_check.usable(tag, where, self._problems) for tag in tags)
        tags_of[key] = [tag for tag in usable if tag]
        for tag in tags_of[key]:
          if tag_files.is_number(tag):
            self._problems.add("number_tag", where, tag)
          if labels is not None and tag not in labels:
            self._problems.add("unknown_tag", where, tag)
    return {key: tags for key, tags in tags_of.items() if tags}

  def _places(self, role: str, source: str) -> Iterator[tuple[str, _Place, str]]:
    """Yields where, place and the rest of the lines of a file, if the release has it; each place once."""
    seen: set[_Place] = set()
    for where, line in self._lines(role):
      head, *rest = line.split(maxsplit=1)
      match = _HEADS[source].fullmatch(head)
      if match is None:
        self._problems.add("missing_field", where, f"no id and number of a sentence: {shown(head, 80)}")
        continue
      key, place = match[1], (match[1], int(match[2]))
      if not self.has_lists:
        self.split_of.setdefault(key, TRAIN)
      if key not in self.split_of:
        self._problems.add("unknown_id", where, head)
      elif place in seen:
        self._problems.add("duplicate_line", where, head)
      else:
        seen.add(place)
        self.lines[self.split_of[key]] += 1
        yield where, place, "".join(rest)

  def _lines(self, role: str) -> Iterator[tuple[str, str]]:
    """Yields place and text of the lines of a file, if the release has it; lines that are not UTF-8 are problems."""
    if role not in self._paths:
      return
    path = self._paths[role]
    with Input(path) as source:
      for _, where, line in line_check.filled(source.raw_lines(), path.name, self._problems):
        try:
          yield where, line.decode()
        except UnicodeDecodeError as error:
          self._problems.add("bad_utf8", where, str(error))
