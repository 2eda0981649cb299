"""The configurations of a run as text: `config.gin` is the newest, and `configs/STEP.gin` holds each.

STEP is the one from which on the run was trained with it. A start with the same configuration adds nothing.
"""

import itertools

from etils import epath

NEWEST = "config.gin"
FOLDER = "configs"


def keep(model_dir: epath.Path, step: int, text: str) -> None:
  """Notes the configuration of a start.

  Args:
    model_dir: the run's folder, which is there.
    step: that the run goes on from.
    text: the configuration, as gin reads it.

  Raises:
    OSError: it cannot be written.
  """
  newest, folder, data = model_dir / NEWEST, model_dir / FOLDER, text.encode()
  before = newest.read_bytes() if newest.exists() else None
  if before == data and folder.exists():
    return
  if before is not None and not folder.exists():
    write(folder / _name(0), before)  # of an older version, which kept one
  if before != data:
    # Each that trained nothing, as its run was killed too soon, is kept as well.
    names = (_name(step, number) for number in itertools.count())
    write(next(file for name in names if not (file := folder / name).exists()), data)
  write(newest, data)


def _name(step: int, number: int = 0) -> str:
  return f"{step:09d}.{number}.gin" if number else f"{step:09d}.gin"


def write(file: epath.Path, data: bytes) -> None:
  """Writes a file, whole or not at all: on a full disk the one before stays."""
  file.parent.mkdir(parents=True, exist_ok=True)
  part = file.parent / f"{file.name}.part"
  part.write_bytes(data)
  part.replace(file)
