"""Keeps the gin configurations of a run: `config.gin` is the newest, `configs/STEP.gin` the one used from STEP on."""

import itertools

from etils import epath

NEWEST = "config.gin"
FOLDER = "configs"


def keep(model_dir: epath.Path, step: int, text: str) -> None:
  """Records the configuration of a run that begins at `step`; one that is unchanged adds no file."""
  newest, folder, data = model_dir / NEWEST, model_dir / FOLDER, text.encode()
  before = newest.read_bytes() if newest.exists() else None
  if before == data and folder.exists():
    return
  if before is not None and not folder.exists():
    write(folder / f"{0:09d}.gin", before)  # an older version kept only the newest
  if before != data:
    # A start that was killed before its first checkpoint has left a file for this step.
    names = itertools.chain([f"{step:09d}.gin"], (f"{step:09d}.{n}.gin" for n in itertools.count(1)))
    write(next(file for name in names if not (file := folder / name).exists()), data)
  write(newest, data)


def write(file: epath.Path, data: bytes) -> None:
  """Writes a file whole or not at all, so that a full disk leaves the old one in place."""
  file.parent.mkdir(parents=True, exist_ok=True)
  part = file.parent / f"{file.name}.part"
  part.write_bytes(data)
  part.replace(file)
