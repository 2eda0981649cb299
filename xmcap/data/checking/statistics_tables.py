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
  total = Row(
    split,
    f"{len(rows)} languages",
    images,
    **{name: sum(getattr(row, name) for row in rows) for name in ("captions", "words", "characters")},
    lengths=tuple(sorted(length for row in rows for length in row.lengths)),
  )
  lines = [f"{split}: {images:,} images", "", _line("language", heads)]
  for row in (*rows, total):
    of_all = row is total
    captions = max(row.captions, 1)
    cells = [f"{row.images:,}", f"{row.captions:,}", f"{row.captions / max(row.images, 1):.2f}"]
    cells += [f"{row.words / captions:.1f}", f"{row.mean_characters:.1f}"]
    cells += ["" if of_all else f"{count:,}" for count in (row.once, row.twice, row.more)]
    if target_length:
      cells += [
        f"{row.pieces / captions:.1f}",
        "" if of_all else f"{row.length_at(0.99)}",
        f"{row.lengths[-1][0] if row.lengths else 0}",
        f"{row.longer_than(target_length) / captions:.2%}",
      ]
    lines.append(_line(row.language if of_all else _name(row), cells))
  return "\n".join(lines)


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
