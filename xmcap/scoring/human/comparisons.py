"""Comparisons of two systems: what people said of a pair against what a metric said of it.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 3.4 and Table 6. The order of the two systems of a
comparison is arbitrary, so each counts in both: once as given and once with both signs turned. That doubles the
number of points and makes a correlation independent of the order.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmcap.errors import UsageError
from xmcap.scoring import files, published
from xmcap.scoring.human import correlation, fields, sheets

ALL = "ALL"
"""The group that holds all comparisons."""

_COLUMNS = ("m1", "m2", "lang", "delta_sxs")
_PREFIX = "delta_"
_PUBLISHED = {"EXT": "xm3600_table7_ext_sxs", "CORE": "xm3600_table5_core_sxs"}


@dataclasses.dataclass(frozen=True)
class Comparison:
  """Two systems compared in one language. All differences have the same sign: m1 - m2, or all m2 - m1.

  Attributes:
    m1: one system.
    m2: the other.
    language: code of the language.
    delta_sxs: wins less losses in per cent of the images, in [-100, 100].
    deltas: name of the difference, such as `cider_xm3600` -> difference of the metric.
    group: what it is reported with, such as `CORE`.
  """

  m1: str
  m2: str
  language: str
  delta_sxs: float
  deltas: Mapping[str, float]
  group: str = ALL


@dataclasses.dataclass(frozen=True)
class Correlations(sheets.Result):
  """Correlations of delta SxS with differences of metrics, as in Table 6 of the XM3600 paper.

  Attributes:
    points: group -> number of points, two a comparison; `ALL` first if there is more than one group.
    cells: group -> name of the coefficient -> name of the difference -> coefficient.
    published: as `cells`, the values as printed; empty unless the comparisons are the paper's.
    resamples: bootstrap resamples of the comparisons behind each interval.
    seed: of the resamples.
    notes: what a reader should know.
  """

  points: dict[str, int]
  cells: dict[str, dict[str, dict[str, correlation.Correlation]]]
  published: dict[str, dict[str, dict[str, str]]]
  resamples: int
  seed: int
  notes: tuple[str, ...] = ()
  stem = "correlations"

  @property
  def deltas(self) -> tuple[str, ...]:
    """The names of the differences, in the order of the files."""
    return tuple(next(iter(next(iter(self.cells.values())).values())))

  def differing(self) -> list[str]:
    """Returns the cells whose printed digits differ from the published ones, in words."""
    return [
      f"{correlation.COEFFICIENTS[name]} {group} {delta}: {_two_digits(cell.value)}, published {printed}"
      for group, name, delta, cell in self._each()
      if (printed := self._printed(group, name, delta)) and _two_digits(cell.value) != printed
    ]

  def tables(self) -> tuple[sheets.Sheet, ...]:
    """Returns one sheet: a row a coefficient and group; for each difference value, interval, published value."""
    columns = [
      sheets.Column("coefficient"), sheets.Column("languages"), sheets.Column("n", format=","),
    ]  # fmt: skip
    for delta in self.deltas:
      columns += [sheets.Column(delta, format=".2f")]
      columns += [sheets.Column(f"{delta}_{end}", end, ".2f") for end in ("low", "high") if self.resamples]
      columns += [sheets.Column(f"{delta}_published", "paper")] if self.published else []
    rows = []
    for group, coefficients in self.cells.items():
      for name, cells in coefficients.items():
        row: list[sheets.Cell] = [correlation.COEFFICIENTS[name], group, self.points[group]]
        for delta, cell in cells.items():
          row += [cell.value, cell.low, cell.high] if self.resamples else [cell.value]
          row += [self._printed(group, name, delta)] if self.published else []
        rows.append(tuple(row))
    title = "Correlation of delta SxS with differences of metrics (each comparison in both directions)"
    return (sheets.Sheet("correlations", title, tuple(columns), tuple(rows)),)

  def as_json(self) -> dict[str, Any]:
    """Returns groups, points, cells, published values and notes."""
    value: dict[str, Any] = {
      "n": self.points,
      "correlations": {
        group: {
          name: {delta: cell.as_json() for delta, cell in cells.items()}
          for name, cells in coefficients.items()
        }
        for group, coefficients in self.cells.items()
      },
      "bootstrap": {"resamples": self.resamples, "seed": self.seed, "level": 0.95},
      "notes": list(self.notes),
    }
    return value | ({"published": self.published, "differing": self.differing()} if self.published else {})

  def _each(self):
    for group, coefficients in self.cells.items():
      for name, cells in coefficients.items():
        for delta, cell in cells.items():
          yield group, name, delta, cell

  def _printed(self, group: str, name: str, delta: str) -> str | None:
    return self.published.get(group, {}).get(name, {}).get(delta)


def read(groups: Mapping[str, str | os.PathLike]) -> tuple[Comparison, ...]:
  """Reads comparisons from CSV files with the columns m1, m2, lang, delta_sxs and one or more `delta_NAME`.

  Args:
    groups: name of a group -> file.

  Raises:
    UsageError: a file cannot be read, has no comparison, an unknown language, a system against itself, a wrong
      number, a comparison that came before in whatever order of its systems, or other differences than the
      file before.
  """
  comparisons: list[Comparison] = []
  places: dict[tuple[str, ...], str] = {}
  names: tuple[str, ...] = ()
  for group, path in groups.items():
    if group == ALL and len(groups) > 1:
      raise UsageError(f"--comparisons={ALL}={path}: '{ALL}' stands for all groups; give it another name")
    columns, rows = fields.read_csv(path, _COLUMNS)
    given = tuple(c for c in columns if c.startswith(_PREFIX) and c not in _COLUMNS)
    if not given:
      raise UsageError(f"{path}, line 1: no difference of a metric; add a column such as delta_cider_xm3600")
    if names and set(given) != set(names):
      raise UsageError(f"{path}, line 1: differences {', '.join(given)} where the file before has "
                       f"{', '.join(names)}; give all files the same")  # fmt: skip
    names = names or given
    if not rows:
      raise UsageError(f"{path}: no comparison below the header; add some")
    for line, row in rows:
      where = f"{path}, line {line}"
      comparison = _comparison(row, names, group, where)
      key = (*sorted((comparison.m1, comparison.m2)), comparison.language)
      if key in places:
        raise UsageError(f"{where}: '{files.shown(comparison.m1)}' and '{files.shown(comparison.m2)}' in "
                         f"{comparison.language} were compared before ({places[key]}); keep one")  # fmt: skip
      places[key] = where
      comparisons.append(comparison)
  return tuple(comparisons)


def read_published() -> tuple[Comparison, ...]:
  """Returns the comparisons of Tables 5 (group `CORE`) and 7 (`EXT`) of the XM3600 paper."""
  return tuple(
    _comparison(row, tuple(c for c in row if c.startswith(_PREFIX) and c not in _COLUMNS), group, name)
    for group, name in _PUBLISHED.items()
    for row in published.read(name)
  )


def correlate(
  comparisons: Sequence[Comparison], resamples: int = 1000, seed: int = 0, paper: bool = False
) -> Correlations:
  """Correlates delta SxS with each difference, for each group and for all.

  Intervals hold 95% of the resamples of the comparisons; both directions of one are drawn together.

  Args:
    comparisons: one or more, all with the same differences.
    resamples: 0 for no intervals.
    seed: of the resamples.
    paper: whether to put the values of the paper's Table 6 beside the computed ones.

  Raises:
    ValueError: there is no comparison, or they have different differences.
  """
  if not comparisons or len({tuple(sorted(comparison.deltas)) for comparison in comparisons}) != 1:
    raise ValueError("one or more comparisons with the same differences are needed")
  names = dict.fromkeys(comparison.group for comparison in comparisons)
  groups = {ALL: list(comparisons)} if len(names) > 1 else {}
  groups |= {name: [c for c in comparisons if c.group == name] for name in names}
  cells = {group: _cells(members, resamples, seed) for group, members in groups.items()}
  result = Correlations(
    {group: 2 * len(members) for group, members in groups.items()},
    cells,
    _published_cells() if paper else {},
    resamples,
    seed,
  )
  return dataclasses.replace(result, notes=_notes(result))


def _cells(comparisons: Sequence[Comparison], resamples: int, seed: int):
  sxs = _both_directions([comparison.delta_sxs for comparison in comparisons])
  count = len(comparisons)
  directions = np.arange(2 * count).reshape(2, count).T
  by_delta = {
    delta: correlation.correlate(
      _both_directions([comparison.deltas[delta] for comparison in comparisons]),
      sxs,
      directions,
      resamples,
      seed,
    )
    for delta in comparisons[0].deltas
  }
  if count < 2:
    # Its two directions alone would always give 1 or -1.
    by_delta = {
      delta: dict.fromkeys(correlation.COEFFICIENTS, correlation.Correlation(None)) for delta in by_delta
    }
  return {name: {delta: by_delta[delta][name] for delta in by_delta} for name in correlation.COEFFICIENTS}


def _both_directions(deltas: Sequence[float]) -> np.ndarray:
  # `0.0 -`: turned round, no difference must stay equal to no difference in the ranks.
  return np.concatenate([np.asarray(deltas), 0.0 - np.asarray(deltas)])


def _comparison(row: Mapping[str, str], deltas: Sequence[str], group: str, where: str) -> Comparison:
  m1, m2, language = (fields.text(row, name, where).strip() for name in ("m1", "m2", "lang"))
  if m1 == m2:
    raise UsageError(f"{where}: '{files.shown(m1)}' is compared with itself; name two systems")
  files.check_language(language, where)
  sxs = fields.written_number(row, "delta_sxs", where)
  if abs(sxs) > 100:
    raise UsageError(f"{where}: 'delta_sxs' is {sxs:g}; it is in per cent, from -100 to 100")
  values = {name.removeprefix(_PREFIX): fields.written_number(row, name, where) for name in deltas}
  return Comparison(m1, m2, language, sxs, values, group)


def _published_cells() -> dict[str, dict[str, dict[str, str]]]:
  cells: dict[str, dict[str, dict[str, str]]] = {}
  for row in published.read("xm3600_table6_correlations"):
    name = row["coefficient"].lower()
    cells.setdefault(row["langs"], {})[name] = {
      f"cider_{split}": row[split] for split in ("xm600", "xm3600", "coco_dev")
    }
  return cells


def _notes(result: Correlations) -> tuple[str, ...]:
  each = list(result._each())
  notes = []
  if result.resamples:
    notes.append(
      f"low, high: 95% bootstrap interval, {result.resamples:,} resamples of the comparisons, seed {result.seed}"
    )
  undefined = [f"{name} {group} {delta}" for group, name, delta, cell in each if cell.value is None]
  if undefined:
    notes.append(
      f"no coefficient (-) for {len(undefined)} cells, where a series is constant or has one comparison: "
      f"{', '.join(undefined[:3])}{', ...' if len(undefined) > 3 else ''}"
    )
  left_out = sum(cell.undefined for *_, cell in each)
  if left_out:
    notes.append(f"{left_out:,} resamples over all cells had no coefficient; intervals are of the others")
  if result.published:
    differing = result.differing()
    notes.append(
      f"paper: Table 6 of Thapliyal et al. (EMNLP 2022); {len(each) - len(differing)} of {len(each)} cells agree "
      "to the printed digit"
    )
    notes.extend(f"differs: {cell}" for cell in differing)
  return tuple(notes)


def _two_digits(value: float | None) -> str:
  return sheets.Column("", format=".2f").show(value)
