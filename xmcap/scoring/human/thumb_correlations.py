"""Metrics against THumB ratings, caption by caption.

Source: Kasai et al., "Transparent Human Evaluation for Image Captioning" (NAACL 2022), Table 4: the captions of all
systems are pooled, and each caption's score is correlated with its precision, recall and total.
Each system is scored by itself, with the references of all images.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmcap import __version__
from xmcap.errors import UsageError
from xmcap.scoring import files, metrics, tokenizers
from xmcap.scoring.human import correlation, sheets
from xmcap.scoring.human.thumb_ratings import Ratings

TARGETS: tuple[str, ...] = ("P", "R", "total")
"""What scores are correlated with."""

EVERY, WITHOUT_HUMAN = "all systems", "without human"


@dataclasses.dataclass(frozen=True)
class MetricResult:
  """A metric's scores of the rated captions, and their correlations with the ratings.

  Attributes:
    name: of the metric.
    heading: what tables call it.
    format: format specification of its scores.
    signature: everything needed to get the same scores from the same captions.
    scores: system -> score of its captions.
    correlations: `without human`, `all systems` -> coefficient -> what it is with (`TARGETS`) -> coefficient;
      intervals stand at the totals alone.
    captions: as `correlations` -> number of captions.
    removed: how many references were taken away since they equal the human caption of their image.
  """

  name: str
  heading: str
  format: str
  signature: str
  scores: dict[str, float]
  correlations: dict[str, dict[str, dict[str, correlation.Correlation]]]
  captions: dict[str, int]
  removed: int = 0

  def as_json(self) -> dict[str, Any]:
    """Returns everything, correlations with `score`, `low` and `high`."""
    value = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
    return value | {
      "correlations": {
        pool: {
          name: {target: cell.as_json() for target, cell in cells.items()}
          for name, cells in coefficients.items()
        }
        for pool, coefficients in self.correlations.items()
      }
    }


def correlate(
  ratings: Ratings,
  references: Mapping[str, Sequence[str]],
  names: Sequence[str] = ("cider_d",),
  tokenizer: str = "default",
  human: str | None = None,
  drop_identical_references: bool = False,
  resamples: int = 1000,
  seed: int = 0,
) -> tuple[MetricResult, ...]:
  """Scores the rated captions with each metric and correlates the scores with the ratings.

  Intervals hold 95% of the resamples of the images; all captions of an image are drawn together. The scores are
  not computed anew for a resample: document frequencies stay those of all images.

  Args:
    ratings: from `thumb_ratings.read`.
    references: key of an image -> one or more reference captions; each image of `ratings` has some.
    names: of metrics.
    tokenizer: name of a tokeniser; it takes captions of unknown language for English.
    human: the system whose captions people wrote; correlations are then given without it too.
    drop_identical_references: whether the human system is scored without those references that have the same
      words as its caption, which are most likely the very same caption.
    resamples: 0 for no intervals.
    seed: of the resamples.

  Raises:
    UsageError: there is no such metric, tokeniser, language or system; identical references are to be dropped
      without a human system, or an image would keep none.
  """
  names = metrics.parse(",".join(names))
  if human is not None and human not in ratings.systems:
    raise UsageError(f"--human={human}: no rating is of this system; there are: {', '.join(ratings.systems)}")
  if human is not None and len(ratings.systems) == 1:
    raise UsageError(f"--human={human}: it is the only system; without it there is nothing to correlate")
  if drop_identical_references and human is None:
    raise UsageError("--drop_identical_references needs --human=NAME, the system that people wrote")
  language = ratings.language or "en"
  splitter = tokenizers.get(tokenizer, language)
  corpora, removed = _corpora(ratings, references, splitter, human if drop_identical_references else None)
  results = []
  for name in names:
    metric = metrics.METRICS[name]
    statistics = [metric.statistics(corpus) for corpus in corpora]
    count = np.float64(len(ratings.keys))
    scores = [float(metric.aggregate(values.sum(0), count)) for values in statistics]
    image_scores = np.stack([metric.image_scores(values) for values in statistics])
    frequencies = "|df:corpus" if name.startswith("cider") else ""
    dropped = f"|identical_references:dropped({human})" if drop_identical_references else ""
    results.append(
      MetricResult(
        name,
        metric.heading,
        ".1%" if metric.percent else f".{metric.decimals}f",
        f"{name}({metric.signature}){frequencies}|tok:{tokenizer}({splitter.version})|lang:{language}"
        f"|images:{len(ratings.keys)}{dropped}|xmcap:{__version__}",
        dict(zip(ratings.systems, scores, strict=True)),
        _correlations(ratings, image_scores, human, resamples, seed),
        {pool: len(rows) * len(ratings.keys) for pool, rows in _pools(ratings, human).items()},
        removed,
      )
    )
  return tuple(results)


def sheets_of(results: Sequence[MetricResult]) -> list[sheets.Sheet]:
  """Returns a sheet of the metrics' scores and one of their correlations with the ratings."""
  columns = [sheets.Column("system")]
  columns += [sheets.Column(result.name, result.heading, result.format) for result in results]
  rows = tuple((system, *(result.scores[system] for result in results)) for system in results[0].scores)
  scores = sheets.Sheet("thumb_scores", "Scores of the systems", tuple(columns), rows)
  intervals = any(
    cells["total"].low is not None for r in results for c in r.correlations.values() for cells in c.values()
  )
  interval = ("low", "high") if intervals else ()
  columns = [sheets.Column("metric"), sheets.Column("captions_of", "captions of"),
             sheets.Column("n", format=","), sheets.Column("coefficient")]  # fmt: skip
  columns += [sheets.Column(target, format=".2f") for target in (*TARGETS, *interval)]
  rows = tuple(
    (
      result.heading, pool, result.captions[pool], correlation.COEFFICIENTS[name],
      *(cells[target].value for target in TARGETS), *(getattr(cells["total"], end) for end in interval),
    )
    for result in results
    for pool, coefficients in result.correlations.items()
    for name, cells in coefficients.items()
  )  # fmt: skip
  title = "Correlation of the captions' scores with their ratings"
  return [scores, sheets.Sheet("thumb_correlations", title, tuple(columns), rows)]


def _corpora(
  ratings: Ratings,
  references: Mapping[str, Sequence[str]],
  splitter: tokenizers.Tokenizer,
  without_identical: str | None,
) -> tuple[list[metrics.Corpus], int]:
  """Returns a corpus a system, and the number of references taken away."""
  counts = [len(references[key]) for key in ratings.keys]
  words = iter(splitter.tokenize_references([text for key in ratings.keys for text in references[key]]))
  reference_words = [[next(words) for _ in range(count)] for count in counts]
  texts = [ratings.captions[system, key].text for system in ratings.systems for key in ratings.keys]
  words = iter(splitter.tokenize(texts))
  corpora, removed = [], 0
  for system in ratings.systems:
    hypotheses = [next(words) for _ in ratings.keys]
    kept = reference_words
    if system == without_identical:
      kept = [
        [reference for reference in rows if reference != hypothesis]
        for hypothesis, rows in zip(hypotheses, reference_words, strict=True)
      ]
      removed = sum(counts) - sum(map(len, kept))
      emptied = [key for key, rows in zip(ratings.keys, kept, strict=True) if not rows]
      if emptied:
        raise UsageError(
          f"--drop_identical_references: {len(emptied):,} images would keep no reference (the first is "
          f"'{files.shown(emptied[0])}'); score without it"
        )
    corpora.append(metrics.Corpus(hypotheses, kept))
  return corpora, removed


def _pools(ratings: Ratings, human: str | None) -> dict[str, list[int]]:
  """Returns which systems' captions are pooled: rows of the measures."""
  every = list(range(len(ratings.systems)))
  without = [number for number in every if ratings.systems[number] != human]
  return {WITHOUT_HUMAN: without, EVERY: every} if human is not None else {EVERY: every}


def _correlations(ratings: Ratings, scores: np.ndarray, human: str | None, resamples: int, seed: int):
  result = {}
  for pool, rows in _pools(ratings, human).items():
    pooled = scores[rows].ravel()
    images = np.arange(len(pooled)).reshape(len(rows), -1).T
    by_target = {
      target: correlation.correlate(
        pooled, ratings.measures[target][rows].ravel(), images, resamples if target == "total" else 0, seed
      )
      for target in TARGETS
    }
    result[pool] = {
      name: {target: by_target[target][name] for target in TARGETS} for name in correlation.COEFFICIENTS
    }
  return result
