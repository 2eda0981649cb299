"""Chance-corrected agreement of raters."""

import collections
from collections.abc import Sequence

import numpy as np

MOST_IN_PAIRS = 50
"""People whose agreement is counted pair by pair, which takes a row for each pair; of more there are figures of all."""


def cohen_kappa(first: Sequence[float], second: Sequence[float], squared: bool = False) -> float | None:
  """Returns Cohen's kappa of two raters of the same items (Cohen 1960; weighted: Cohen 1968).

  If `squared`, a disagreement is weighted by the squared difference of the rating values, so steps of the scale that
  nobody used have no effect. None if there are no items, or if both raters gave the same single rating throughout.
  """
  if not len(first):
    return None
  values, codes = _coded([first, second])
  a, b = codes[: len(first)], codes[len(first) :]
  if squared:
    # The mean of all squared differences is that of the values about their means.
    a, b = values[a], values[b]
    observed, expected = ((a - b) ** 2).mean(), a.var() + b.var() + (a.mean() - b.mean()) ** 2
  else:
    counts = [np.bincount(codes, minlength=len(values)) / len(first) for codes in (a, b)]
    observed, expected = (a != b).mean(), 1 - counts[0] @ counts[1]
  return float(1 - observed / expected) if len(values) > 1 else None


def krippendorff_alpha(units: Sequence[Sequence[float]], squared: bool = False) -> float | None:
  """Returns Krippendorff's alpha for any number of raters, who may differ between units.

  Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), the form for missing data. The distance is
  nominal, or with `squared` interval. None if no unit has two ratings, or all ratings are the same.
  """
  units = [unit for unit in units if len(unit) > 1]
  if not units:
    return None
  values, codes = _coded(units)
  if len(values) < 2:
    return None
  raters = np.array([len(unit) for unit in units], np.float64)
  unit = np.repeat(np.arange(len(units)), [len(ratings) for ratings in units])
  if squared:
    ratings = values[codes]
    means = np.bincount(unit, ratings) / raters
    # Sums over ordered pairs of a unit: 2 m times the squared distances from its mean.
    within = 2 * raters * np.bincount(unit, (ratings - means[unit]) ** 2)
    total = 2 * len(ratings) * ((ratings - ratings.mean()) ** 2).sum()
  else:
    # Pairs that are not equal: all but those of the same value.
    places, same = np.unique(unit * len(values) + codes, return_counts=True)
    within = raters**2 - np.bincount(places // len(values), same.astype(np.float64) ** 2)
    total = float(len(codes)) ** 2 - (np.bincount(codes).astype(np.float64) ** 2).sum()
  return float(1 - (within / (raters - 1)).sum() / (total / (len(codes) - 1)))


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
