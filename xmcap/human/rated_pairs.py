"""Correlates human preferences between two systems with differences of metrics.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), sections 3.3 and 3.4 and Table 6. The order of the two systems
of a pair is arbitrary, so each pair counts in both directions: once as given and once with both signs flipped. That
doubles the number of points and makes the correlation independent of the order. The paper's draft counts each pair
once.
"""

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

import numpy as np

from xmcap import languages, papers, wording
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.human import fields
from xmcap.human.sheets import Cell, Findings, Sheet, SheetColumn
from xmcap.scoring.result import read_table
from xmcap.scoring.statistics import correlation
from xmcap.scoring.tables.signature import Signature, shortened
from xmcap.terminal import shown

ALL = "ALL"
"""The group of all pairs."""

_COLUMNS = ("m1", "m2", "lang", "delta_sxs")
_PREFIX = "delta_"
_PUBLISHED = {
  "paper": {"EXT": "xm3600_table7_ext_sxs", "CORE": "xm3600_table5_core_sxs"},
  "draft": {ALL: "xm3600_draft_table5_sxs"},
}

Directions = Literal["both", "once"]
"""How often a comparison counts in a correlation."""


@dataclasses.dataclass(frozen=True)
class RatedPair:
  """Two systems compared in one language. All differences have the same direction: m1 - m2, or all m2 - m1.

  Attributes:
    delta_sxs: wins minus losses in percent of the images, in [-100, 100].
    deltas: name of the difference, such as `cider_xm3600` -> difference of the metric.
    group: the group in reports, such as `CORE`.
  """

  m1: str
  m2: str
  language: str
  delta_sxs: float
  deltas: Mapping[str, float]
  group: str = ALL


@dataclasses.dataclass(frozen=True)
class DeltaCorrelations(Findings):
  """Correlations of delta SxS with differences of metrics, as in Table 6 of the XM3600 paper.

  Attributes:
    points: group -> number of points; `ALL` first if there is more than one group.
    cells: group -> name of the coefficient -> name of the difference -> coefficient.
    directions: `both`: two points per pair; `once`: one, as given.
  """

  points: dict[str, int]
  cells: correlation.Cells
  directions: Directions = "both"
  stem = "correlations"

  def sheets(self) -> list[Sheet]:
    """Returns one sheet: a row per coefficient and group, with value and interval for each difference."""
    columns = [SheetColumn("coefficient"), SheetColumn("languages"), SheetColumn("n", format=",")]
    ends = ("low", "high") if self.resamples else ()
    for delta in dict.fromkeys(delta for _, _, delta, _ in correlation.flat(self.cells)):
      columns += [SheetColumn(delta, format=".2f")]
      columns += [SheetColumn(f"{delta}_{end}", end, ".2f") for end in ends]
    rows: dict[tuple[str, str], list[Cell]] = {}
    for group, name, _, cell in correlation.flat(self.cells):
      row = rows.setdefault((group, name), [correlation.OF_SIGNS[name], group, self.points[group]])
      row += [cell.value, *(getattr(cell, end) for end in ends)]
    how = "in both directions" if self.directions == "both" else "once"
    title = f"Correlation of delta SxS with differences of metrics (each comparison {how})"
    return [Sheet("correlations", title, columns, list(rows.values()))]


@checked
def read(groups: Mapping[str, str | os.PathLike]) -> list[RatedPair]:
  """Reads pairs from CSV files (group -> path) with the columns m1, m2, lang, delta_sxs and at least one `delta_NAME`.

  Raises:
    UsageError: a file has no pair, an unknown language, a system compared with itself, an invalid number, a pair that
      occurred before in either order, or other difference columns than the previous file.
  """
  pairs: list[RatedPair] = []
  seen: dict[Hashable, str] = {}
  names: list[str] = []
  for group, path in groups.items():
    if group == ALL and len(groups) > 1:
      raise UsageError(f"--comparisons={ALL}={path}: '{ALL}' stands for all groups; give it another name")
    columns, rows = fields.read_csv(path, _COLUMNS)
    deltas = _deltas(columns)
    names = names or deltas
    if not deltas or set(deltas) != set(names):
      previous = f"those of the previous file ({', '.join(names)})"
      expected = previous if names else "one or more, such as delta_cider"
      raise UsageError(f"{path}, line 1: difference columns: {', '.join(deltas) or 'none'}; give {expected}")
    if not rows:
      raise UsageError(f"{path}: no comparison below the header; add some")
    for line, row in rows:
      where = f"{path}, line {line}"
      pair = _pair(row, names, group, where)
      event = f"'{shown(pair.m1)}' and '{shown(pair.m2)}' in {pair.language} were compared"
      fields.once(seen, (*sorted((pair.m1, pair.m2)), pair.language), where, event)
      pairs.append(pair)
  return pairs


def read_published(name: str = "paper") -> list[RatedPair]:
  """Returns the pairs of Tables 5 (group `CORE`) and 7 (`EXT`) of the XM3600 paper, or of Table 5 of its `draft`."""
  return [
    _pair(row, _deltas(row), group, table)
    for group, table in _PUBLISHED[name].items()
    for row in papers.read(table)
  ]


@checked
def read_scores(folders: Mapping[str, str | os.PathLike], metric: str) -> dict[str, dict[str, float]]:
  """Returns system -> language -> score of one metric, from the `table.json` files of `xmcap score`.

  Raises:
    UsageError: a file is not a table of scores, lacks the metric, or has a signature that makes scores incomparable.
  """
  tables = {name: read_table(pathlib.Path(folder, "table.json")) for name, folder in folders.items()}
  for name, table in tables.items():
    if metric not in table.metrics:
      raise UsageError(
        f"{folders[name]}: was not scored with '{shown(metric)}'; name another --metric or score again"
      )
  signatures = {name: Signature.parse(table.signature) for name, table in tables.items()}
  for (first, one), (name, other) in itertools.pairwise(signatures.items()):
    differences = one.differences(other, (metric,))
    if differences:
      raise UsageError(
        f"the scores of '{shown(first)}' and '{shown(name)}' cannot be compared, because their signatures "
        f"differ in {'; '.join(shortened(differences))}: score both with the same references and options"
      )
  return {
    name: {language: row[metric] for language, row in table.rows.items()} for name, table in tables.items()
  }


@checked
def correlate(
  pairs: Sequence[RatedPair], resamples: int = 1000, seed: int = 0, directions: Directions = "both"
) -> DeltaCorrelations:
  """Correlates delta SxS with each difference, for each group and for all pairs.

  The 95% intervals come from resamples of the pairs (0: no intervals); both directions of a pair are drawn together.
  With `directions="once"` the coefficients depend on which system of a pair is m1.
  """
  names = dict.fromkeys(pair.group for pair in pairs)
  groups = {ALL: list(pairs)} if len(names) > 1 else {}
  groups |= {name: [pair for pair in pairs if pair.group == name] for name in names}
  cells: correlation.Cells = {}
  for group, members in groups.items():
    cells[group] = correlation.by_coefficient(
      {delta: _correlations(members, delta, resamples, seed, directions) for delta in members[0].deltas}
    )
  points = {group: len(members) * (2 if directions == "both" else 1) for group, members in groups.items()}
  notes = []
  if resamples:
    notes.append(
      f"low, high: 95% bootstrap interval, {resamples:,} resamples of the comparisons, seed {seed}"
    )
  if undefined := [" ".join(place) for *place, cell in correlation.flat(cells) if cell.value is None]:
    notes.append(
      f"no coefficient (-) for {len(undefined)} cells with a constant series or fewer than {correlation.LEAST} "
      "comparisons: "
      f"{wording.first_few(undefined)}"
    )
  notes += correlation.undefined_note([cells])
  return DeltaCorrelations(
    points=points, cells=cells, directions=directions, resamples=resamples, seed=seed, notes=notes
  )


def _correlations(
  pairs: Sequence[RatedPair], delta: str, resamples: int, seed: int, directions: Directions
) -> dict[str, correlation.Correlation]:
  if len(pairs) < correlation.LEAST:  # whose two directions are no further points
    return dict.fromkeys(correlation.OF_SIGNS, correlation.Correlation(None))
  differences = np.asarray([pair.deltas[delta] for pair in pairs])
  preferences = np.asarray([pair.delta_sxs for pair in pairs])
  units = None
  if directions == "both":
    units = np.arange(2 * len(pairs)).reshape(2, len(pairs)).T
    differences, preferences = _both_directions(differences), _both_directions(preferences)
  return correlation.correlate(differences, preferences, units, resamples, seed, correlation.OF_SIGNS)


def _both_directions(deltas: np.ndarray) -> np.ndarray:
  # `0.0 -` rather than `-`: a zero difference must stay 0.0, not -0.0, to tie in the ranks.
  return np.concatenate([deltas, 0.0 - deltas])


def _deltas(columns: Sequence[str] | Mapping[str, str]) -> list[str]:
  return [column for column in columns if column.startswith(_PREFIX) and column not in _COLUMNS]


def _pair(row: Mapping[str, str], deltas: Sequence[str], group: str, where: str) -> RatedPair:
  m1, m2, language = (fields.text(row, name, where).strip() for name in ("m1", "m2", "lang"))
  if m1 == m2:
    raise UsageError(f"{where}: '{shown(m1)}' is compared with itself; name two systems")
  languages.check(language, where)
  sxs = fields.written_number(row, "delta_sxs", where)
  if abs(sxs) > 100:
    raise UsageError(f"{where}: 'delta_sxs' is {sxs:g}; it is in percent, from -100 to 100")
  values = {name.removeprefix(_PREFIX): fields.written_number(row, name, where) for name in deltas}
  return RatedPair(m1, m2, language, sxs, values, group)
