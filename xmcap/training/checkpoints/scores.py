"""What the evaluation of a checkpoint found, noted beside it: `checkpoints/STEP/metrics/metrics`, JSON.

The checkpoint is written first and the note follows when its evaluation has ended, so a checkpoint without one has not
been evaluated to the end.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from etils import epath

from xmcap.training.checkpoints import small_json

NAME = "metrics/metrics"  # where Orbax would write metrics, and looks for them


@dataclasses.dataclass(frozen=True)
class Note:
  """What is noted beside a checkpoint.

  Attributes:
    metric: name of what the run keeps the best checkpoint by; None: nothing, or the note is of an older version.
    value: of it; None: nothing, or not finite.
    score: the value, or minus the value where the least is best.
  """

  metric: str | None
  value: float | None
  score: float | None


def write(checkpoint: epath.Path, means: Mapping[str, float], note: Note) -> None:
  """Writes a note, whole or not at all.

  Args:
    checkpoint: its folder.
    means: name -> value, all that the evaluators found.
    note: of the one that counts.
  """
  content = {"means": {name: _finite(value) for name, value in means.items()}, **dataclasses.asdict(note)}
  file = checkpoint / NAME
  file.parent.mkdir(exist_ok=True)
  part = file.parent / "metrics.part"
  part.write_text(json.dumps(content, allow_nan=False))
  part.replace(file)


def read(checkpoint: epath.Path) -> Note | None:
  """The note beside a checkpoint; None: there is none.

  Raises:
    ValueError: it is not what was written.
  """
  file = checkpoint / NAME
  if not file.exists():
    return None
  content = small_json.read(file)
  metric, value, score = (content.get(name) for name in ("metric", "value", "score"))
  if not isinstance(metric, str | None) or not all(_is_number(number) for number in (value, score)):
    raise ValueError(f"{file}: no note of an evaluation")
  if (value is None) != (score is None) or abs(value or 0) != abs(score or 0):
    raise ValueError(f"{file}: score {score} is not value {value}")
  return Note(metric, value, score)


def _is_number(value: Any) -> bool:
  return value is None or (type(value) in (int, float) and abs(value) < math.inf)


def _finite(value: float) -> float | None:
  return float(value) if math.isfinite(value) else None
