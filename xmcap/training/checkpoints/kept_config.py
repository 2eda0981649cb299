"""Keeps the gin configurations of a run: `config.gin` is the newest, `configs/STEP.gin` the one used from STEP on."""

import itertools

from xmcap.files.bucket_paths import epath
from xmcap.files.files import write_anywhere

NEWEST = "config.gin"
FOLDER = "configs"


def keep(model_dir: epath.Path, step: int, text: str) -> None:
  """Records the configuration of a run that begins at `step`; an unchanged one adds no file."""
  newest, folder, data = model_dir / NEWEST, model_dir / FOLDER, text.encode()
  before = newest.read_bytes() if newest.exists() else None
  if before == data:
    return
  # A run that was killed before its next checkpoint may have left a file for this step.
  names = itertools.chain([f"{step:09d}.gin"], (f"{step:09d}.{n}.gin" for n in itertools.count(1)))
  write_anywhere(next(file for name in names if not (file := folder / name).exists()), data)
  write_anywhere(newest, data)
