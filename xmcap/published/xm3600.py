"""Recomputes the tables of the XM3600 paper from one another, and Table 1 from a release.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), Tables 1 and 4 to 11, stored as printed in this folder. The
captions of Tables 5 and 7 call a difference CIDEr(m2) - CIDEr(m1); it is printed as CIDEr(m1) - CIDEr(m2). Of the
paper's draft, whose systems are PLuGS models, Table 6 comes from its Table 5.
"""

import collections
import os
from collections.abc import Iterator

from xmcap import papers
from xmcap.human import comparison_choice, rated_pairs
from xmcap.published.findings import RecomputedNumber, RecomputedTable
from xmcap.reading.references import read_references

_OF_A_DIFFERENCE = 0.001  # what rounding of two scores to three digits may move their difference
_ROUNDED_PAIRS = "Tables 5 and 7, from which it is computed, are rounded"
_CAPTIONS = "261375"  # section 2.4
_CORE = ("en", "es", "hi", "zh")
_SMALL = 0.011  # not in the paper: the least with which all of Table 7 is chosen


def recompute(results: str | os.PathLike | None = None) -> RecomputedTable:
  """Recomputes Tables 4 to 7 and the sums of Table 1; with a release, each cell of Table 1.

  Args:
    results: references in a layout of `xmcap score`, such as the release's `captions.jsonl`.

  Raises:
    UsageError: the release is malformed.
  """
  absent = [
    "Table 2 (ratings are not public; xmcap human quality makes it from yours)",
    "Tables 5 and 7, differences on XM600 (no table has its scores)",
    "Tables 8 to 11 (captions of the models are not public)",
  ]
  rows = [*_sums(), *_core_scores(), *_sessions(), *_differences(), *_correlations()]
  if results is None:
    absent.insert(0, "Table 1 (give a release with --results=captions.jsonl)")
  else:
    rows = [*_statistics(results, absent), *rows]
  return RecomputedTable("XM3600", tuple(rows), tuple(absent))


def recompute_draft(results: None = None) -> RecomputedTable:
  """Recomputes the eight coefficients of Table 6 of the draft; there are no result files.

  Each comparison counts once, and Matthews's coefficient of the signs is a fourth one. The printed numbers were not at
  hand when the table was entered: their cells are empty.
  """
  pairs = rated_pairs.read_published("draft")
  (cells,) = rated_pairs.correlate(pairs, resamples=0, directions="once").cells.values()
  rows = []
  for row in papers.read("xm3600_draft_table6_correlations"):
    for delta, cell in cells[row["coefficient"].lower()].items():
      assert cell.value is not None  # no column is constant
      rows.append(RecomputedNumber("Table 6", f"{row['coefficient']}, {delta}", row[delta], cell.value))
  absent = ("Tables 1 to 5 (the captions of its systems are not public)",)
  return RecomputedTable("Draft of XM3600", tuple(rows), absent)


def _statistics(release: str | os.PathLike, absent: list[str]) -> Iterator[RecomputedNumber]:
  """Yields the cells of Table 1: words are what spaces part, characters are code points, spaces included."""
  references = read_references(release)
  if not papers.is_xm3600(references):
    absent.append(f"the 3,600 pictures of XM3600 ({release} has {len(references):,} others)")
  captions: dict[str, list[tuple[str, ...]]] = collections.defaultdict(list)
  for of_image in references.values():
    for language, texts in of_image.items():
      captions[language].append(tuple(texts))
  for row in papers.read("xm3600_table1_caption_stats"):
    language, printed = row["lang"], list(row.items())[1:]
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


def _sums() -> Iterator[RecomputedNumber]:
  table = papers.read("xm3600_table1_caption_stats")
  yield RecomputedNumber(
    "Table 1, sums", "captions", _CAPTIONS, sum(int(row["num_captions"]) for row in table)
  )
  for row in table:
    images = sum(int(row[name]) for name in ("repl1", "repl2", "repl3plus"))
    yield RecomputedNumber("Table 1, sums", f"{row['lang']}, pictures", "3600", images)


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
