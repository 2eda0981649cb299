"""Counts captions, words, characters, pieces and tags in a corpus, by split and language."""

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

_CHUNK = 2_048  # records per call of a process


@dataclasses.dataclass
class Row:
  """The text of one language in one split.

  Attributes:
    split: name of the split and how it is stored: `train (records)`, `test (release)`.
    language: code.
    images: images of the split with a caption in the language.
    words: words, split at spaces, or for zh, ja and th by the segmenters of `xmcap score`.
    characters: Unicode code points, including spaces.
    spaced_words: words split at spaces in every language, as counted in the XM3600 paper.
    once, twice, more: images with one, two, three or more captions ("replication" in the paper).
    lengths: pieces of a caption, including EOS -> number of captions; empty without a vocabulary.
    sources: source (of `records.SOURCES`) -> number of captions; empty if unknown.
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
    """Mean words per caption, split at spaces."""
    return self.spaced_words / max(self.captions, 1)

  @property
  def mean_characters(self) -> float:
    """Mean characters per caption."""
    return self.characters / max(self.captions, 1)

  @property
  def pieces(self) -> int:
    """Total pieces of all captions, including EOS."""
    return sum(length * count for length, count in self.lengths.items())

  def longer_than(self, length: int) -> int:
    """Returns the number of captions with more than `length` pieces, including EOS."""
    return sum(count for pieces, count in self.lengths.items() if pieces > length)

  def length_at(self, share: float) -> int:
    """Returns the quantile of the number of pieces: this share of the captions has at most so many."""
    seen = 0
    for pieces, count in sorted(self.lengths.items()):
      seen += count
      if seen >= share * self.captions:
        return pieces
    return 0


@dataclasses.dataclass(frozen=True)
class Statistics:
  """Statistics of a corpus.

  Attributes:
    images: split -> number of images.
    rows: one per split and language.
    published: split -> the release that it was built from, "" if unknown.
    target_length: T, at which targets are truncated; 0 if pieces were not counted.
    tags: one per split and language.
    annotations: tables of `annotations.jsonl`, if the corpus has it.
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
  """Counts a corpus: its record splits, then releases (`captions.jsonl` in the folder or its subfolders).

  Args:
    directory: the corpus.
    vocabulary: a SentencePiece model for counting pieces; "": none are counted.
    target_length: T, in pieces, including EOS.
    processes: number of processes; None: all cores.
    say: receives progress lines.
  """
  directory = addresses.absolute(directory).rstrip("/")
  model = Vocabulary(vocabulary) if vocabulary else None
  if model and target_length < 2:
    raise UsageError(f"a target length of {target_length} leaves no room for text: give at least 2")
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
    raise UsageError(f"{directory} has no corpus (neither dataset_info.json nor captions.jsonl): build one")
  return found


def _rows(split: str, parts: Iterable[dict[str, Row]]) -> list[Row]:
  """Returns a row per language, in the order of the codes, summed over the parts of a split."""
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
