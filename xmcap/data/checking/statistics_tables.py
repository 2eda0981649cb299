"""The tables of `xmcap data stats`."""

from collections.abc import Sequence

from xmcap import languages
from xmcap.data import published
from xmcap.data.checking.statistics import Row, Statistics

_HEADINGS = {
  "images": "images",
  "captions": "captions",
  "once": "1 caption",
  "twice": "2 captions",
  "more": "3 or more",
  "mean_spaced_words": "words",
  "mean_characters": "characters",
}


def text(found: Statistics) -> str:
  """A table a split, and one more against its published figures, if there are any."""
  tables = []
  for split, images in found.images.items():
    rows = [row for row in found.rows if row.split == split]
    tables.append(_counts(split, images, rows, found.target_length))
    corpus = found.published.get(split, "")
    figures = published.figures(corpus, split.split(" (")[0])
    if figures:
      tables.append(_compared(split, corpus, rows, figures))
  return "\n\n".join(tables)


def _counts(split: str, images: int, rows: Sequence[Row], target_length: int) -> str:
  heads = ["images", "captions", "captions/image", "words/caption", "chars/caption"]
  heads += ["1 caption", "2 captions", "3 or more"]
  if target_length:
    heads += ["pieces/caption", "99% up to", "longest", f"over {target_length}"]
  lines = [f"{split}: {images:,} images", "", _line("language", heads)]
  for row in rows:
    cells = _means(row.images, row.captions, row.words, row.characters)
    cells += [f"{count:,}" for count in (row.once, row.twice, row.more)]
    if target_length:
      cells += [
        f"{row.pieces / row.captions:.1f}",
        f"{row.length_at(0.99)}",
        f"{row.lengths[-1][0]}",
        f"{row.longer_than(target_length) / row.captions:.2%}",
      ]
    lines.append(_line(_name(row), cells))
  captions, words, characters, pieces = (
    sum(getattr(row, name) for row in rows) for name in ("captions", "words", "characters", "pieces")
  )
  cells = _means(images, captions, words, characters)
  if target_length:
    longest = max((row.lengths[-1][0] for row in rows), default=0)
    over = sum(row.longer_than(target_length) for row in rows)
    mean, share = pieces / max(captions, 1), over / max(captions, 1)
    cells += ["", "", "", f"{mean:.1f}", "", f"{longest}", f"{share:.2%}"]
  lines.append(_line(f"{len(rows)} languages", cells))
  return "\n".join(lines)


def _means(images: int, captions: int, words: int, characters: int) -> list[str]:
  means = f"{words / max(captions, 1):.1f}", f"{characters / max(captions, 1):.1f}"
  return [f"{images:,}", f"{captions:,}", f"{captions / max(images, 1):.2f}", *means]


def _compared(split: str, corpus: str, rows: Sequence[Row], figures: dict[str, published.Figures]) -> str:
  """Each cell: found, published, difference."""
  columns = list(next(iter(figures.values())))
  note = " (words are counted at spaces there)" if "mean_spaced_words" in columns else ""
  lines = [
    f"{split} against {published.source(corpus)}: found, published, difference{note}",
    "",
    _line("language", [_HEADINGS[column] for column in columns], 27),
  ]
  by_language = {row.language: row for row in rows}
  for code, expected in figures.items():
    row = by_language.get(code, Row(split, code))
    cells = [
      _difference(getattr(row, column), expected[column], column.startswith("mean_")) for column in columns
    ]
    lines.append(_line(_name(row), cells, 27))
  return "\n".join(lines)


def _difference(found: float, expected: float, mean: bool) -> str:
  form = ",.1f" if mean else ",.0f"
  # The difference of the rounded numbers: a published mean has one digit.
  difference = round(found, 1) - expected if mean else found - expected
  signed = "0" if abs(difference) < 0.05 else f"{difference:+{form}}"
  return f"{found:{form}}  {expected:{form}}  {signed}"


def _name(row: Row) -> str:
  return f"{row.language:<4}{languages.get(row.language).english_name}"


def _line(name: str, cells: Sequence[str], width: int = 15) -> str:
  return (f"{name:<18}" + "".join(f"{cell:>{width}}" for cell in cells)).rstrip()
