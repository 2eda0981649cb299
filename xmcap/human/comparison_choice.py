"""Chooses the side-by-side comparisons that are worth their raters, from scores on two sets of references.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 3.3. In a few core languages all pairs of systems are
compared (O_CORE). Elsewhere only those are on which two sets of references, such as XM3600 and translated ones of
COCO-dev, disagree or say little: their differences have opposite signs, or one of them is small (O_EXT). The paper does
not say what is small. With 0.011 all 41 sessions of its Table 7 are chosen, and 18 more.
"""

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence

from xmcap import languages, wording
from xmcap.errors import UsageError
from xmcap.human.sheets import Findings, Sheet, SheetColumn
from xmcap.terminal import shown

SMALL = 0.01
"""A difference of CIDEr up to this, in [0, 10], is small."""

Scores = Mapping[str, Mapping[str, float]]
"""System -> language -> score."""


@dataclasses.dataclass(frozen=True)
class ChosenPair:
  """A comparison to be rated; the differences are m1 - m2.

  Attributes:
    group: `CORE` or `EXT`.
    why: `core`, `opposite` signs, or a `small` difference.
  """

  m1: str
  m2: str
  lang: str
  group: str
  why: str
  delta: float
  delta_silver: float


@dataclasses.dataclass(frozen=True)
class ChosenPairs(Findings):
  """The chosen comparisons, those of the core languages first; `candidates` is the number of all."""

  pairs: tuple[ChosenPair, ...]
  candidates: int
  stem = "comparisons"

  def sheets(self) -> list[Sheet]:
    """Returns one sheet with a row per comparison."""
    columns = [
      *map(SheetColumn, ("m1", "m2", "lang", "group", "why")),
      SheetColumn("delta", format="+.3f"),
      SheetColumn("delta_silver", "delta, silver", "+.3f"),
    ]
    return [Sheet.of_objects("comparisons", "Comparisons to rate", columns, self.pairs)]


def choose(scores: Scores, silver: Scores, core: Collection[str] = (), small: float = SMALL) -> ChosenPairs:
  """Chooses among all pairs of systems in all languages.

  Args:
    scores: of the references that one trusts, such as XM3600's.
    silver: of the others, for the same systems.
    core: languages in which every pair is chosen.
    small: an absolute difference up to this is small, in the unit of the scores.

  Raises:
    UsageError: fewer than two systems, other systems in `silver`, or a core language without scores.
  """
  systems = list(scores)
  if len(systems) < 2:
    raise UsageError("a comparison needs two systems: give --scores=NAME=DIR and --silver=NAME=DIR for each")
  if odd := set(systems) ^ set(silver):
    raise UsageError(f"system '{shown(min(odd))}' must be in both --scores and --silver")
  of_systems = [set(of_system) for of_system in (*scores.values(), *silver.values())]
  shared = set.intersection(*of_systems)
  if absent := sorted(set(core) - shared):
    raise UsageError(
      f"no scores in {', '.join(absent)}: score every system on both sets, or leave it out of --core"
    )
  chosen: list[ChosenPair] = []
  codes = languages.ordered(shared)
  pairs = list(itertools.combinations(systems, 2))
  for language in sorted(codes, key=lambda language: language not in core):
    for m1, m2 in pairs:
      # Ten digits: a difference of printed scores such as 0.3 - 0.2 is 0.1, not a little less.
      delta, other = (round(of[m1][language] - of[m2][language], 10) for of in (scores, silver))
      why = _why(delta, other, language in core, small)
      if why:
        chosen.append(ChosenPair(m1, m2, language, "CORE" if language in core else "EXT", why, delta, other))
  return ChosenPairs(
    tuple(chosen), len(pairs) * len(codes), notes=_notes(chosen, set.union(*of_systems) - shared, small)
  )


def _why(delta: float, silver: float, is_core: bool, small: float) -> str:
  if is_core:
    return "core"
  if delta * silver < 0:
    return "opposite"
  return "small" if min(abs(delta), abs(silver)) <= small else ""


def _notes(chosen: Sequence[ChosenPair], left_out: Collection[str], small: float) -> list[str]:
  counts = [
    f"{group}: {wording.count(len(of_group), 'comparison')} in "
    f"{wording.count(len({pair.lang for pair in of_group}), 'language')}"
    for group in ("CORE", "EXT")
    if (of_group := [pair for pair in chosen if pair.group == group])
  ]
  notes = [
    *counts,
    f"opposite: the two differences have opposite signs; small: one of them is up to {small:g}",
  ]
  if left_out:
    notes.append(
      f"left out, because a system has no score in one of the sets: {', '.join(languages.ordered(left_out))}"
    )
  return notes
