"""The tables of `xmcap data stats`."""

from collections.abc import Mapping, Sequence

from xmcap import languages, papers
from xmcap.corpora.checking.statistics import CorpusStatistics, TextStatistics
from xmcap.data import records
from xmcap.grid import Grid

# Column or mean of `TextStatistics` -> heading, and name in Table 1 of the XM3600 paper.
_COLUMNS = {
  "captions": ("captions", "num_captions"),
  "once": ("1 caption", "repl1"),
  "twice": ("2 captions", "repl2"),
  "more": ("3 or more", "repl3plus"),
  "mean_spaced_words": ("words", "words"),
  "mean_characters": ("characters", "chars"),
}
# Images, and captions per language. The release's README gives the lines of its files (19,258,790; 850,000;
# 112,821,180; 538,560), which cover 34 target languages, with English as the source. In CC3M an image has one caption.
_SIZES = {
  ("coco35l", "train"): (113_287, 566_435),
  ("coco35l", "validation"): (5_000, 25_000),
  ("cc3m35l", "train"): (3_318_270, 3_318_270),
  ("cc3m35l", "validation"): (15_840, 15_840),
}


def text(statistics: CorpusStatistics) -> str:
  """Returns a table per split, and another one that compares it with published figures, if there are any."""
  tables = []
  for split, images in statistics.images.items():
    rows = [row for row in statistics.rows if row.split == split]
    captioned = [row for row in rows if row.captions]
    tables.append(_counts(split, images, captioned, statistics.target_length))
    if tagged := [row for row in rows if row.tagged]:
      tables.append(_tags(split, tagged))
    corpus = statistics.published.get(split, "")
    if expected := figures(corpus, split.split(" (")[0]):
      tables.append(_compared(split, corpus, rows, expected))
  return "\n".join([*tables, *statistics.annotations]).rstrip()


def figures(corpus: str, split: str) -> dict[str, Mapping[str, float]]:
  """Returns language code -> column or mean of `TextStatistics` -> published figure of a split; {}: there are none."""
  if corpus == "xm3600":
    table = papers.read("xm3600_table1_caption_stats")
    return {
      row["lang"]: {column: float(row[cell]) for column, (_, cell) in _COLUMNS.items()} for row in table
    }
  if (corpus, split) not in _SIZES:
    return {}
  images, captions = _SIZES[corpus, split]
  return {language: {"images": images, "captions": captions} for language in languages.TRAINED}


def _counts(split: str, images: int, rows: Sequence[TextStatistics], target_length: int) -> str:
  heads = ["images", "captions", "captions/image", "words/caption", "chars/caption"]
  heads += ["1 caption", "2 captions", "3 or more"]
  if target_length:
    heads += ["pieces/caption", "99% up to", "longest", f"over {target_length}"]
  total = TextStatistics(split, f"{len(rows)} languages")
  for row in rows:
    total.add(row)
  total.images = images
  # One source is no news.
  sources = [source for source in records.SOURCES if total.sources[source]]
  sources = sources if len(sources) > 1 else []
  heads += sources
  lines = []
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
        f"{max(row.lengths, default=0)}",
        f"{row.longer_than(target_length) / captions:.2%}",
      ]
    cells += [f"{row.sources[source]:,}" for source in sources]
    lines.append((row.language if of_all else _name(row), *cells))
  table = Grid(("language", *heads), tuple(lines[:-1]), tuple(lines[-1:]))
  return f"{split}: {images:,} images\n\n{table.text()}"


def _tags(split: str, rows: Sequence[TextStatistics]) -> str:
  heads = ("language", "pictures", "tags", "distinct", "fewest", "tags/picture", "most")
  lines = []
  for row in rows:
    images, tags = row.tagged.total(), row.tags.total()
    cells = (f"{images:,}", f"{tags:,}", f"{len(row.tags):,}", f"{min(row.tagged)}")
    lines.append((_name(row), *cells, f"{tags / images:.2f}", f"{max(row.tagged)}"))
  return f"{split}: tags of the pictures that have any\n\n{Grid(heads, tuple(lines)).text()}"


def _compared(
  split: str, corpus: str, rows: Sequence[TextStatistics], figures: dict[str, Mapping[str, float]]
) -> str:
  """Returns a table whose cells have found value, published value and difference."""
  source = "Table 1 of the XM3600 paper" if corpus == "xm3600" else "the line counts of the release"
  columns = list(next(iter(figures.values())))
  note = " (words are split at spaces)" if "mean_spaced_words" in columns else ""
  heads = ["images" if column == "images" else _COLUMNS[column][0] for column in columns]
  lines = []
  by_language = {row.language: row for row in rows}
  for language, expected in figures.items():
    row = by_language.get(language, TextStatistics(split, language))
    cells = [
      _difference(getattr(row, column), expected[column], column.startswith("mean_")) for column in columns
    ]
    lines.append((_name(row), *cells))
  table = Grid(("language", *heads), tuple(lines))
  return f"{split} compared with {source}: found, published, difference{note}\n\n{table.text()}"


def _difference(counted: float, expected: float, mean: bool) -> str:
  form = ",.1f" if mean else ",.0f"
  # Published means have one decimal, so the found mean is rounded before subtracting.
  difference = round(counted, 1) - expected if mean else counted - expected
  signed = "0" if abs(difference) < 0.05 else f"{difference:+{form}}"
  return f"{counted:{form}}  {expected:{form}}  {signed}"


def _name(row: TextStatistics) -> str:
  return f"{row.language:<3} {languages.get(row.language).english_name}"
