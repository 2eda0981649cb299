"""Side-by-side ratings: wins, losses and delta SxS.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 3.3: three people rate each pair of captions on a
seven-point scale. A system wins an image if most raters prefer its caption, by however much; delta SxS is wins minus
losses in percent of the images. For any number of raters, "most" means more than half, so two raters who disagree make
a tie.
"""

import collections
import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import languages
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.human import agreement, fields
from xmcap.human.rated_pairs import RatedPair
from xmcap.human.sheets import Findings, Sheet, SheetColumn
from xmcap.reading import joining
from xmcap.scoring.statistics import resampling
from xmcap.terminal import shown

_FEW_RATINGS = 10  # with fewer ratings, sides that never change may be chance
_MEMBERS = ("image/key", "language", "rater", "left", "right", "rating")
_WORDS = {
  "much better": 3, "better": 2, "slightly better": 1, "similar": 0,
  "slightly worse": -1, "worse": -2, "much worse": -3,
}  # fmt: skip

# (system, against, language) -> image key -> ratings, positive if `system` is better.
_Points = dict[tuple[str, str, str], dict[str, list[int]]]


@dataclasses.dataclass(frozen=True)
class SxsRating:
  """One rater's comparison of two captions of an image, from -3 (left much better) to 3 (right much better).

  `left` and `right` name the systems; the sides are random for each rating. `equal`: both captions are equal, a tie
  that nobody was asked about.
  """

  key: str
  language: str
  rater: str
  left: str
  right: str
  rating: int
  equal: bool = False


@dataclasses.dataclass(frozen=True)
class Tally:
  """Ratings of one system against another in one language.

  Attributes:
    wins, losses, ties: images on which most raters prefer `system`, `against`, or neither, in percent.
    delta_sxs: wins minus losses: positive if people prefer `system`.
    low, high: ends of the 95% bootstrap interval of delta SxS; None without resamples.
    same_side: share of pairs of raters of an image who choose the same side, or both neither; None if no image has two
      raters.
    alpha_side, alpha_scale: Krippendorff's alpha of the sides (nominal) and of the seven points (interval).
  """

  system: str
  against: str
  language: str
  images: int
  wins: float
  losses: float
  ties: float
  delta_sxs: float
  low: float | None
  high: float | None
  ratings: int
  same_side: float | None
  alpha_side: float | None
  alpha_scale: float | None


@dataclasses.dataclass(frozen=True)
class SideBySide(Findings):
  """The tallies of side-by-side ratings, by pair of systems, then language."""

  tallies: tuple[Tally, ...]
  stem = "sxs"

  def sheets(self) -> list[Sheet]:
    """Returns one sheet with a row per pair and language."""
    ends = ("low", "high") if self.resamples else ()
    columns = [
      *map(SheetColumn, ("system", "against", "language")),
      SheetColumn("images", format=","),
      *(SheetColumn(name, f"{name} %", ".1f") for name in ("wins", "losses", "ties")),
      SheetColumn("delta_sxs", "delta SxS", "+.1f"),
      *(SheetColumn(end, format="+.1f") for end in ends),
      SheetColumn("ratings", format=","),
      SheetColumn("same_side", "same side", ".2f"),
      SheetColumn("alpha_side", "alpha, side", ".2f"),
      SheetColumn("alpha_scale", "alpha, scale", ".2f"),
    ]
    return [Sheet.of_objects("sxs", "Side by side", columns, self.tallies)]


@checked
def read(paths: joining.Paths) -> list[SxsRating]:
  """Reads ratings from JSONL or, if the name ends in `.csv`, from CSV with a header line; from one file or several.

  Raises UsageError for a file without ratings, and for a line that lacks a field, names an unknown language, compares a
  system with itself, is off the scale, or repeats a rating of the same rater.
  """
  ratings: list[SxsRating] = []
  seen: dict[Hashable, str] = {}
  for where, row in fields.rows(paths, _MEMBERS, as_csv=True):
    equal = row.get("equal_captions") in (True, "true", "True")
    key, language, left, right = (
      fields.text(row, name, where).strip() for name in ("image/key", "language", "left", "right")
    )
    rater = fields.person(row, "rater", where, blank=equal)
    languages.check(language, where)
    if left == right:
      raise UsageError(f"{where}: '{shown(left)}' is on both sides; name two systems")
    event = (
      f"'{shown(rater)}' rated '{shown(left)}' against '{shown(right)}' in {language} on image '{shown(key)}'"
    )
    rating = _rating(row, where)
    if not equal:
      fields.once(seen, (key, language, rater, *sorted((left, right))), where, event)
    elif rating:
      raise UsageError(f"{where}: 'rating' is {rating}, but the captions are equal; rate them 0")
    ratings.append(SxsRating(key, language, rater, left, right, rating, equal))
  return ratings


def _rating(row: Mapping[str, Any], where: str) -> int:
  value = row.get("rating")
  if isinstance(value, str):
    if not value.strip():
      raise UsageError(f"{where}: 'rating' is empty; rate the pair, or remove the line")
    words = " ".join(value.lower().replace("_", " ").split())
    points = _WORDS[words] if words in _WORDS else _written(value, where)
  else:
    points = fields.number(row, "rating", where)
  if points not in _WORDS.values():
    raise UsageError(f"{where}: 'rating' is {points:g}; it must be a whole number from -3 to 3")
  return int(points)


def _written(value: str, where: str) -> float:
  try:
    return fields.written_number({"rating": value}, "rating", where)
  except UsageError:
    raise UsageError(
      f"{where}: 'rating' is '{shown(value)}'; it must be a whole number from -3 to 3, or one of {', '.join(_WORDS)}"
    ) from None


@checked
def evaluate(
  ratings: Sequence[SxsRating],
  baseline: str | None = None,
  resamples: int = 1000,
  seed: int = 0,
  raters: int = 3,
) -> SideBySide:
  """Counts wins and losses for each pair of systems and language.

  Args:
    ratings: one or more; two systems may appear on either side.
    baseline: a system that becomes `against` in its pairs; in other pairs the alphabetically first is `system`.
    resamples, seed: of the images within each pair and language; 0 resamples for no intervals.
    raters: expected number of raters per image; the notes report other numbers.
  """
  points: _Points = collections.defaultdict(lambda: collections.defaultdict(list))
  for rating in ratings:
    system, against = sorted((rating.left, rating.right), key=lambda name: (name == baseline, name))
    value = rating.rating if rating.right == system else -rating.rating
    # Without ratings an image is a tie, and in no figure of agreement.
    points[system, against, rating.language][rating.key] += [] if rating.equal else [value]
  systems = sorted({name for pair in points for name in pair[:2]})
  if baseline is not None and baseline not in systems:
    raise UsageError(
      f"--baseline={baseline}: no ratings of this system; there are: {', '.join(map(shown, systems))}"
    )
  tallies = tuple(_tally(*pair, images, resamples, seed) for pair, images in sorted(points.items()))
  notes = ["win: more than half of an image's raters prefer the system; delta SxS: wins minus losses"]
  if resamples:
    notes.append(
      f"low, high: 95% bootstrap interval of delta SxS, {resamples:,} resamples of the images, seed {seed}"
    )
  equal = sum(not values for images in points.values() for values in images.values())
  if equal:
    notes.append(f"ties of equal captions, which nobody was asked about and no agreement counts: {equal:,}")
  counts = collections.Counter(
    len(values) for images in points.values() for values in images.values() if values
  )
  notes += agreement.unusual_numbers(counts, raters, "rated pairs of captions", "raters")
  notes += fields.alike(rating.rater for rating in ratings)
  notes += _fixed_sides(ratings)
  return SideBySide(tallies=tallies, resamples=resamples, seed=seed, notes=notes)


def with_scores(
  tallies: Sequence[Tally], scores: Mapping[str, Mapping[str, float]], metric: str
) -> list[RatedPair]:
  """Pairs each delta SxS with the difference of a metric, both `system` minus `against`.

  `scores` maps system -> language -> score. Raises UsageError unless it has exactly the systems that were rated.
  """
  rated = {name for tally in tallies for name in (tally.system, tally.against)}
  if odd := rated ^ set(scores):
    problem = "has ratings but no scores" if min(odd) in rated else "has scores but no ratings"
    raise UsageError(f"system '{shown(min(odd))}' {problem}; name each with --scores=NAME=DIR")
  pairs = []
  for tally in tallies:
    for system in (tally.system, tally.against):
      if tally.language not in scores[system]:
        raise UsageError(
          f"the scores of '{shown(system)}' lack {tally.language}, which was rated; score it too"
        )
    difference = scores[tally.system][tally.language] - scores[tally.against][tally.language]
    pairs.append(
      RatedPair(tally.system, tally.against, tally.language, tally.delta_sxs, {metric: difference})
    )
  return pairs


def _tally(
  system: str, against: str, language: str, images: Mapping[str, list[int]], resamples: int, seed: int
) -> Tally:
  # Sorted, so that the order of the lines changes neither the draws nor the last digit of alpha.
  points = [sorted(images[key]) for key in sorted(images)]
  sides = [[int(point > 0) - int(point < 0) for point in image] for image in points]
  winners = np.array([_winner(side) for side in sides])
  share = np.array([(winners == winner).mean() for winner in (1, -1, 0)])
  low = high = None
  if resamples:
    # Drawing images with replacement is the same as drawing the counts of wins, losses and ties.
    drawn = np.random.default_rng(seed).multinomial(len(images), share, size=resamples)
    deltas = 100 * (drawn[:, 0] - drawn[:, 1]) / len(images)
    low, high = resampling.interval(deltas)
  wins, losses, ties = (float(100 * value) for value in share)
  return Tally(
    system, against, language, len(images), wins, losses, ties, wins - losses, low, high, sum(map(len, points)),
    agreement.equal_share(sides),
    agreement.krippendorff_alpha(sides),
    agreement.krippendorff_alpha(points, squared=True),
  )  # fmt: skip


def _winner(sides: Sequence[int]) -> int:
  """Returns the side (-1, 1) that more than half of the raters chose; 0 if there is none."""
  return next((side for side in (-1, 1) if 2 * sides.count(side) > len(sides)), 0)


def _fixed_sides(ratings: Sequence[SxsRating]) -> list[str]:
  orders = collections.Counter((shown(rating.left), shown(rating.right)) for rating in ratings)
  return [
    f"'{left}' is on the left of '{right}' in all {count:,} ratings; sides should be random"
    for (left, right), count in sorted(orders.items())
    if count >= _FEW_RATINGS and (right, left) not in orders
  ]
