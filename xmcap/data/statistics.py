"""How much text a corpus holds: captions, words and characters of each language in each split."""

import collections
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator

from xmcap import languages
from xmcap.data import records
from xmcap.errors import UsageError


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
  """

  split: str
  language: str
  images: int
  captions: int
  words: int
  characters: int


@dataclasses.dataclass(frozen=True)
class Statistics:
  """Rows by split and language; as a string, one table a split.

  Attributes:
    images: split -> images in it.
    rows: a row for each language that a split has captions in, in the order of the codes.
  """

  images: dict[str, int]
  rows: list[Row]

  def __str__(self) -> str:
    tables = []
    for split, images in self.images.items():
      lines = [f"{split}: {images:,} images", "", _line("language", *_COLUMNS)]
      rows = [row for row in self.rows if row.split == split]
      for row in rows:
        name = languages.get(row.language).english_name
        lines.append(_counts(f"{row.language:<4}{name}", row.images, row.captions, row.words, row.characters))
      sums = [sum(getattr(row, name) for row in rows) for name in ("captions", "words", "characters")]
      lines.append(_counts(f"{len(rows)} languages", images, *sums))
      tables.append("\n".join(lines))
    return "\n\n".join(tables)


_COLUMNS = ("images", "captions", "words", "characters", "words/caption", "chars/caption")


def statistics(directory: str | os.PathLike) -> Statistics:
  """Counts a corpus: its record splits, then its releases (`captions.jsonl` in it or in its folders).

  Raises:
    UsageError: the folder holds neither.
    XmcapError: a file is damaged (names it, and the line).
  """
  directory = pathlib.Path(directory)
  images: dict[str, int] = {}
  rows: list[Row] = []
  for split, captions in _splits(directory):
    images[split], found = _count(split, captions)
    rows += found
  if not images:
    raise UsageError(f"{directory} holds no corpus (neither dataset_info.json nor captions.jsonl): build one")
  return Statistics(images, rows)


def _splits(directory: pathlib.Path) -> Iterator[tuple[str, Iterable[list[tuple[str, str]]]]]:
  """Each split's name, and for each of its images the pairs (language, caption)."""
  for split in records.splits(directory):
    source = records.RecordSource(directory, split)
    yield f"{split} (records)", ([(c.language, c.text) for c in record.captions] for record in source)
  for path in sorted([*directory.glob("captions.jsonl"), *directory.glob("*/captions.jsonl")]):
    # Imported here: only a release needs the reader, and data stands beside scoring.
    from xmcap.scoring import references

    release = references.read_references(path).values()
    name = path.parent.name if path.parent != directory else directory.resolve().name
    yield (
      f"{name} (release)",
      ([(code, text) for code, texts in image.items() for text in texts] for image in release),
    )


def _count(split: str, captions: Iterable[list[tuple[str, str]]]) -> tuple[int, list[Row]]:
  total = 0
  counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
  for image in captions:
    total += 1
    for language in {language for language, _ in image}:
      counts[language][0] += 1
    for language, text in image:
      count = counts[language]
      count[1] += 1
      count[2] += _words(language)(text)
      count[3] += len(text)
  return total, [Row(split, code, *counts[code]) for code in languages.LANGUAGES if code in counts]


@functools.cache
def _words(language: str) -> Callable[[str], int]:
  """The function that counts the words of a caption."""
  if languages.get(language).spaces:
    return lambda text: len(text.split())
  from xmcap.scoring import tokenizers

  tokenizer = tokenizers.get("default", language)
  return lambda text: len(tokenizer(text))


def _counts(name: str, images: int, captions: int, words: int, characters: int) -> str:
  ratios = [f"{count / captions:.1f}" if captions else "-" for count in (words, characters)]
  return _line(name, *(f"{count:,}" for count in (images, captions, words, characters)), *ratios)


def _line(name: str, *cells: str) -> str:
  return f"{name:<18}" + "".join(f"{cell:>15}" for cell in cells)
