"""The amount of text in a corpus: captions, words, characters, pieces and tags of each language in each split."""

import collections
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from xmcap import languages
from xmcap.data import records, workers
from xmcap.data.checking import annotation_statistics, tag_statistics
from xmcap.data.checking.tag_statistics import TagRow
from xmcap.data.corpora import annotations
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError
from xmcap.progress import Say
from xmcap.storage import addresses

_CHUNK = 2_048  # records counted at a time by one process


@dataclasses.dataclass
class Row:
  """The text of one language in one split.

  Attributes:
    split: name of the split, with how it is stored: `train (records)`, `test (release)`.
    language: code.
    images: images of the split that have a caption in the language.
    words: words; at spaces, and for zh, ja and th by the segmenters of `xmcap score`.
    characters: Unicode code points, spaces included.
    spaced_words: words at spaces in every language, as the XM3600 paper counts.
    once, twice, more: images with one, two, three or more captions ("replication" there).
    lengths: pieces of a caption, its end included -> captions with so many; empty without a vocabulary.
    sources: of `records.SOURCES` -> captions; empty where not known.
  """

  split: str
  language: str
  images: int = 0
  captions: int = 0
  words: int = 0
  characters: int = 0
  spaced_words: int = 0
  once: int = 0
  twice: int = 0
  more: int = 0
  lengths: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
  sources: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

  def add(self, other: "Row") -> None:
    """Adds the counts of other images to these."""
    for field in dataclasses.fields(self)[2:]:
      setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

  @property
  def mean_spaced_words(self) -> float:
    """Words a caption, at spaces."""
    return self.spaced_words / max(self.captions, 1)

  @property
  def mean_characters(self) -> float:
    """Characters a caption."""
    return self.characters / max(self.captions, 1)

  @property
  def pieces(self) -> int:
    """Pieces of all captions, their ends included."""
    return sum(length * count for length, count in self.lengths.items())

  def longer_than(self, length: int) -> int:
    """Captions of more pieces, their ends included, than `length`."""
    return sum(count for pieces, count in self.lengths.items() if pieces > length)

  def length_at(self, share: float) -> int:
    """The pieces that this share of the captions does not exceed."""
    seen = 0
    for pieces, count in sorted(self.lengths.items()):
      seen += count
      if seen >= share * self.captions:
        return pieces
    return 0


@dataclasses.dataclass(frozen=True)
class Statistics:
  """Split -> its images; rows by split and language; split -> the release it was built from, "" where not known.

  `target_length` is T, at which targets are cut; 0 where pieces were not counted. `tags` are by split and language;
  `annotations` are tables of `annotations.jsonl`, if there is one.
  """

  images: dict[str, int]
  rows: list[Row]
  published: dict[str, str] = dataclasses.field(default_factory=dict)
  target_length: int = 0
  tags: list[TagRow] = dataclasses.field(default_factory=list)
  annotations: list[str] = dataclasses.field(default_factory=list)


def statistics(
  directory: str | os.PathLike,
  *,
  vocabulary: str = "",
  target_length: int = 64,
  processes: int | None = None,
  say: Say | None = None,
) -> Statistics:
  """Counts a corpus: its record splits, then its releases (`captions.jsonl` in it or in its folders).

  Args:
    vocabulary: a SentencePiece model, to count pieces with; "" counts none.
    target_length: T, pieces of a target, its end included.
  """
  directory = addresses.absolute(directory).rstrip("/")
  model = Vocabulary(vocabulary) if vocabulary else None
  if model and target_length < 2:
    raise UsageError(f"a target length of {target_length} holds no text: give at least 2")
  found = Statistics({}, [], {}, target_length if model else 0)
  for split in records.splits(directory):
    source = records.RecordSource(directory, split)
    name = f"{split} (records)"
    what = f"{name}: images counted"
    parts = list(
      workers.map_records(
        _count_records, source, model, chunk=_CHUNK, processes=processes, what=what, say=say
      )
    )
    found.rows.extend(_rows(name, [rows for rows, _ in parts]))
    found.tags.extend(tag_statistics.collected(name, [tags for _, tags in parts]))
    found.images[name], found.published[name] = len(source), source.dataset.replace("_", "").lower()
  for folder in [directory, *(addresses.join(directory, name) for name in addresses.folders(directory))]:
    path = addresses.join(folder, "captions.jsonl")
    if not addresses.is_file(path):
      continue
    from xmcap.scoring import published, references  # only a release needs them

    with addresses.local_copy(path) as copy:
      release = references.read_references(copy)
    name = f"{os.path.basename(folder)} (release)"
    captions = (
      [(code, text, "") for code, texts in of_image.items() for text in texts]
      for of_image in release.values()
    )
    found.rows.extend(_rows(name, [_count(captions, model)]))
    found.images[name], found.published[name] = len(release), "xm3600" if published.is_xm3600(release) else ""
  if addresses.is_file(addresses.join(directory, annotations.NAME)):
    found.annotations.extend(annotation_statistics.tables(directory))
  if not found.images:
    raise UsageError(f"{directory} holds no corpus (neither dataset_info.json nor captions.jsonl): build one")
  return found


def _rows(split: str, parts: Iterable[dict[str, Row]]) -> list[Row]:
  """A row for each language, in the order of the codes, of the parts of a split."""
  total: dict[str, Row] = {}
  for part in parts:
    for language, row in part.items():
      total.setdefault(language, Row(split, language)).add(row)
  return [total[code] for code in languages.ordered(total)]


def _count_records(
  source: records.RecordSource, indices: range, vocabulary: Vocabulary | None
) -> tuple[dict[str, Row], dict[str, TagRow]]:
  tags: list[dict[str, list[str]]] = []

  def captions() -> Iterator[list[tuple[str, str, str]]]:
    for record in source.iterate(indices):
      if record.tags_by_language:
        tags.append(record.tags_by_language)
      yield [(caption.language, caption.text, caption.source) for caption in record.captions]

  return _count(captions(), vocabulary), tag_statistics.count(tags)


def _count(images: Iterable[Sequence[tuple[str, str, str]]], vocabulary: Vocabulary | None) -> dict[str, Row]:
  """Counts the (language, text, source) of the captions of each image, by language."""
  rows: dict[str, Row] = {}
  for captions in images:
    for language, number in collections.Counter(language for language, _, _ in captions).items():
      row = rows.setdefault(language, Row("", languages.get(language).code))
      row.images += 1
      row.once += number == 1
      row.twice += number == 2
      row.more += number > 2
    for language, text, source in captions:
      row = rows[language]
      spaced = len(text.split())
      row.captions += 1
      row.spaced_words += spaced
      row.words += spaced if languages.get(language).spaces else len(_segmenter(language)(text))
      row.characters += len(text)
      if source:
        row.sources[source] += 1
    if vocabulary:
      pieces = vocabulary.encode_all([text for _, text, _ in captions])
      for (language, _, _), ids in zip(captions, pieces, strict=True):
        rows[language].lengths[len(ids) + 1] += 1
  return {code: rows[code] for code in languages.ordered(rows)}


@functools.cache
def _segmenter(language: str) -> Callable[[str], Sequence[str]]:
  from xmcap.scoring import tokenizers  # loads segmenters, which few languages need

  return tokenizers.get("default", language)
