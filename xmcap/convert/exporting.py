"""`xmcap convert --to=hf`: a captioner of ours, or its T5, to folders that transformers loads."""

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from xmcap.convert import hf, hf_t5, hf_vit
from xmcap.convert.detect import is_xmcap
from xmcap.convert.importing import check_free, make_folder
from xmcap.convert.pairs import SAME, TRANSPOSED, Pair, export_outputs
from xmcap.convert.source import T5_PARTS, parameter_shapes
from xmcap.errors import UsageError
from xmcap.models import model_json
from xmcap.tensors.files import Output, Tensor, write_safetensors
from xmcap.training.checkpoints import weights

PROJECTION = "projection.safetensors"
PARTS = ("all", "t5", "vit")


def export(path: str, out: str, part: str | None = None, say: Callable[[str], None] = print) -> None:
  """Writes `t5/`, `vit/` and `projection.safetensors`, or one part into `out` itself.

  Args:
    path: a run's folder, one of its checkpoints, or converted weights.
    out: the new folder.
    part: `t5` or `vit`; None or `all`: everything that is there.
    say: prints a line.

  Raises:
    UsageError: no weights of ours there, a part that is not there, a ViT that transformers has no class for, or
      `out` is taken.
  """
  if part not in (None, *PARTS):
    raise UsageError(f"--part={part}: unknown; use one of {', '.join(PARTS)}")
  place, folder = pathlib.Path(path), pathlib.Path(out)
  if not is_xmcap(place):
    raise UsageError(
      f"{place}: --to=hf takes a run's folder, a checkpoint of one, or weights that xmcap converted"
    )
  given = weights.open_weights(place)
  tensors = weights.one_by_one(given.tensors)
  t5 = {name: tensor for name, tensor in tensors.items() if name.split("/")[0] in T5_PARTS}
  vit = {name: tensor for name, tensor in tensors.items() if name.startswith("vit/")}
  projection = {name: tensor for name, tensor in tensors.items() if name.startswith("projection/")}
  for name in tensors:
    if name not in t5 and name not in vit and name not in projection:
      raise UsageError(
        f"{given.where}: parameter {name} is no part of a captioner: nothing in transformers takes it"
      )
  whole = part in (None, "all") and bool(t5) and bool(vit)
  wanted = (
    {"t5": bool(t5), "vit": bool(vit)}
    if part in (None, "all")
    else {name: name == part for name in ("t5", "vit")}
  )
  for name, tensors in (("t5", t5), ("vit", vit)):
    if part == name and not tensors:
      raise UsageError(f"--part={part}: {given.where} has no {name}; it has {', '.join(given.parts())}")
  model = _read_model(place, given.where)
  # All is checked before anything is written.
  jobs = []
  if wanted["t5"]:
    jobs.append(_t5(model, t5, folder / "t5" if whole else folder, given.where))
  if wanted["vit"]:
    jobs.append(_vit(model, vit, folder / "vit" if whole else folder, given.where))
  for target, *_ in jobs:
    check_free(target, hf.WEIGHTS, hf.CONFIG)
  if whole:
    check_free(folder, PROJECTION)
  for target, what, files, outputs, note in jobs:
    make_folder(target)
    size = write_safetensors(target / hf.WEIGHTS, outputs, {"format": "pt"}, say)
    for name, content in files.items():
      (target / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    say(f"{target}: {size / 1e6:,.1f} MB, {note}")
    # A ViTModel's pooler is none of the captioner's.
    option = ", add_pooling_layer=False" if what == "ViTModel" else ""
    say(f"  transformers.{what}.from_pretrained({str(target)!r}{option})")
  if whole and projection:
    pairs = [
      Pair(("projection/kernel",), ("weight",), TRANSPOSED), Pair(("projection/bias",), ("bias",), SAME)
    ]  # fmt: skip
    shapes = {name: tensor.shape for name, tensor in projection.items()}
    write_safetensors(
      folder / PROJECTION, export_outputs(pairs, projection, shapes, given.where), {"format": "pt"}, say
    )
    say(f"{folder / PROJECTION}: weight and bias of the torch.nn.Linear between them")
  left = [] if part in (None, "all") else [name for name in given.parts() if name not in _parts_of(part)]
  if left:
    say(f"not taken: {', '.join(left)}: --part={part} was asked for")


def _parts_of(part: str) -> tuple[str, ...]:
  return T5_PARTS if part == "t5" else ("vit",)


def _read_model(place: pathlib.Path, where: str) -> model_json.Model:
  """The `model.json` that belongs to the weights: beside them, or in the folder of their run."""
  converted = (place / weights.PARAMS).is_file()
  for folder in (place,) if converted else (place, *place.resolve().parents[:2]):
    if (folder / model_json.NAME).is_file():
      return model_json.read(folder / model_json.NAME)
  raise UsageError(
    f"{where}: no {model_json.NAME} with it, which says what the weights are: copy it too, or have it written anew by"
    " the command that made the weights"
  )


def _config(model: model_json.Model, part: str, where: str) -> Any:
  config = model.config(part)
  if config is None:
    raise UsageError(f"{where}: its {model_json.NAME} says nothing of a {part}")
  return config


def _t5(model: model_json.Model, tensors: Mapping[str, Tensor], folder: pathlib.Path, where: str):
  config = _config(model, "t5", where)
  pairs = hf_t5.t5_pairs(config)
  outputs = export_outputs(pairs, tensors, parameter_shapes(config), where)
  files = {
    hf.CONFIG: hf_t5.write_config(config, _dtype(outputs)),
    "generation_config.json": hf_t5.GENERATION_CONFIG,
  }
  return folder, "MT5ForConditionalGeneration", files, outputs, f"the T5, {len(tensors)} parameters"


def _vit(model: model_json.Model, tensors: Mapping[str, Tensor], folder: pathlib.Path, where: str):
  config = _config(model, "vit", where)
  family = hf_vit.family_of(config)
  if family is None or ("vit/map_head/probe" in tensors) != (config.pool == "map"):
    raise UsageError(
      f"{where}: transformers has no class for a ViT with pool {config.pool!r}, pre_norm {config.pre_norm},"
      f" patch_bias {config.patch_bias}: give --part=t5"
    )
  pairs = hf_vit.vit_pairs(family, config)
  outputs = export_outputs(pairs, tensors, parameter_shapes(config), where)
  values, processor = hf_vit.write_config(family, config, _dtype(outputs))
  note = f"the ViT, {len(tensors)} parameters"
  if config.pool == "gap":
    note += "; its vector is the mean of last_hidden_state"
  return folder, family.model, {hf.CONFIG: values, hf.PROCESSOR: processor}, outputs, note


def _dtype(outputs: list[Output]) -> str:
  names = {str(dtype) for output in outputs for dtype in output.dtypes}
  return names.pop() if len(names) == 1 else "float32"
