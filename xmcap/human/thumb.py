"""THumB 1.0: system means, how often a system is best, and annotator agreement.

Source: Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), Tables 2 and 3 and Figure 2.
"""

import collections
import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from xmcap.arguments import checked
from xmcap.human import agreement, fields, thumb_correlations, thumb_histograms
from xmcap.human.agreement import MOST_IN_PAIRS
from xmcap.human.sheets import Findings, Sheet, SheetColumn
from xmcap.human.thumb_correlations import MetricResult
from xmcap.human.thumb_ratings import MEASURES, ThumbRatings
from xmcap.scoring.statistics import correlation


@dataclasses.dataclass(frozen=True)
class RatedSystem:
  """A system of Tables 2 and 3.

  Attributes:
    means: name of a measure, or `total` -> mean over the images. Penalties are 0 or less.
    intervals: the same names -> ends of the 90% bootstrap interval over images; empty without resamples.
    best: number of images where its precision and recall are both the highest of all systems; ties count for each.
      The paper calls this "strictly", but this rule reproduces its numbers.
    strictly_best: number of images where both are higher than those of every other system.
    worst: number of images where both are the lowest, including ties. Neither this rule nor any other that we tried
      reproduces the paper's counts of worst captions.
    strictly_worst: number of images where both are lower than those of every other system.
  """

  name: str
  means: dict[str, float]
  intervals: dict[str, tuple[float, float]]
  best: int
  strictly_best: int
  worst: int
  strictly_worst: int


@dataclasses.dataclass(frozen=True)
class Kappa:
  """Cohen's kappa of two annotators on one measure, plain and with quadratic weights.

  None if both gave the same single rating throughout.
  """

  first: str
  second: str
  measure: str
  captions: int
  kappa: float | None
  weighted: float | None


@dataclasses.dataclass(frozen=True)
class ThumbFindings(Findings):
  """Results of THumB ratings.

  Attributes:
    histograms: measure -> value -> number of ratings with it, for each system in their order (Figure 2); a caption of
      several annotators counts for each.
    agreement: a row per measure and pair of annotators with common captions; none of over `MOST_IN_PAIRS` annotators.
  """

  systems: tuple[RatedSystem, ...]
  images: int
  histograms: dict[str, dict[float, list[int]]]
  agreement: tuple[Kappa, ...]
  metrics: Sequence[MetricResult]
  stem = "thumb"
  level = 0.90  # as in the paper

  def sheets(self) -> list[Sheet]:
    """Returns means, best and worst, and, if there are any, agreement, metric scores and correlations."""
    columns = [SheetColumn("system")]
    columns += [SheetColumn(name, format=".2f" if name in ("P", "R") else ".3f") for name in MEASURES]
    ends = ("low", "high") if self.resamples else ()
    columns += [SheetColumn(name, format=".2f") for name in ("total", *ends)]
    rows = [
      [system.name, *system.means.values(), *system.intervals.get("total", ())] for system in self.systems
    ]
    means = Sheet("thumb_means", f"Means over {self.images:,} images", columns, rows)

    names = ("best", "strictly_best", "worst", "strictly_worst")
    columns = [SheetColumn("system"), *(SheetColumn(name, name.replace("_", " "), ",") for name in names)]
    rows = [[system.name, *(getattr(system, name) for name in names)] for system in self.systems]
    best = Sheet("thumb_best", "Images with the best and worst P and R", columns, rows)
    columns = [SheetColumn("measure"), SheetColumn("value", format="g")]
    columns += [SheetColumn(system.name, format=",") for system in self.systems]
    rows = [
      [measure, value, *counts]
      for measure, by_value in self.histograms.items()
      for value, counts in by_value.items()
    ]
    sheets = [means, best, Sheet("thumb_histograms", "Ratings with each value", columns, rows)]
    if self.agreement:
      columns = [
        SheetColumn("first", "annotator"),
        SheetColumn("second", "annotator"),
        SheetColumn("measure"),
        SheetColumn("captions", format=","),
        SheetColumn("kappa", format=".2f"),
        SheetColumn("weighted", "kappa, quadratic", ".2f"),
      ]
      sheets.append(Sheet.of_objects("thumb_agreement", "Cohen's kappa", columns, self.agreement))
    if self.metrics:
      sheets += thumb_correlations.sheets(self.metrics)
    return sheets

  def _texts(self) -> dict[str, str]:
    """Adds the drawing of the histograms to the files."""
    drawn = thumb_histograms.svg([system.name for system in self.systems], self.histograms)
    return {**super()._texts(), "thumb_histograms.svg": f"{drawn}\n"}


@checked
def evaluate(
  ratings: ThumbRatings, metrics: Sequence[MetricResult] = (), resamples: int = 1000, seed: int = 0
) -> ThumbFindings:
  """Computes the means, counts and agreement of rated captions.

  The images are resampled with replacement, the same for every system; 0 resamples give no intervals. `metrics` are the
  results of `thumb_correlations.correlate`.
  """
  intervals = _intervals(ratings, resamples, seed)
  counts = np.stack([*_count_extremes(ratings, 1), *_count_extremes(ratings, -1)])
  systems = []
  for number, name in enumerate(ratings.systems):
    # `+ 0.0`: the mean of no penalties is 0, not -0.
    means = {measure: float(values[number].mean() + 0.0) for measure, values in ratings.measures.items()}
    systems.append(RatedSystem(name, means, intervals[number], *map(int, counts[:, number])))
  kappas = _kappas(ratings)
  notes = _notes(ratings, metrics, bool(kappas), resamples, seed)
  return ThumbFindings(
    systems=tuple(systems), images=len(ratings.keys), histograms=_histograms(ratings), agreement=kappas,
    metrics=metrics, resamples=resamples, seed=seed, notes=notes,
  )  # fmt: skip


def _intervals(ratings: ThumbRatings, resamples: int, seed: int) -> list[dict[str, tuple[float, float]]]:
  """Returns measure -> ends of the interval, for each system; empty without resamples."""
  if not resamples:
    return [{} for _ in ratings.systems]
  rng = np.random.default_rng(seed)
  count = len(ratings.keys)
  values = np.stack(list(ratings.measures.values()))
  # Drawing images with replacement is the same as drawing the count of each image.
  means = [values @ rng.multinomial(count, np.full(count, 1 / count)) / count for _ in range(resamples)]
  low, high = (np.quantile(means, [0.05, 0.95], axis=0) + 0.0).tolist()  # each [measures, systems]
  return [
    {measure: (low[row][system], high[row][system]) for row, measure in enumerate(ratings.measures)}
    for system in range(len(ratings.systems))
  ]


def _count_extremes(ratings: ThumbRatings, sign: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns for each system the number of images where its P and R are both the highest (sign -1: lowest).

  The first array counts a tie for every system that shares it; the second counts no ties.
  """
  weak = strict = True
  for name in ("P", "R"):
    value = sign * ratings.measures[name]
    is_best = value == value.max(axis=0)
    weak, strict = weak & is_best, strict & is_best & (is_best.sum(axis=0) == 1)
  return weak.sum(axis=1), strict.sum(axis=1)


def _histograms(ratings: ThumbRatings) -> dict[str, dict[float, list[int]]]:
  histograms: dict[str, dict[float, list[int]]] = {}
  for number, measure in enumerate(MEASURES):
    counts = [
      collections.Counter(
        # `+ 0.0`: -0.0 and 0.0 are one value.
        values[number] + 0.0
        for key in ratings.keys
        for values in ratings.captions[system, key].ratings.values()
      )
      for system in ratings.systems
    ]
    used = sorted(set().union(*counts), reverse=True)
    histograms[measure] = {value: [of_system[value] for of_system in counts] for value in used}
  return histograms


def _kappas(ratings: ThumbRatings) -> tuple[Kappa, ...]:
  if len(ratings.annotators) > MOST_IN_PAIRS:
    return ()
  captions: dict[tuple[str, str], list[tuple[tuple[float, ...], tuple[float, ...]]]] = {}
  for rated in ratings.captions.values():
    for (first, a), (second, b) in itertools.combinations(sorted(rated.ratings.items()), 2):
      captions.setdefault((first, second), []).append((a, b))
  kappas = []
  for pair, values in sorted(captions.items()):
    for number, measure in enumerate(MEASURES):
      a, b = ([of_caption[side][number] for of_caption in values] for side in (0, 1))
      plain, weighted = (agreement.cohen_kappa(a, b, squared) for squared in (False, True))
      kappas.append(Kappa(*pair, measure, len(values), plain, weighted))
  return tuple(kappas)


def _notes(
  ratings: ThumbRatings, metrics: Sequence[MetricResult], has_agreement: bool, resamples: int, seed: int
) -> list[str]:
  notes = [
    "best: P and R both the highest of all systems on an image, including ties, as in the published counts; "
    "strictly best: both higher than those of every other system; worst: the same for the lowest"
  ]
  if ratings.left_out:
    notes.append(f"{ratings.left_out:,} captions in languages other than {ratings.language} are left out")
  if resamples:
    notes.append(
      f"low, high: bootstrap interval over images, 90% for means and 95% for correlations, {resamples:,} resamples, "
      f"seed {seed}"
    )
  if len(ratings.annotators) > 1:
    notes.append(f"ratings of a caption by several of {len(ratings.annotators)} annotators are averaged")
    notes += fields.alike(ratings.annotators)
    if len(ratings.annotators) > MOST_IN_PAIRS:
      notes.append(f"more than {MOST_IN_PAIRS} annotators: there is no kappa for each pair of them")
    elif not has_agreement:
      notes.append("no two annotators rated the same caption: there is no agreement to measure")
  if metrics:
    notes += correlation.too_few(min(metrics[0].captions.values()), "rated captions")
  notes += correlation.undefined_note(metric.correlations for metric in metrics)
  return [*notes, *(f"signature: {metric.signature}" for metric in metrics)]
