"""Notes the results of an evaluation beside its checkpoint, as JSON in `checkpoints/STEP/metrics/metrics`.

The note is written when the evaluation has ended, so a checkpoint without one has not been evaluated to the end.
"""

import dataclasses
import json
import math
from collections.abc import Mapping

from etils import epath

from xmcap.training.checkpoints import kept_config, small_json

NAME = "metrics/metrics"  # where Orbax looks for metrics


@dataclasses.dataclass(frozen=True)
class Note:
  """The result that decides whether a checkpoint is the best.

  Attributes:
    metric: `CheckpointPolicy.best_metric`; None also if an older version wrote the note.
    value: of the metric; None also if it was not finite.
    score: the value, negated where a small value is best.
  """

  metric: str | None
  value: float | None
  score: float | None


def write(checkpoint: epath.Path, means: Mapping[str, float], note: Note) -> None:
  """Writes a note with the mean of every metric, whole or not at all."""
  means = {name: float(value) if math.isfinite(value) else None for name, value in means.items()}
  content = {"means": means, **dataclasses.asdict(note)}
  kept_config.write(checkpoint / NAME, json.dumps(content, allow_nan=False).encode())


def read(checkpoint: epath.Path) -> Note | None:
  """Reads the note beside a checkpoint; None if there is none. ValueError if it is damaged."""
  file = checkpoint / NAME
  if not file.exists():
    return None
  content = small_json.read(file)
  metric, value, score = (content.get(name) for name in ("metric", "value", "score"))
  none = value is None and score is None
  if not isinstance(metric, str | None) or not (none or (_is_number(value) and _is_number(score))):
    raise ValueError(f"{file}: no note of an evaluation")
  return Note(metric, value, score)


def _is_number(value: object) -> bool:
  return type(value) in (int, float) and abs(value) < math.inf
