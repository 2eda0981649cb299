"""The tags that people gave the pictures of a corpus, counted by language."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from xmcap import languages
from xmcap.scoring.grid import Grid


@dataclasses.dataclass
class TagRow:
  """The tags of one language in one split.

  Attributes:
    split: name of the split, as in `statistics.Row`.
    language: code.
    counts: tag -> how often it was given.
    numbers: number of tags -> pictures that have so many; pictures without tags are left out.
  """

  split: str
  language: str
  counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
  numbers: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)

  def add(self, other: "TagRow") -> None:
    """Adds the counts of other pictures to these."""
    self.counts.update(other.counts)
    self.numbers.update(other.numbers)


def count(pictures: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, TagRow]:
  """Counts the tags by language of each picture: language code -> row."""
  rows: dict[str, TagRow] = {}
  for of_picture in pictures:
    for language, tags in of_picture.items():
      row = rows.setdefault(language, TagRow("", language))
      row.counts.update(tags)
      row.numbers[len(tags)] += 1
  return rows


def collected(split: str, parts: Iterable[Mapping[str, TagRow]]) -> list[TagRow]:
  """A row for each language, in the order of the codes, of the parts of a split."""
  total: dict[str, TagRow] = {}
  for part in parts:
    for language, row in part.items():
      total.setdefault(language, TagRow(split, language)).add(row)
  return [total[code] for code in languages.ordered(total)]


def table(split: str, rows: Sequence[TagRow]) -> str:
  """The rows of a split as a table; pictures are those that have tags."""
  heads = ("language", "pictures", "tags", "distinct", "fewest", "tags/picture", "most")
  lines = []
  for row in rows:
    pictures, tags = row.numbers.total(), row.counts.total()
    cells = (f"{pictures:,}", f"{tags:,}", f"{len(row.counts):,}", f"{min(row.numbers)}")
    name = f"{row.language:<3} {languages.get(row.language).english_name}"
    lines.append((name, *cells, f"{tags / pictures:.2f}", f"{max(row.numbers)}"))
  return f"{split}: tags of the pictures that have any\n\n{Grid(heads, tuple(lines)).text()}"
