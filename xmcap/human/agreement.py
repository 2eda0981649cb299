"""Chance-corrected agreement of raters."""

import collections
from collections.abc import Sequence

import numpy as np


def cohen_kappa(first: Sequence[float], second: Sequence[float], squared: bool = False) -> float | None:
  """Returns Cohen's kappa of two raters of the same items (Cohen 1960; weighted: Cohen 1968).

  If `squared`, a disagreement is weighted by the squared difference of the rating values, so steps of the scale that
  nobody used have no effect. None if there are no items, or if both raters gave the same single rating throughout.
  """
  values, codes = _coded([first, second])
  a, b = codes[: len(first)], codes[len(first) :]
  size = len(values)
  joint = np.bincount(a * size + b, minlength=size * size).reshape(size, size)
  disagreement = _disagreement(values, squared)
  expected = (np.outer(joint.sum(1), joint.sum(0)) * disagreement).sum()
  observed = (joint * disagreement).sum() * len(first)
  return float(1 - observed / expected) if expected else None


def krippendorff_alpha(units: Sequence[Sequence[float]], squared: bool = False) -> float | None:
  """Returns Krippendorff's alpha for any number of raters, who may differ between units.

  Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), the form for missing data. The distance is
  nominal, or with `squared` interval. None if no unit has two ratings, or all ratings are the same.
  """
  units = [unit for unit in units if len(unit) > 1]
  if not units:
    return None
  values, codes = _coded(units)
  unit = np.repeat(np.arange(len(units)), [len(ratings) for ratings in units])
  counts = np.bincount(unit * len(values) + codes, minlength=len(units) * len(values))
  counts = counts.reshape(len(units), len(values)).astype(np.float64)
  raters = counts.sum(1, keepdims=True)
  total = counts.sum(0)
  coincidence = counts.T @ (counts / (raters - 1)) - np.diag((counts / (raters - 1)).sum(0))
  disagreement = _disagreement(values, squared)
  expected = (np.outer(total, total) * disagreement).sum() / (total.sum() - 1)
  return float(1 - (coincidence * disagreement).sum() / expected) if expected else None


def equal_share(units: Sequence[Sequence[float]]) -> float | None:
  """Returns the share of equal pairs among all pairs of ratings of a unit; None if no unit has two ratings."""
  equal = pairs = 0
  for unit in units:
    equal += sum(count * (count - 1) for count in collections.Counter(unit).values())
    pairs += len(unit) * (len(unit) - 1)
  return equal / pairs if pairs else None


def unusual_numbers(ratings: collections.Counter[int], expected: int, units: str, noun: str) -> list[str]:
  """Returns a note if some units, such as captions, have other numbers of ratings than expected.

  `ratings` is number of ratings -> units that have so many; `noun` is what the note counts, such as ratings or raters.
  """
  others = [f"{count:,} with {number}" for number, count in sorted(ratings.items()) if number != expected]
  share = f"{ratings.total() - ratings[expected]:,} of {ratings.total():,} {units}"
  return [f"{share} do not have {expected} {noun}: {', '.join(others)}"] if others else []


def _coded(ratings: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
  """Returns the V distinct values, and the index of each rating among them."""
  # `+ 0.0`: -0.0 and 0.0 are one rating.
  return np.unique(np.concatenate(ratings) + 0.0, return_inverse=True)


def _disagreement(values: np.ndarray, squared: bool) -> np.ndarray:
  """Returns the weights [V, V] of pairs of values."""
  difference = values[:, None] - values[None, :]
  return difference**2 if squared else (difference != 0).astype(np.float64)
