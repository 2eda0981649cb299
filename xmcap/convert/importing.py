"""`xmcap convert`: converts weights of other code bases into a folder of ours."""

import math
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

from xmcap.convert.pairs import make_outputs
from xmcap.convert.recognise import open_source
from xmcap.errors import UsageError
from xmcap.families.dual import text_input
from xmcap.families.dual.model import DualTower
from xmcap.families.dual.text_tower import TextConfig
from xmcap.files import files, outputs, whole_files
from xmcap.files.tensors import Output, write_safetensors
from xmcap.models import model_json, parts
from xmcap.training.checkpoints.weights import PARAMS

_OF_A_RUN = ("dropout_rate", "remat", "scan", "dtype")
"""Fields of a configuration that belong to a run, not to the weights."""
_MOST_NAMES = 4
"""Names of unused tensors that are printed for one reason."""


def convert(
  path: str,
  out: str,
  format_name: str | None = None,
  pool: str | None = None,
  part: str | None = None,
  image_tower: str | None = None,
) -> None:
  """Converts into the new folder `out`, and prints what was found, what is left out and what to do next.

  Args:
    path, format_name, pool, image_tower: as in `recognise.open_source`.
    out: the folder.
    part: `dual`: both towers of a model that has two, instead of the image tower alone.

  Raises:
    UsageError: the input is not what it claims, or `out` is not free.
    XmcapError: `out` cannot be written.
  """
  folder = pathlib.Path(out)
  check_free(folder, PARAMS, model_json.NAME)
  if part not in (None, "dual"):
    raise UsageError(f"--part={part}: of weights that come in, dual alone is taken; else leave it out")
  source = open_source(path, format_name, pool, part == "dual", image_tower)
  config = source.config
  if isinstance(config, DualTower) and isinstance(config.text, TextConfig) and source.beside:
    text_input.open_pretrained(source.beside[0].parent, config.text)  # refuses what does not fit
  shapes = source.present_shapes()
  made, dropped = make_outputs(
    source.pairs(shapes), source.tensors, shapes, source.where, source.asked_by, source.may_drop
  )
  dtypes = ", ".join(sorted({str(dtype) for output in made for dtype in output.dtypes}))
  taken = len(source.tensors) - len(dropped)
  print(f"{source.where}: {source.kind}, {taken} tensors, {count(made):,} parameters, {dtypes}")
  for note in source.notes:
    print(f"note: {note}")
  for reason in dict.fromkeys(dropped.values()):
    names = [name for name in dropped if dropped[name] == reason]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    print(f"not taken: {', '.join(names[:_MOST_NAMES])}{more}: {reason}")
  for prefix in source.absent:
    print(f"not there: {prefix}: begins fresh in training")
  configs = parts.of_module(config) or {parts.of_config(config) or "": config}
  size = write(folder, configs, made, source.kind)
  print(
    f"{folder / PARAMS}: {len(shapes)} parameters, {size / 1e6:,.1f} MB, each tensor of both sides used once"
  )
  for file in source.beside:
    with files.replacing(folder / file.name) as temporary:
      shutil.copyfile(file, temporary)
    print(f"{folder / file.name}: of the tokenizer")
  if "dual" in configs:
    if text := configs.get("text"):
      print(f"texts: cleaning {text.cleaning!r}, padded with id {text.pad_id}; {model_json.NAME} records it")
    if not source.beside:
      print(
        "note: no tokenizer: put its tokenizer.json, or its SentencePiece model as spiece.model, into --out"
      )
    print(
      f"next: xmcap embed --model_dir={folder} --images=DIR --labels=FILE --out=DIR, then xmcap score zero-shot"
    )
    return
  tower = "T5" if "t5" in configs else "ViT"
  option = f"--gin.PRETRAINED=\"['{folder}']\""
  print(f"next, the {tower} of bb, bg or lg: xmcap train --gin_file=models/bb.gin {option} ...")
  print("  (a list: a ViT's folder and a T5's go together)")
  if tower == "ViT":
    print(f"or frozen, for your own pictures: xmcap features --model_dir={folder} ... (docs/own_data.md)")


def write(folder: pathlib.Path, configs: dict[str, Any], made: Sequence[Output], source: str) -> int:
  """Writes weights and the `model.json` of their configurations {part: configuration} together; returns the bytes."""
  fields = {part: model_json.of_config(config, _OF_A_RUN) for part, config in configs.items()}
  text = model_json.as_text(model_json.Model(fields))
  files.make_folder(folder)
  with outputs.together(folder):
    files.write_text(folder / model_json.NAME, text)
    return write_safetensors(folder / PARAMS, made, {"format": "xmcap", "source": source}, print)


def check_free(folder: pathlib.Path, *names: str) -> None:
  """Raises UsageError if a file that will be written already exists."""
  for name in names:
    if (folder / name).exists():
      raise UsageError(f"--out: {folder / name} is there already: remove it, or name another folder")
  if folder.exists() and not folder.is_dir():
    raise UsageError(f"--out={folder}: a file: name a folder")


def make_folder(folder: pathlib.Path) -> None:
  """Makes a folder, and removes what a killed run left in it; UsageError if that is impossible."""
  files.make_folder(folder)
  whole_files.clear(folder)


def count(made: Sequence[Output]) -> int:
  """Returns how many numbers are written."""
  return sum(math.prod(shape) for output in made for shape in output.shapes)
