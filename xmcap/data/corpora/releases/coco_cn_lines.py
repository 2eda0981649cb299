"""The text files of COCO-CN, versions 1805 and 1805v1.1 -> annotated pictures.

  coco-cn_train.txt, _val, _test                          ID
  imageid.human-written-caption.txt                       ID#n<TAB>sentence      (1805: imageid.caption.txt)
  imageid.human-written-caption.bosonseg.txt              ID#n word:part ...     (1805: imageid.caption.bosonseg.txt)
  imageid.human-written-tags.txt                          ID tag ...             (1805: imageid.tags.txt)
  imageid.manually-translated-caption.txt, .bosonseg.txt  ID#zhm#n ...           (of test alone)
  imageid.machine-translated-caption.bosonseg.txt         ID#zhbDec#n word:part  (1805v1.1 alone)

The id is `COCO_train2014_000000296735`. Sentences by machine are only given in words; their text is the words joined.
"""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping

from xmcap.data.corpora import line_check
from xmcap.data.corpora.annotations import Annotated, Sentence
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError
from xmcap.scoring.inputs import Input
from xmcap.terminal import shown

SPLITS = ("train", "val", "test")
LANGUAGE = "zh"
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
NAMES = frozenset(name for names in _NAMES.values() for name in names)
"""The names of all files that are read."""

_ID = re.compile(r"COCO_(?:train|val)2014_[0-9]{12}")
_HEADS = {
  "human": re.compile(rf"({_ID.pattern})#([0-9]{{1,4}})"),
  "translated": re.compile(rf"({_ID.pattern})#zhm#([0-9]{{1,4}})"),
  "mt": re.compile(rf"({_ID.pattern})#zhbDec#([0-9]{{1,4}})"),
}
_PART = re.compile(r"[A-Za-z]+")
_LETTER = re.compile(r"[A-Za-z0-9]")

_Place = tuple[str, int]
"""Id of a picture and number of a sentence."""


@dataclasses.dataclass(frozen=True)
class Release:
  """What the files say.

  Attributes:
    version: `1805` or `1805v1.1`.
    pictures: split -> its pictures, in the order of the list.
    lines: split -> lines of sentences and words that were read about its pictures.
  """

  version: str
  pictures: dict[str, list[Annotated]]
  lines: collections.Counter[str]


def read(
  found: Mapping[str, pathlib.Path],
  where: pathlib.Path,
  problems: Problems,
  labels: Collection[str] | None = None,
) -> Release:
  """Reads the files of a release, named as they were published.

  Args:
    found: name -> file, of `NAMES`.
    where: the release, for messages.
    labels: tags that are not among them are counted, and used; None: any tag is right.

  Raises:
    UsageError: a file is absent that each version has, or cannot be read.
  """
  paths: dict[str, pathlib.Path] = {}
  for role, names in _NAMES.items():
    name = next((name for name in names if name in found), None)
    if name is not None:
      paths[role] = found[name]
    elif role in _REQUIRED:
      raise UsageError(f"{where} has no {' or '.join(names)}: give the folder or archive of a whole version")
  version = next(version for version, name in _VERSIONS.items() if paths["human"].name == f"{name}.txt")
  reader = _Reader(paths, problems)
  split_of = reader.splits()
  pictures = {key: Annotated(key, split) for key, split in split_of.items()}
  for source in ("human", "translated", "mt"):
    for (key, _), sentence in sorted(reader.sentences(source, split_of).items(), key=lambda item: item[0]):
      pictures[key].sentences.append(sentence)
  for key, tags in reader.tags(split_of, labels).items():
    pictures[key].tags[LANGUAGE] = tags
  by_split: dict[str, list[Annotated]] = {split: [] for split in SPLITS}
  for picture in pictures.values():
    by_split[picture.split].append(picture)
  return Release(version, by_split, reader.lines)


def split_word(token: str) -> tuple[str, str]:
  """A `word:part` as (word, part of speech), split at the last colon; the part is "" where there is none."""
  word, _, part = token.rpartition(":")
  return (word, part) if word and _PART.fullmatch(part) else (token, "")


def joined(words: list[str]) -> str:
  """Chinese words as a sentence: a space stands only between words that begin and end with Latin letters or digits."""
  text = ""
  for word in words:
    space = text and _LETTER.fullmatch(text[-1]) and _LETTER.fullmatch(word[0])
    text += f" {word}" if space else word
  return text


class _Reader:
  """Reads the files by their roles; `lines` counts lines of sentences by split."""

  def __init__(self, paths: Mapping[str, pathlib.Path], problems: Problems):
    self._paths, self._problems = paths, problems
    self.lines: collections.Counter[str] = collections.Counter()

  def splits(self) -> dict[str, str]:
    """Id -> split. Of a picture in two lists the first of test, val and train counts: none is trained on by mistake."""
    found: dict[str, str] = {}
    for split in reversed(SPLITS):
      seen: set[str] = set()
      for where, line in self._lines(split):
        if not _ID.fullmatch(line):
          self._problems.add(
            "missing_field", where, f"no id such as COCO_val2014_000000000042: {shown(line, 80)}"
          )
        elif (held := found.setdefault(line, split)) != split:
          self._problems.add("other_split", where, f"{line} is in {held}")
        elif line in seen:
          self._problems.add("duplicate_line", where, line)
        seen.add(line)
    return found

  def sentences(self, source: str, split_of: Mapping[str, str]) -> dict[_Place, Sentence]:
    """The sentences of a source of `records.SOURCES`; those without a text of their own are their words joined."""
    found: dict[_Place, Sentence] = {}
    for where, place, text in self._places(source, _HEADS[source], split_of):
      if text := line_check.usable(text, where, self._problems):
        found[place] = Sentence(LANGUAGE, source, text)
    for where, place, text in self._places(f"{source}_words", _HEADS[source], split_of):
      words = [split_word(token) for token in text.split()]
      for word in (word for word, part in words if not part):
        self._problems.add("no_part_of_speech", where, word)
      if not words:
        self._problems.add("empty_caption", where)
      elif place in found:
        found[place].words, found[place].parts = map(list, zip(*words, strict=True))
      elif source in self._paths:
        self._problems.add("no_sentence", where, f"{place[0]}, sentence {place[1]}")
      else:
        only = [word for word, _ in words]
        if text := line_check.usable(joined(only), where, self._problems):
          found[place] = Sentence(LANGUAGE, source, text, only, [part for _, part in words])
    return found

  def tags(self, split_of: Mapping[str, str], labels: Collection[str] | None) -> dict[str, list[str]]:
    """Id -> tags, as they were given: some are twice, some are odd."""
    found: dict[str, list[str]] = {}
    for where, line in self._lines("tags"):
      key, *tags = line.split()
      if not _ID.fullmatch(key) or not tags:
        self._problems.add("missing_field", where, f"no id and tags: {shown(line, 80)}")
      elif key not in split_of:
        self._problems.add("unknown_id", where, key)
      elif key in found:
        self._problems.add("duplicate_line", where, key)
      else:
        usable = (line_check.usable(tag, where, self._problems) for tag in tags)
        found[key] = [tag for tag in usable if tag]
        for tag in found[key]:
          if labels is not None and tag not in labels:
            self._problems.add("unknown_tag", where, tag)
    return {key: tags for key, tags in found.items() if tags}

  def _places(
    self, role: str, pattern: re.Pattern[str], split_of: Mapping[str, str]
  ) -> Iterator[tuple[str, _Place, str]]:
    """Yields where, place and the rest of the lines of a file, each place once."""
    seen: set[_Place] = set()
    for where, line in self._lines(role) if role in self._paths else ():
      head, *rest = line.split(maxsplit=1)
      match = pattern.fullmatch(head)
      if match is None:
        self._problems.add("missing_field", where, f"no id and number of a sentence: {shown(head, 80)}")
        continue
      place = match[1], int(match[2])
      if match[1] not in split_of:
        self._problems.add("unknown_id", where, head)
      elif place in seen:
        self._problems.add("duplicate_line", where, head)
      else:
        seen.add(place)
        self.lines[split_of[match[1]]] += 1
        yield where, place, "".join(rest)

  def _lines(self, role: str) -> Iterator[tuple[str, str]]:
    """Yields place and text of the lines of a file that can be read."""
    path = self._paths[role]
    with Input(path) as source:
      for _, where, line in line_check.filled(source.raw_lines(), path.name, self._problems):
        try:
          yield where, line.decode()
        except UnicodeDecodeError as error:
          self._problems.add("bad_utf8", where, str(error))
