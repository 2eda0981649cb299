"""What a captioner's score means beside two trivial captioners, in two sentences and an advice."""

import dataclasses
from collections.abc import Mapping

from xmcap.evaluation.baselines import Measured
from xmcap.scoring import metrics as metrics_lib
from xmcap.scoring.comparing import significance
from xmcap.scoring.comparing.comparison import Difference
from xmcap.scoring.result import Result
from xmcap.scoring.tables import score_table

FEWEST = 20
"""Smallest number of images for a verdict: with fewer, resampling understates how much a score may vary."""

_NEAREST = "nearest picture"
_RESAMPLES = 1000
_MORE_COPIES = 0.1
"""A model copies if its share of captions that are captions of training is larger than people's by this much."""

_ADVICE = "start from a pretrained ViT, or train on many more pictures than {pictures:,}"


def with_notes(result: Result, trivial: Mapping[str, Result], measured: Measured) -> Result:
  """Returns the result with notes in its table that compare the model with copying.

  Args:
    result: the scores of the model.
    trivial: name of the baseline -> its scores, on the same references.
    measured: from `Baselines.measure`.
  """
  names = [_NEAREST, *(name for name in trivial if name != _NEAREST)]
  compared = significance.compare({_NEAREST: trivial[_NEAREST], "model": result}, resamples=_RESAMPLES)
  mean = list(result.table.means)[-1]
  row = next(row for row in compared.rows if row.name == mean)
  scores = {name: trivial[name].table.means[mean][result.table.primary] for name in names}
  images = len({key for of_language in result.statistics.values() for key in of_language.keys})
  notes = [_score(result.table, scores, row, images, measured), *_copies(row, measured)]
  table = dataclasses.replace(result.table, notes=(*result.table.notes, *notes))
  return dataclasses.replace(result, table=table)


def _score(
  table: score_table.Table, scores: Mapping[str, float], row: Difference, images: int, measured: Measured
) -> str:
  def shown(value: float) -> str:
    return table.shown(table.primary, value)

  heading = metrics_lib.METRICS[table.primary].heading
  says = (
    f"{score_table.OF_BASELINES}copying the caption of the {_NEAREST} of train scores {heading}"
    f" {shown(scores[_NEAREST])}, always the most frequent caption"
    f" {shown(scores['most frequent caption'])}, the model {shown(row.score)}"
  )
  interval = (
    f"difference to copying {shown(row.difference)}, 95% interval {shown(row.low)} to {shown(row.high)}"
  )
  advice = _ADVICE.format(pictures=measured.images)
  if images < FEWEST:
    return f"{says}; {images} pictures are too few to tell them apart: hold out more (--splits of xmcap data build)"
  if row.low > 0:
    return f"{says}: better than copying ({interval}, {images:,} pictures)"
  if row.high < 0:
    return f"{says}: worse than copying ({interval}, {images:,} pictures): {advice}"
  return (
    f"{says}: no better than copying, as far as {images:,} pictures tell ({interval}): {advice}, and hold out more"
    " pictures (--splits of xmcap data build) to see a smaller difference"
  )


def _copies(row: Difference, measured: Measured) -> list[str]:
  if measured.copied <= measured.copied_references + _MORE_COPIES:
    return []
  advice = "" if row.low > 0 else "; such a model has usually learned captions, but hardly to see"
  return [
    f"{score_table.OF_BASELINES}{measured.copied:.0%} of the model's captions are captions of train, word for word (of"
    f" the references {measured.copied_references:.0%}){advice}"
  ]
