"""Recomputes the tables of the XM3600 paper and of its draft from one another, and Table 1 of each from a release.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), Tables 1, 2 and 4 to 11, stored as printed in `papers`. The
captions of Tables 5 and 7 call a difference CIDEr(m2) - CIDEr(m1); it is printed as CIDEr(m1) - CIDEr(m2). Of the
paper's draft, whose systems are PLuGS models, there are Tables 1, 2, 5 and 6; its Table 1 counts distinct captions.
"""

import collections
import os
from collections.abc import Iterator

from xmcap import languages, papers
from xmcap.human import comparison_choice, rated_pairs
from xmcap.published.findings import RecomputedNumber, RecomputedTable
from xmcap.reading.references import read_references

_OF_A_DIFFERENCE = 0.001  # what rounding of two scores to three digits may move their difference
_ROUNDED_PAIRS = "Tables 5 and 7, from which it is computed, are rounded"
_PAPER, _DRAFT = "xm3600", "xm3600_draft"
_CAPTIONS = {_PAPER: "261375", _DRAFT: "256990"}  # section 2.4 of each
_RATED = 600  # captions of a language in Table 2, section 2.5 of each
_CORE = ("en", "es", "hi", "zh")
_NO_RATINGS = ("Table 2, its ratings (not public; xmcap human quality makes it from yours)",)
_SMALL = 0.011  # not in the paper: the least with which all of Table 7 is chosen


def recompute(results: str | os.PathLike | None = None) -> RecomputedTable:
  """Recomputes Tables 4 to 7 and what Tables 1 and 2 add up to; with a release, each cell of Table 1.

  Args:
    results: references in a layout of `xmcap score`, such as the release's `captions.jsonl`.

  Raises:
    UsageError: the release is malformed.
  """
  absent = [
    *_NO_RATINGS,
    "Tables 5 and 7, differences on XM600 (no table has its scores)",
    "Tables 8 to 11 (captions of the models are not public)",
  ]
  rows = [
    *_statistics(_PAPER, results, absent), *_sums(_PAPER), *_shares(_PAPER),
    *_core_scores(), *_sessions(), *_differences(), *_correlations(),
  ]  # fmt: skip
  return RecomputedTable("XM3600", tuple(rows), tuple(absent))


def recompute_draft(results: str | os.PathLike | None = None) -> RecomputedTable:
  """Recomputes the eight coefficients of Table 6 of the draft and what its Tables 1 and 2 add up to.

  In Table 6 each comparison counts once, and Matthews's coefficient of the signs is a fourth one. `results` and errors
  are those of `recompute`: each cell of Table 1 is computed from the distinct captions of each picture.
  """
  absent = [*_NO_RATINGS, "Table 5 (the captions of its systems are not public)"]
  rows = [*_statistics(_DRAFT, results, absent), *_sums(_DRAFT), *_shares(_DRAFT)]
  pairs = rated_pairs.read_published("draft")
  (cells,) = rated_pairs.correlate(pairs, resamples=0, directions="once").cells.values()
  for row in papers.read("xm3600_draft_table6_correlations"):
    for delta, cell in cells[row["coefficient"].lower()].items():
      assert cell.value is not None  # no column is constant
      rows.append(RecomputedNumber("Table 6", f"{row['coefficient']}, {delta}", row[delta], cell.value))
  return RecomputedTable("Draft of XM3600", tuple(rows), tuple(absent))


def _statistics(
  paper: str, release: str | os.PathLike | None, absent: list[str]
) -> Iterator[RecomputedNumber]:
  """Yields the cells of Table 1: words are what spaces part, characters are code points, spaces included.

  The draft counts distinct captions of a picture, the paper all of them.
  """
  if release is None:
    absent.insert(0, "Table 1 (give a release with --results=captions.jsonl)")
    return
  references = read_references(release)
  if not papers.is_xm3600(references):
    absent.append(f"the 3,600 pictures of XM3600 ({release} has {len(references):,} others)")
  captions: dict[str, list[tuple[str, ...]]] = collections.defaultdict(list)
  for of_image in references.values():
    for language, texts in of_image.items():
      captions[language].append(tuple(dict.fromkeys(texts) if paper == _DRAFT else texts))
  for row in papers.read(f"{paper}_table1_caption_stats"):
    printed_as, *printed = row.items()
    language = languages.canonical(printed_as[1]) or printed_as[1]  # the draft has `iw` and `qu`
    if language not in captions:
      absent.append(f"Table 1, {language} ({release} has no captions in it)")
      continue
    counts = [len(texts) for texts in captions[language]]
    texts = [text for of_image in captions[language] for text in of_image]
    computed = {
      "num_captions": sum(counts),
      "repl1": counts.count(1),
      "repl2": counts.count(2),
      "repl3plus": sum(count > 2 for count in counts),
      "words": sum(len(text.split()) for text in texts) / len(texts),
      "chars": sum(map(len, texts)) / len(texts),
    }
    for column, value in printed:
      yield RecomputedNumber("Table 1", f"{language}, {column}", value, computed[column])


def _sums(paper: str) -> Iterator[RecomputedNumber]:
  table = papers.read(f"{paper}_table1_caption_stats")
  total = sum(int(row["num_captions"]) for row in table)
  yield RecomputedNumber("Table 1, sums", "captions", _CAPTIONS[paper], total)
  for row in table:
    one, two, more = (int(row[name]) for name in ("repl1", "repl2", "repl3plus"))
    yield RecomputedNumber("Table 1, sums", f"{row['lang']}, pictures", "3600", one + two + more)
    if not more:
      yield RecomputedNumber("Table 1, sums", f"{row['lang']}, captions", row["num_captions"], one + 2 * two)


def _shares(paper: str) -> Iterator[RecomputedNumber]:
  """Yields the cells of Table 2, each computed from the nearest number of captions among those rated."""
  for row in papers.read(f"{paper}_table2_quality"):
    for level in ("good_plus", "med_plus", "bad"):
      captions = round(float(row[level]) * _RATED / 100)
      yield RecomputedNumber(
        f"Table 2, of {_RATED}", f"{row['lang']}, {level}", row[level], 100 * captions / _RATED
      )


def _core_scores() -> Iterator[RecomputedNumber]:
  scores = _scores()
  for row in papers.read("xm3600_table4_core_cider"):
    for split in ("xm3600", "coco_dev"):
      place = row["model"], row["lang"]
      yield RecomputedNumber("Table 4", ", ".join((*place, split)), row[split], scores[place][split])


def _sessions() -> Iterator[RecomputedNumber]:
  """Yields the rated comparisons that the rule of section 3.3 chooses from the scores."""
  scores: dict[str, dict[str, dict[str, float]]] = {"xm3600": {}, "coco_dev": {}}
  for (model, language), by_split in _scores().items():
    for split, score in by_split.items():
      scores[split].setdefault(model, {})[language] = score
  chosen = comparison_choice.choose(scores["xm3600"], scores["coco_dev"], _CORE, _SMALL).pairs
  sessions = {(frozenset((pair.m1, pair.m2)), pair.lang) for pair in chosen}
  for group, name, printed in (
    ("O_CORE", "xm3600_table5_core_sxs", "24"),
    ("O_EXT", "xm3600_table7_ext_sxs", "41"),
  ):
    rated = {(frozenset((row["m1"], row["m2"])), row["lang"]) for row in papers.read(name)}
    yield RecomputedNumber(
      "Section 3.3", f"{group}, rated sessions that the rule chooses", printed, len(rated & sessions)
    )


def _differences() -> Iterator[RecomputedNumber]:
  scores = _scores()
  for table, name in {"Table 5": "xm3600_table5_core_sxs", "Table 7": "xm3600_table7_ext_sxs"}.items():
    for row in papers.read(name):
      for split in ("xm3600", "coco_dev"):
        m1, m2 = (scores[row[model], row["lang"]][split] for model in ("m1", "m2"))
        label = f"{row['m2']} {row['m1']} {row['lang']}, {split}"
        yield RecomputedNumber(table, label, row[f"delta_cider_{split}"], m1 - m2, _OF_A_DIFFERENCE)


def _correlations() -> Iterator[RecomputedNumber]:
  cells = rated_pairs.correlate(rated_pairs.read_published(), resamples=0).cells
  for row in papers.read("xm3600_table6_correlations"):
    of_group = cells[row["langs"]][row["coefficient"].lower()]
    for split in ("xm600", "xm3600", "coco_dev"):
      value = of_group[f"cider_{split}"].value
      assert value is not None  # no column is constant
      label = f"{row['coefficient']} {row['langs']}, {split}"
      yield RecomputedNumber("Table 6", label, row[split], value, reason=_ROUNDED_PAIRS)


def _scores() -> dict[tuple[str, str], dict[str, float]]:
  """Returns (model, language) -> set -> CIDEr, of Tables 8 to 11."""
  return {
    (row["model"], row["lang"]): {split: float(row[split]) for split in ("xm3600", "coco_dev")}
    for row in papers.read("xm3600_tables8_11_cider")
  }
