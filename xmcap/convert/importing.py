"""`xmcap convert`: weights of other code bases to a folder of ours."""

import math
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xmcap.convert.pairs import make_outputs
from xmcap.convert.recognise import open_source
from xmcap.convert.source import parameter_shapes
from xmcap.errors import UsageError
from xmcap.models import model_json
from xmcap.models.dual import DualTower
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.storage import whole_files
from xmcap.tensors.files import Output, write_safetensors
from xmcap.training.checkpoints.weights import PARAMS

_OF_A_RUN = ("dropout_rate", "remat", "scan", "dtype")
"""Fields of a configuration that belong to a run, not to the weights."""


def convert(
  path: str,
  out: str,
  format_name: str | None = None,
  pool: str | None = None,
  part: str | None = None,
  image_tower: str | None = None,
  say: Callable[[str], None] = print,
) -> None:
  """Converts into the new folder `out`, and says what was found, what stays behind and what to do next.

  Args:
    path, format_name, pool, image_tower: see `recognise.open_source`.
    out: the folder.
    part: `dual`: both towers of a model that has two, instead of the image tower alone.
    say: prints a line.

  Raises:
    UsageError: the input is not what it claims, or `out` is taken.
    XmcapError: `out` cannot be written.
  """
  folder = pathlib.Path(out)
  check_free(folder, PARAMS)
  if part not in (None, "dual"):
    raise UsageError(f"--part={part}: of weights that come in, dual alone is taken; else leave it out")
  source = open_source(path, format_name, pool, part == "dual", image_tower)
  shapes = {
    name: shape
    for name, shape in parameter_shapes(source.config).items()
    if not name.startswith(tuple(source.absent))
  }
  outputs, dropped = make_outputs(
    source.pairs(shapes), source.tensors, shapes, source.where, source.asked_by, source.may_drop
  )
  dtypes = ", ".join(sorted({str(dtype) for output in outputs for dtype in output.dtypes}))
  taken = len(source.tensors) - len(dropped)
  say(f"{source.where}: {source.kind}, {taken} tensors, {count(outputs):,} parameters, {dtypes}")
  for note in source.notes:
    say(f"note: {note}")
  for line in _dropped_lines(dropped):
    say(f"not taken: {line}")
  for prefix in source.absent:
    say(f"not there: {prefix}: begins fresh in training")
  make_folder(folder)
  configs = _configs(source.config)
  fields: dict[str, Any] = {name: _fields(config) for name, config in configs.items()}
  model = model_json.Model(**fields)
  (folder / model_json.NAME).write_text(model_json.as_text(model), encoding="utf-8")
  size = write_safetensors(folder / PARAMS, outputs, {"format": "xmcap", "source": source.kind}, say)
  say(
    f"{folder / PARAMS}: {len(shapes)} parameters, {size / 1e6:,.1f} MB, each tensor of both sides used once"
  )
  for file in source.beside:
    shutil.copyfile(file, folder / file.name)
    say(f"{folder / file.name}: the tokenizer")
  if "dual" in fields:
    say(
      f"next: xmcap embed --model_dir={folder} --images=DIR --labels=FILE --out=DIR, then xmcap score zero-shot"
    )
    return
  tower = "T5" if "t5" in fields else "ViT"
  say(
    f"next, the {tower} of bb, bg or lg: xmcap train --gin_file=models/bb.gin --gin_file={folder / model_json.NAME} ..."
  )
  say(f"  and --gin.PRETRAINED=\"['{folder}']\" (a list: a ViT's folder and a T5's go together)")


def _configs(config: T5Config | ViTConfig | DualTower) -> dict[str, Any]:
  """The parts of `model.json`."""
  if isinstance(config, DualTower):
    return {"vit": config.vit, "text": config.text, "dual": config.dual}
  return {"t5" if isinstance(config, T5Config) else "vit": config}


def _fields(config: Any) -> dict[str, Any]:
  return model_json.of_config(config, leave_out=tuple(name for name in _OF_A_RUN if hasattr(config, name)))


def check_free(folder: pathlib.Path, *files: str) -> None:
  """Raises UsageError where one of the files to be written is there already."""
  for file in files:
    if (folder / file).exists():
      raise UsageError(f"--out: {folder / file} is there already: remove it, or name another folder")
  if folder.exists() and not folder.is_dir():
    raise UsageError(f"--out={folder}: a file: name a folder")


def make_folder(folder: pathlib.Path) -> None:
  """Makes it, with its parents, and clears what a kill left in it; UsageError if that is impossible."""
  try:
    os.makedirs(folder, exist_ok=True)
  except OSError as error:
    raise UsageError(f"--out={folder}: cannot be made ({error.strerror})") from None
  whole_files.clear(folder)


def count(outputs: Sequence[Output]) -> int:
  """How many numbers are written."""
  return sum(math.prod(shape) for output in outputs for shape in output.shapes)


def _dropped_lines(dropped: Mapping[str, str], most: int = 4) -> list[str]:
  """A line for each reason, with the first few names and how many more there are."""
  lines = []
  for reason in dict.fromkeys(dropped.values()):
    names = [name for name in dropped if dropped[name] == reason]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    lines.append(f"{', '.join(names[:most])}{more}: {reason}")
  return lines
