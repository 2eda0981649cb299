"""Recomputes the tables of the THumB paper from the ratings and references that its authors released.

Source: Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), Tables 2, 3 and 4, stored as
printed in `xmcap/papers`, the ratings of the examples of Tables 1, 5 and 7, and its Appendix A.2: sentence BLEU of
sacreBLEU, ROUGE-L of rouge-score, CIDEr of the COCO evaluation. The files are `mscoco/mscoco_THumB-1.0.jsonl` and
`mscoco/mscoco_references.json` of jungokasai/THumB. SPICE, and the metrics that need a model, are not recomputed.

The paper's scores are of the first release (commit 95195a2, 2021), in which 50 human captions stand beside the picture
before theirs and the 51st in their row is another caption of its own; commit 35e97e1 (2022) changed these captions, and
no rating.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from xmcap import papers
from xmcap.errors import UsageError
from xmcap.human import thumb, thumb_correlations, thumb_ratings
from xmcap.published.findings import RecomputedNumber, RecomputedTable

_RATINGS, _REFERENCES = "mscoco_THumB-1.0.jsonl", "mscoco_references.json"
_HUMAN = "Human"
# Metric and its tokeniser -> its column of Table 2 and row of Table 4, and its factor to what is printed.
_METRICS = {
  "sentence_bleu:13a": ("bleu", "BLEU", 1),
  "rouge_l_f1:rouge": ("rouge_l", "ROUGE-L", 100),
  "cider_d:ptb": ("cider", "CIDEr", 100),
}
# Measure -> its column of Table 2, and its sign there.
_MEASURES = {
  "P": ("precision", 1), "R": ("recall", 1), "Fl": ("fluency_penalty", -1), "Con": ("conciseness_penalty", -1),
  "Inc": ("inclusive_penalty", -1), "total": ("total", 1),
}  # fmt: skip
# (Table, cell or its last part) -> why it deviates.
_REASONS = {
  ("Table 2", "Human, Con"): "the data and the paper's text, two captions of 500, give 0.002",
  ("Table 3", "worst"): "no rule that was tried gives the printed counts",
  ("Table 7", "10, VinVL-base, P"): "the released rating is another",
  ("Table 7", "10, VinVL-base, total"): "as the precision",
}
# Human captions that equal one of their references -> the release, and why its cells of human captions deviate.
_MOVED = "50 human captions stand beside other pictures"
_SCORED = f"the paper scored the first (95195a2), in which {_MOVED}"
_RELEASES = {
  1: (
    f"the first release (95195a2), which the paper scored: {_MOVED}",
    "",
  ),
  39: (f"the mended release (35e97e1); {_SCORED}", "human captions of the mended release"),
}
_POOLS = {"without human": "wo_human", "all systems": "w_human"}


def recompute(results: str | os.PathLike, resamples: int = 1000) -> RecomputedTable:
  """Recomputes every cell of Tables 2, 3 and 4 that needs no model and no SPICE, and reads those of the examples.

  CIDEr needs Java, as its words are those of the COCO evaluation.

  Args:
    results: has the two files, or a folder `mscoco` with them, as the repository.
    resamples: for the half widths of the 90% intervals of Table 2.

  Raises:
    UsageError: a file is absent or malformed.
    XmcapError: there is no Java, or no pycocoevalcap.
  """
  folder = pathlib.Path(results)
  folder = folder / "mscoco" if (folder / "mscoco").is_dir() else folder
  for name in (_RATINGS, _REFERENCES):
    if not (folder / name).is_file():
      raise UsageError(f"{folder}: no {name}; give the folder 'mscoco' of the repository jungokasai/THumB")
  ratings = thumb_ratings.read(folder / _RATINGS)
  references = thumb_ratings.read_references(folder / _REFERENCES, ratings.keys)
  scored = thumb_correlations.correlate(
    ratings, references, tuple(_METRICS), human=_HUMAN, normalize="sentence", resamples=0
  )
  by_name = {result.name: result for result in scored}
  metrics = {name: (by_name[name.partition(":")[0]], *of) for name, of in _METRICS.items()}
  findings = thumb.evaluate(ratings, resamples=resamples)
  systems = {system.name: system for system in findings.systems}
  rows = (*_table_2(systems, metrics), *_table_3(systems), *_table_4(metrics), *_examples(ratings))
  absent = (
    "Tables 2 and 4, SPICE (xmcap score --metrics=spice)",
    "Tables 2 and 4, metrics that need a model",
  )
  note, reason = _release(ratings, references)
  rows = [dataclasses.replace(row, reason=row.reason or reason) if _of_human(row) else row for row in rows]
  return RecomputedTable("THumB", tuple(sorted(rows, key=lambda row: row.table)), absent, note)


def _release(ratings: thumb_ratings.ThumbRatings, references: Mapping[str, Sequence[str]]) -> tuple[str, str]:
  """Returns which release the files are, in one line, and why their cells of human captions deviate."""
  equal = sum(ratings.captions[_HUMAN, key].text in references[key] for key in ratings.keys)
  other = f"neither release: of their human captions {', '.join(map(str, _RELEASES))} equal a reference, here {equal}"
  return _RELEASES.get(equal, (f"{other}; {_SCORED}", "human captions of neither release"))


def _of_human(row: RecomputedNumber) -> bool:
  """Whether a cell is a score of the human captions, or a correlation with them; the ratings are of both releases."""
  return row.what.endswith("all systems") or row.what in {
    f"{_HUMAN}, {name}" for _, name, _ in _METRICS.values()
  }


def _examples(ratings: thumb_ratings.ThumbRatings) -> Iterator[RecomputedNumber]:
  """The printed ratings of single captions, which are not rounded; Table 7 has no column of fluency."""
  systems, keys = ({name: place for place, name in enumerate(of)} for of in (ratings.systems, ratings.keys))
  for row in papers.read("thumb_examples"):
    place = systems[row["model"]], keys[row["seg_id"]]
    for measure, (column, sign) in _MEASURES.items():
      if row.get(column):
        label = f"{row['picture']}, {row['model']}, {measure}"
        printed, computed = f"{float(row[column]):.1f}", sign * float(ratings.measures[measure][place])
        yield _row(f"Table {row['table']}", label, printed, computed)


def _table_2(systems: dict[str, thumb.RatedSystem], metrics: dict) -> Iterator[RecomputedNumber]:
  for row in papers.read("thumb_table2"):
    system = systems[row["model"]]
    for measure, (column, sign) in _MEASURES.items():
      yield _row("Table 2", f"{system.name}, {measure}", row[column], sign * system.means[measure])
    if system.intervals:
      low, high = system.intervals["total"]
      yield _row("Table 2", f"{system.name}, total, +-", row["total_ci90_halfwidth"], (high - low) / 2)
    for result, column, heading, factor in metrics.values():
      yield _row("Table 2", f"{system.name}, {heading}", row[column], factor * result.scores[system.name])


def _table_3(systems: dict[str, thumb.RatedSystem]) -> Iterator[RecomputedNumber]:
  for row in papers.read("thumb_table3"):
    for name in ("best", "worst"):
      yield _row("Table 3", f"{row['model']}, {name}", row[name], getattr(systems[row["model"]], name))


def _table_4(metrics: dict) -> Iterator[RecomputedNumber]:
  printed = {row["metric"]: row for row in papers.read("thumb_table4")}
  for result, _, heading, _ in metrics.values():
    for pool, suffix in _POOLS.items():
      for target, cell in result.correlations[pool]["pearson"].items():
        yield _row(
          "Table 4",
          f"{heading}, {target}, {pool}",
          printed[heading][f"{target.lower()}_{suffix}"],
          cell.value,
        )


def _row(table: str, label: str, printed: str, computed: float) -> RecomputedNumber:
  last = label.rsplit(", ", 1)[-1]
  reason = _REASONS.get((table, label)) or _REASONS.get((table, last), "")
  return RecomputedNumber(table, label, printed, computed, reason=reason)
