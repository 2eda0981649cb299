"""Counts captions, words, characters, pieces and tags in a corpus, by split and language."""

import collections
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Sequence

from xmcap import languages
from xmcap import processes as processes_lib
from xmcap.corpora.building import annotations
from xmcap.corpora.checking import annotation_statistics
from xmcap.data import records
from xmcap.data.records import Caption, Record, RecordSource
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError
from xmcap.files import addresses
from xmcap.progress import Say

_CHUNK = 2_048  # records per call of a process


@dataclasses.dataclass
class TextStatistics:
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
    tags: tag -> how often people gave it.
    tagged: number of tags -> images that have so many; images without tags are left out.
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
  tags: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
  tagged: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)

  def add(self, other: "TextStatistics") -> None:
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
class CorpusStatistics:
  """Statistics of a corpus.

  Attributes:
    images: split -> number of images.
    rows: one per split and language.
    published: split -> the release that it was built from, "" if unknown.
    target_length: T, at which targets are truncated; 0 if pieces were not counted.
    annotations: tables of `annotations.jsonl`, if the corpus has it.
  """

  images: dict[str, int]
  rows: list[TextStatistics]
  published: dict[str, str]
  target_length: int
  annotations: list[str]


def statistics(
  directory: str | os.PathLike,
  *,
  vocabulary: str = "",
  target_length: int = 64,
  processes: int | None = None,
  say: Say | None = None,
) -> CorpusStatistics:
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
  images: dict[str, int] = {}
  rows: list[TextStatistics] = []
  published_as: dict[str, str] = {}
  for split in records.splits(directory):
    source = RecordSource(directory, split)
    name = f"{split} (records)"
    options = {"chunk": _CHUNK, "processes": processes, "say": say}
    parts = processes_lib.map_records(
      _count_records, source, model, what=f"{name}: images counted", **options
    )
    rows += _rows(name, parts)
    images[name], published_as[name] = len(source), source.dataset.replace("_", "").lower()
  for folder in [directory, *(addresses.join(directory, name) for name in addresses.folders(directory))]:
    path = addresses.join(folder, "captions.jsonl")
    if not addresses.is_file(path):
      continue
    from xmcap import papers  # only a release needs them
    from xmcap.reading import references  # only a release needs them

    with addresses.local_copy(path) as copy:
      release = references.read_references(copy)
    name = f"{os.path.basename(folder)} (release)"
    pictures = (
      Record(
        key, b"", [Caption(language, text, source="") for language, texts in own.items() for text in texts]
      )
      for key, own in release.items()
    )
    rows += _rows(name, [_count(pictures, model)])
    images[name], published_as[name] = len(release), "xm3600" if papers.is_xm3600(release) else ""
  if not images:
    raise UsageError(f"{directory} has no corpus (neither dataset_info.json nor captions.jsonl): build one")
  has_annotations = addresses.is_file(addresses.join(directory, annotations.NAME))
  tables = annotation_statistics.tables(directory) if has_annotations else []
  return CorpusStatistics(images, rows, published_as, target_length if model else 0, tables)


def _rows(split: str, parts: Iterable[dict[str, TextStatistics]]) -> list[TextStatistics]:
  """Returns a row per language, in the order of the codes, summed over the parts of a split."""
  total: dict[str, TextStatistics] = {}
  for part in parts:
    for language, row in part.items():
      total.setdefault(language, TextStatistics(split, language)).add(row)
  return [total[code] for code in languages.ordered(total)]


def _count_records(
  source: RecordSource, indices: range, vocabulary: Vocabulary | None
) -> dict[str, TextStatistics]:
  return _count(source.iterate(indices), vocabulary)


def _count(images: Iterable[Record], vocabulary: Vocabulary | None) -> dict[str, TextStatistics]:
  """Counts captions and tags by language."""
  rows: dict[str, TextStatistics] = {}
  for record in images:
    counts = collections.Counter(caption.language for caption in record.captions)
    for language in (*counts, *record.tags_by_language):
      rows.setdefault(language, TextStatistics("", language))
    for language, number in counts.items():
      row = rows[language]
      row.images += 1
      row.once += number == 1
      row.twice += number == 2
      row.more += number > 2
    for caption in record.captions:
      row, text = rows[caption.language], caption.text
      spaced = len(text.split())
      row.captions += 1
      row.spaced_words += spaced
      has_spaces = languages.get(caption.language).spaces
      row.words += spaced if has_spaces else len(_segmenter(caption.language)(text))
      row.characters += len(text)
      if caption.source:
        row.sources[caption.source] += 1
    if vocabulary:
      pieces = vocabulary.encode_all([vocabulary.text_of(caption) for caption in record.captions])
      for caption, ids in zip(record.captions, pieces, strict=True):
        rows[caption.language].lengths[len(ids) + 1] += 1
    for language, tags in record.tags_by_language.items():
      rows[language].tags.update(tags)
      rows[language].tagged[len(tags)] += 1
  return rows


@functools.cache
def _segmenter(language: str) -> Callable[[str], Sequence[str]]:
  from xmcap.scoring import tokenizers  # loads segmenters, which few languages need

  return tokenizers.get("default", language)
