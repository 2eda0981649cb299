"""How much text a corpus holds: captions, words, characters and pieces of each language in each split."""

import collections
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from xmcap import languages
from xmcap.data import published, records, workers
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError
from xmcap.storage import addresses, files

_CHUNK = 2_048  # records counted at a time by one process
_READ_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Row:
  """The text of one language in one split.

  Attributes:
    split: name of the split, with how it is stored: `train (records)`, `test (release)`.
    language: code.
    images: images of the split that have a caption in the language.
    captions: captions.
    words: words; at spaces, and for zh, ja and th by the segmenters of `xmcap score`.
    characters: Unicode code points, spaces included.
    spaced_words: words at spaces in every language, as the XM3600 paper counts.
    once, twice, more: images with one, two, three or more captions ("replication" there).
    lengths: pieces of a caption, its end included -> captions with so many; () without a vocabulary.
  """

  split: str
  language: str
  images: int
  captions: int
  words: int
  characters: int
  spaced_words: int = 0
  once: int = 0
  twice: int = 0
  more: int = 0
  lengths: tuple[tuple[int, int], ...] = ()

  @property
  def mean_spaced_words(self) -> float:
    """Words a caption, at spaces."""
    return self.spaced_words / self.captions

  @property
  def mean_characters(self) -> float:
    """Characters a caption."""
    return self.characters / self.captions

  @property
  def pieces(self) -> int:
    """Pieces of all captions, their ends included."""
    return sum(length * count for length, count in self.lengths)

  def longer_than(self, length: int) -> int:
    """Captions of more pieces, their ends included, than `length`."""
    return sum(count for pieces, count in self.lengths if pieces > length)

  def length_at(self, share: float) -> int:
    """The pieces that this share of the captions does not exceed."""
    seen = 0
    for pieces, count in self.lengths:
      seen += count
      if seen >= share * self.captions:
        return pieces
    return 0


@dataclasses.dataclass(frozen=True)
class Statistics:
  """Rows by split and language; `statistics_tables.text` makes tables of them.

  Attributes:
    images: split -> images in it.
    rows: a row for each language that a split has captions in, in the order of the codes.
    published: split -> the corpus whose published figures it is compared with.
    target_length: T, at which targets are cut; 0 where pieces were not counted.
  """

  images: dict[str, int]
  rows: list[Row]
  published: dict[str, str] = dataclasses.field(default_factory=dict)
  target_length: int = 0


def statistics(
  directory: str | os.PathLike,
  *,
  vocabulary: str = "",
  target_length: int = 64,
  corpus: str = "",
  processes: int | None = None,
  progress: Callable[[str, int, int], None] | None = None,
) -> Statistics:
  """Counts a corpus: its record splits, then its releases (`captions.jsonl` in it or in its folders).

  Args:
    directory: the corpus.
    vocabulary: a SentencePiece model, to count pieces with; "" counts none.
    target_length: T, pieces of a target, its end included.
    corpus: `xm3600`, `coco35l` or `cc3m35l`, with whose published figures to compare; by default the corpus that the
      records say they are, and none for a release.
    processes: for large splits; None: one a core.
    progress: called with a split's name, records so far, and all records.

  Raises:
    UsageError: the folder holds neither, there is no such corpus, or the vocabulary cannot be read.
    XmcapError: a file is damaged (names it, and the line).
  """
  directory = addresses.absolute(directory).rstrip("/")
  if corpus and corpus not in published.CORPORA:
    raise UsageError(f"nothing is published of the corpus '{corpus}': give {', '.join(published.CORPORA)}")
  if vocabulary:
    Vocabulary(vocabulary)  # what is wrong with it is said before anything is counted
    if target_length < 2:
      raise UsageError(f"a target length of {target_length} holds no text: give at least 2")
  images: dict[str, int] = {}
  rows: list[Row] = []
  compared = {}
  for split in records.splits(directory):
    source = records.RecordSource(directory, split)
    name = f"{split} (records)"
    counts = _count_records(
      source, vocabulary, processes, functools.partial(progress, name) if progress else None
    )
    images[name], compared[name] = len(source), corpus or published.name(directory)
    rows += counts.rows(name)
  for folder in [directory, *(addresses.join(directory, name) for name in addresses.folders(directory))]:
    path = addresses.join(folder, "captions.jsonl")
    if not addresses.is_file(path):
      continue
    # Imported here: only a release needs the reader, and data stands beside scoring.
    from xmcap.scoring import references

    with addresses.local_copy(path) as copy:
      release = references.read_references(copy)
    name = f"{os.path.basename(folder)} (release)"
    counts = _Counts(vocabulary)
    for captions in release.values():
      counts.add([(code, text) for code, texts in captions.items() for text in texts])
    images[name], compared[name] = len(release), corpus
    rows += counts.rows(name)
  if not images:
    raise UsageError(f"{directory} holds no corpus (neither dataset_info.json nor captions.jsonl): build one")
  return Statistics(images, rows, compared, target_length if vocabulary else 0)


class _Counts:
  """Sums by language; those of parts of a split can be added up."""

  def __init__(self, vocabulary: str = ""):
    self.vocabulary = vocabulary
    self.sums: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    self.lengths: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)

  def add(self, captions: Sequence[tuple[str, str]]) -> None:
    """Counts the (language, text) pairs of an image."""
    for language, count in collections.Counter(language for language, _ in captions).items():
      sums = self.sums[language]
      sums["images"] += 1
      sums["once" if count == 1 else "twice" if count == 2 else "more"] += 1
    for language, text in captions:
      sums = self.sums[language]
      spaced = len(text.split())
      sums["captions"] += 1
      sums["spaced_words"] += spaced
      sums["words"] += spaced if languages.get(language).spaces else len(_segmenter(language)(text))
      sums["characters"] += len(text)
    if self.vocabulary:
      pieces = _vocabulary(self.vocabulary).encode_all([text for _, text in captions])
      for (language, _), ids in zip(captions, pieces, strict=True):
        self.lengths[language][len(ids) + 1] += 1

  def merge(self, other: "_Counts") -> None:
    """Adds the sums of another part."""
    for language, sums in other.sums.items():
      self.sums[language].update(sums)
    for language, lengths in other.lengths.items():
      self.lengths[language].update(lengths)

  def rows(self, split: str) -> list[Row]:
    """A row for each language, in the order of the codes."""
    return [
      Row(split, code, **self.sums[code], lengths=tuple(sorted(self.lengths[code].items())))
      for code in languages.LANGUAGES
      if code in self.sums
    ]


def _count_records(
  source: records.RecordSource,
  vocabulary: str,
  processes: int | None,
  progress: Callable[[int, int], None] | None,
) -> _Counts:
  starts = range(0, len(source), _CHUNK)
  stops = [min(start + _CHUNK, len(source)) for start in starts]
  processes = min(processes or files.available_cores(), len(starts))
  total = _Counts(vocabulary)

  def collect(parts: Iterable[_Counts]) -> _Counts:
    for stop, part in zip(stops, parts, strict=True):
      total.merge(part)
      if progress is not None:
        progress(stop, len(source))
    return total

  arguments = (itertools.repeat(source), starts, stops, itertools.repeat(vocabulary))
  if processes <= 1:
    return collect(map(_count_part, *arguments))
  with workers.pool(processes) as pool:
    return collect(pool.map(_count_part, *arguments))


def _count_part(source: records.RecordSource, start: int, stop: int, vocabulary: str) -> _Counts:
  counts = _Counts(vocabulary)
  for captions in _read(source, start, stop):
    counts.add(captions)
  return counts


def _read(source: records.RecordSource, start: int, stop: int) -> Iterator[list[tuple[str, str]]]:
  for first in range(start, stop, _READ_BATCH):
    for record in source.read(range(first, min(first + _READ_BATCH, stop)), records.parse_columns):
      yield [
        (language.decode(), text.decode())
        for language, text in zip(record.languages, record.texts, strict=True)
      ]


@functools.cache
def _segmenter(language: str) -> Callable[[str], Sequence[str]]:
  from xmcap.scoring import tokenizers

  return tokenizers.get("default", language)


@functools.cache
def _vocabulary(path: str) -> Vocabulary:
  return Vocabulary(path)
