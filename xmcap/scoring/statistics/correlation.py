"""Correlation coefficients of two series, with bootstrap intervals."""

import dataclasses
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from xmcap.scoring.statistics import resampling

COEFFICIENTS: dict[str, str] = {"pearson": "Pearson", "spearman": "Spearman", "kendall": "Kendall"}
"""Name -> heading. Kendall's is tau-b, which counts ties."""

OF_SIGNS: dict[str, str] = {**COEFFICIENTS, "matthews": "Matthews"}
"""The same and Matthews's (phi) of the signs, for series of differences: whether both are above zero."""

LEAST = 5
"""Points of a coefficient. Of two it is always 1 or -1; of so few that rise together, resamples say no more."""

_CHUNK = 1_000_000  # numbers resampled at a time, which keeps memory below 100 MB


@dataclasses.dataclass(frozen=True)
class Correlation:
  """A coefficient, and the ends of its 95% bootstrap interval.

  The value is None if it is not defined: a series is constant or has fewer than `LEAST` points. `undefined` is the
  number of resamples without a coefficient, which the interval leaves out.
  """

  value: float | None
  low: float | None = None
  high: float | None = None
  undefined: int = 0

  def as_json(self) -> dict[str, float | None]:
    """Returns `score`, and `low` and `high` if there is an interval."""
    return {"score": self.value} | ({} if self.low is None else {"low": self.low, "high": self.high})


Cells = dict[str, dict[str, dict[str, Correlation]]]
"""Group -> name of the coefficient -> name of the series -> coefficient."""


def coefficient(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
  """Returns a coefficient [...] of series x and y [..., points], computed by scipy.stats; NaN if not defined."""
  # Imported here: it takes longer than everything else that scoring imports.
  from scipy import stats

  if x.shape[-1] < 2:
    return np.full(x.shape[:-1], np.nan)
  if name == "matthews":
    return _phi(x > 0, y > 0)
  with warnings.catch_warnings():
    # A constant series; the caller counts the NaN.
    warnings.simplefilter("ignore")
    if name == "kendall":
      return np.asarray(stats.kendalltau(x, y, axis=-1).statistic)  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
    if name == "spearman":
      x, y = stats.rankdata(x, axis=-1), stats.rankdata(y, axis=-1)
    return np.asarray(stats.pearsonr(x, y, axis=-1).statistic)  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]


def _phi(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  """Returns Matthews's coefficient [...] of truth values [..., points]; NaN if all of a series are equal."""
  # From counts, so that the order of the points cannot change the last digit.
  points, of_x, of_y, both = x.shape[-1], *(z.sum(-1, dtype=np.float64) for z in (x, y, x & y))
  spread = of_x * (points - of_x) * of_y * (points - of_y)
  with np.errstate(invalid="ignore"):
    return np.asarray((points * both - of_x * of_y) / np.sqrt(spread))


def correlate(
  x: np.ndarray,
  y: np.ndarray,
  units: np.ndarray | None = None,
  resamples: int = 0,
  seed: int = 0,
  names: Collection[str] = COEFFICIENTS,
) -> dict[str, Correlation]:
  """Returns name -> coefficient of two series; without a value if they are too short.

  Args:
    x, y: float64 [points].
    units: int [units, points per unit], groups of points that are resampled together, such as an image; None: each
      point by itself.
    resamples: 0 for no intervals.
    seed: equal seeds draw the same units for any x and y.
    names: of `OF_SIGNS`.
  """
  if len(x) < LEAST:
    return dict.fromkeys(names, Correlation(None))
  units = np.arange(len(x))[:, None] if units is None else units
  rng = np.random.default_rng(seed)
  drawn: dict[str, list[np.ndarray]] = {name: [np.empty(0)] for name in names}
  step = max(1, _CHUNK // max(1, len(x)))
  for start in range(0, resamples, step):
    count = min(step, resamples - start)
    points = units[rng.integers(len(units), size=(count, len(units)))].reshape(count, -1)
    for name in names:
      drawn[name].append(coefficient(name, x[points], y[points]))
  return {name: _with_interval(float(coefficient(name, x, y)), np.concatenate(drawn[name])) for name in names}


def by_coefficient(by_series: Mapping[str, Mapping[str, Correlation]]) -> dict[str, dict[str, Correlation]]:
  """Turns series -> coefficient -> value into coefficient -> series -> value."""
  names = next(iter(by_series.values()))
  return {name: {series: of_series[name] for series, of_series in by_series.items()} for name in names}


def flat(cells: Cells) -> Iterator[tuple[str, str, str, Correlation]]:
  """Yields (group, name of the coefficient, name of the series, coefficient)."""
  for group, by_name in cells.items():
    for name, by_series in by_name.items():
      for series, cell in by_series.items():
        yield group, name, series, cell


def too_few(points: int, noun: str = "points") -> list[str]:
  """Returns a note that there is no coefficient, if there are fewer than `LEAST` points."""
  return [] if points >= LEAST else [f"no coefficient (-) of {points:,} {noun}: it takes {LEAST} or more"]


def undefined_note(tables: Iterable[Cells]) -> list[str]:
  """Returns a note about resamples without a coefficient, if there are any."""
  count = sum(cell.undefined for cells in tables for *_, cell in flat(cells))
  return (
    [f"{count:,} resamples over all cells had no coefficient; the intervals leave them out"] if count else []
  )


def _with_interval(value: float, drawn: np.ndarray) -> Correlation:
  if np.isnan(value):
    return Correlation(None)
  undefined = int(np.isnan(drawn).sum())
  ends = resampling.interval(drawn) if undefined < len(drawn) else (None, None)
  return Correlation(value, *ends, undefined)
