"""Side-by-side ratings to wins, losses and delta SxS.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 3: each pair of captions is rated by three people on
seven points; a system wins an image if most of its raters prefer its caption, by however much, and delta SxS
is wins less losses in per cent of the images. With other numbers of raters than three "most" is still more
than half of them, so that two who disagree make a tie.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.human import agreement, comparisons, sheets
from xmcap.scoring.human.sxs_ratings import Rating

_LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Tally:
  """How people rated a system against another in one language.

  Attributes:
    system: whose wins are counted.
    against: the other.
    language: code of the language.
    images: how many were rated.
    wins: images on which most raters prefer `system`, in per cent.
    losses: images on which most prefer `against`, in per cent.
    ties: the other images, in per cent.
    low: lower end of the 95% bootstrap interval of delta SxS; None without resamples.
    high: upper end.
    ratings: how many ratings there are.
    same_side: share of the pairs of raters of one image who choose the same side, or both none; None if no image
      has two raters.
    alpha_side: Krippendorff's alpha (nominal) of the sides.
    alpha_scale: Krippendorff's alpha (interval) of the seven points.
  """

  system: str
  against: str
  language: str
  images: int
  wins: float
  losses: float
  ties: float
  low: float | None
  high: float | None
  ratings: int
  same_side: float | None
  alpha_side: float | None
  alpha_scale: float | None

  @property
  def delta_sxs(self) -> float:
    """Wins less losses, in per cent of the images: positive if people prefer `system`."""
    return self.wins - self.losses


@dataclasses.dataclass(frozen=True)
class SideBySide(sheets.Result):
  """What side-by-side ratings say.

  Attributes:
    tallies: by pair of systems, then language.
    resamples: bootstrap resamples of the images behind each interval.
    seed: of the resamples.
    notes: what a reader should know.
  """

  tallies: tuple[Tally, ...]
  resamples: int
  seed: int
  notes: tuple[str, ...] = ()
  stem = "sxs"

  def tables(self) -> tuple[sheets.Sheet, ...]:
    """Returns one sheet, a row a pair and language."""
    ends = ("low", "high") if self.resamples else ()
    columns = (
      sheets.Column("system"),
      sheets.Column("against"),
      sheets.Column("language"),
      sheets.Column("images", format=","),
      sheets.Column("wins", "wins %", ".1f"),
      sheets.Column("losses", "losses %", ".1f"),
      sheets.Column("ties", "ties %", ".1f"),
      sheets.Column("delta_sxs", "delta SxS", "+.1f"),
      *(sheets.Column(end, format="+.1f") for end in ends),
      sheets.Column("ratings", format=","),
      sheets.Column("same_side", "same side", ".2f"),
      sheets.Column("alpha_side", "alpha, side", ".2f"),
      sheets.Column("alpha_scale", "alpha, scale", ".2f"),
    )
    rows = tuple(tuple(getattr(tally, column.name) for column in columns) for tally in self.tallies)
    return (sheets.Sheet("sxs", "Side by side", columns, rows),)

  def as_json(self) -> dict[str, Any]:
    """Returns the tallies and notes."""
    return {
      "tallies": [dataclasses.asdict(tally) | {"delta_sxs": tally.delta_sxs} for tally in self.tallies],
      "bootstrap": {"resamples": self.resamples, "seed": self.seed, "level": _LEVEL},
      "notes": list(self.notes),
    }


def evaluate(
  ratings: Sequence[Rating],
  baseline: str | None = None,
  resamples: int = 1000,
  seed: int = 0,
  raters: int = 3,
) -> SideBySide:
  """Counts wins and losses for each pair of systems and language.

  Args:
    ratings: one or more; the same two systems may stand on either side.
    baseline: a system that others are held `against`; of other pairs the alphabetically first is `system`.
    resamples: of the images, with replacement, within each pair and language; 0 for no intervals.
    seed: of the resamples.
    raters: how many an image should have; other numbers are counted in the notes.

  Raises:
    UsageError: `baseline` is in no rating.
  """
  cells: dict[tuple[str, str, str], dict[str, list[int]]] = collections.defaultdict(
    lambda: collections.defaultdict(list)
  )
  for rating in ratings:
    system, against = sorted((rating.left, rating.right), key=lambda name: (name == baseline, name))
    points = rating.rating if rating.right == system else -rating.rating
    cells[system, against, rating.language][rating.key].append(points)
  if baseline is not None and not any(baseline in cell[:2] for cell in cells):
    systems = sorted({name for cell in cells for name in cell[:2]})
    raise UsageError(
      f"--baseline={baseline}: no rating is of this system; there are: {', '.join(map(files.shown, systems))}"
    )
  tallies = tuple(_tally(*cell, images, resamples, seed) for cell, images in sorted(cells.items()))
  return SideBySide(tallies, resamples, seed, _notes(cells, ratings, raters, resamples, seed))


def compare(
  tallies: Sequence[Tally], scores: Mapping[str, Mapping[str, float]], name: str
) -> tuple[comparisons.Comparison, ...]:
  """Puts the difference of a metric beside each delta SxS, both of `system` less `against`.

  Args:
    tallies: from `evaluate`.
    scores: system -> language -> score.
    name: what the difference is called, such as `cider`.

  Raises:
    UsageError: a system has no scores, a score is missing, or scores are given for a system that nobody rated.
  """
  rated = {name for tally in tallies for name in (tally.system, tally.against)}
  for problem, names in (("has ratings but no scores", rated - set(scores)),
                         ("has scores but no ratings", set(scores) - rated)):  # fmt: skip
    if names:
      raise UsageError(f"system '{files.shown(min(names))}' {problem}; name each with --scores=NAME=DIR")
  for tally in tallies:
    for system in (tally.system, tally.against):
      if tally.language not in scores[system]:
        raise UsageError(f"the scores of '{files.shown(system)}' lack {tally.language}, which was rated; "
                         "score it too")  # fmt: skip
  return tuple(
    comparisons.Comparison(
      tally.system,
      tally.against,
      tally.language,
      tally.delta_sxs,
      {name: scores[tally.system][tally.language] - scores[tally.against][tally.language]},
    )
    for tally in tallies
  )


def _tally(
  system: str, against: str, language: str, images: Mapping[str, list[int]], resamples: int, seed: int
) -> Tally:
  # Sorted: the order of the lines must not change the draws, nor the last digit of alpha.
  points = [sorted(images[key]) for key in sorted(images)]
  sides = [[int(point > 0) - int(point < 0) for point in image] for image in points]
  outcomes = np.array([_outcome(side) for side in sides])
  share = np.array([(outcomes == outcome).mean() for outcome in (1, -1, 0)])
  low = high = None
  if resamples:
    # Drawing images with replacement is drawing the numbers of wins, losses and ties.
    drawn = np.random.default_rng(seed).multinomial(len(images), share, size=resamples)
    deltas = 100 * (drawn[:, 0] - drawn[:, 1]) / len(images)
    low, high = map(float, np.quantile(deltas, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]))
  wins, losses, ties = (float(100 * value) for value in share)
  return Tally(
    system, against, language, len(images), wins, losses, ties, low, high,
    sum(map(len, points)),
    agreement.equal_share(sides),
    agreement.krippendorff_alpha(sides),
    agreement.krippendorff_alpha(points, "interval"),
  )  # fmt: skip


def _notes(
  cells: Mapping[tuple[str, str, str], Mapping[str, list[int]]],
  ratings: Sequence[Rating],
  raters: int,
  resamples: int,
  seed: int,
) -> tuple[str, ...]:
  notes = ["win: more than half of an image's raters prefer the system; delta SxS: wins less losses"]
  if resamples:
    notes.append(
      f"low, high: 95% bootstrap interval of delta SxS, {resamples:,} resamples of the images, seed {seed}"
    )
  counts = collections.Counter(len(points) for images in cells.values() for points in images.values())
  others = {count: images for count, images in sorted(counts.items()) if count != raters}
  if others:
    listed = ", ".join(f"{images:,} with {count}" for count, images in others.items())
    notes.append(
      f"{sum(others.values()):,} of {counts.total():,} rated pairs of captions do not have {raters} raters: {listed}"
    )
  for names, fixed in _fixed_sides(ratings):
    notes.append(
      f"'{names[0]}' is on the left of '{names[1]}' in all {fixed:,} ratings; sides should be random"
    )
  return tuple(notes)


def _outcome(sides: Sequence[int]) -> int:
  """Returns which side (-1, 1) more than half of the raters chose; 0 if they chose none."""
  return next((side for side in (-1, 1) if 2 * sides.count(side) > len(sides)), 0)


def _fixed_sides(ratings: Sequence[Rating]) -> list[tuple[tuple[str, str], int]]:
  """Returns (left, right) and the number of ratings of pairs that were never seen the other way round."""
  orders = collections.Counter((files.shown(rating.left), files.shown(rating.right)) for rating in ratings)
  return [
    (names, count) for names, count in sorted(orders.items()) if count >= 10 and names[::-1] not in orders
  ]
