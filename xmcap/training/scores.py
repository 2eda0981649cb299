"""What the evaluation of a checkpoint found, noted beside it: `checkpoints/STEP/metrics/metrics`, JSON.

The checkpoint is written first and the note follows when its evaluation has ended, so a checkpoint without one has not
been evaluated to the end.
"""

import dataclasses
import json
import math
from collections.abc import Mapping

from etils import epath

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
  content = json.loads(file.read_text())
  if not isinstance(content, dict):
    raise ValueError(f"{file}: not a JSON object")
  note = Note(content.get("metric"), content.get("value"), content.get("score"))
  if (note.value is None) != (note.score is None) or abs(note.value or 0) != abs(note.score or 0):
    raise ValueError(f"{file}: score {note.score} is not value {note.value}")
  return note


def _finite(value: float) -> float | None:
  return float(value) if math.isfinite(value) else None
