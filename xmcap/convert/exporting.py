"""`xmcap convert --to=hf`: converts our captioner, or its T5 or ViT, to folders for transformers."""

import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from xmcap.convert import hf, hf_t5, hf_vit
from xmcap.convert.importing import check_free, make_folder
from xmcap.convert.pairs import SAME, TORCH_KERNEL, Pair, Shape, make_outputs
from xmcap.convert.recognise import is_xmcap, place_of
from xmcap.convert.source import parameter_shapes
from xmcap.errors import UsageError
from xmcap.files import files, outputs
from xmcap.files.bucket_paths import epath
from xmcap.files.tensors import Output, Tensor, write_safetensors
from xmcap.models import model_json
from xmcap.models.parts import IMAGE, T5_PARAMS, ImageConfig, width
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.checkpoints import weights

PROJECTION = "projection.safetensors"
PARTS = ("all", "t5", IMAGE)
_PROJECTION = [
  Pair(("projection/kernel",), ("weight",), TORCH_KERNEL),
  Pair(("projection/bias",), ("bias",), SAME),
]


class _Folder(NamedTuple):
  """A folder to write for transformers: the class that loads it, its JSON files, its tensors, a note."""

  model_class: str
  files: Mapping[str, Any]
  outputs: Sequence[Output]
  note: str


def export(
  path: str,
  out: str,
  part: str | None = None,
  weights_of_run: str | None = None,
  say: Callable[[str], None] = print,
) -> None:
  """Writes `t5/`, `vit/` and `projection.safetensors`, or one part, `t5` or `vit`, into `out` itself.

  `path` is a run's folder, one of its checkpoints, or converted weights; `weights_of_run` is as in
  `read.chosen_weights`.

  Raises:
    UsageError: these are not weights of xmcap, a part is missing, transformers has no such ViT, or `out` is not free.
  """
  if part not in (None, *PARTS):
    raise UsageError(f"--part={part}: unknown; use one of {', '.join(PARTS)}")
  place, folder = place_of(path), pathlib.Path(out)
  if not is_xmcap(place):
    raise UsageError(
      f"{path}: --to=hf takes a run's folder, one of its checkpoints, or weights that xmcap converted"
    )
  stored = weights.open_weights(place, weights_of_run)
  if stored.is_ema:
    say(f"weights: {stored.where}")
  model = read_model(place, stored.where)
  write(
    stored.tensors, {"t5": model.config("t5"), IMAGE: model.image_config()}, stored.where, folder, part, say
  )
  taken = {"t5": T5_PARAMS, IMAGE: (IMAGE,)}.get(part or "all", stored.parts())
  if left := [name for name in stored.parts() if name not in taken]:
    say(f"left out because of --part={part}: {', '.join(left)}")


def write(
  tensors: Mapping[str, Tensor],
  configs: Mapping[str, Any],
  where: str,
  folder: pathlib.Path,
  part: str | None = None,
  say: Callable[[str], None] = print,
) -> None:
  """Does the same for stacked parameters {path: tensor} from `where`, and the `configs` of both parts."""
  parts = _split(weights.one_by_one(tensors), where)
  chosen = [name for name in ("t5", IMAGE) if parts[name]] if part in (None, "all") else [part]
  whole = len(chosen) == 2
  # Everything is checked before anything is written.
  folders = {}
  for name in chosen:
    config = configs[name]
    if not parts[name]:
      roots = sorted({path.split("/")[0] for path in tensors})
      raise UsageError(f"--part={name}: {where} has no {name}; it has {', '.join(roots)}")
    if config is None:
      raise UsageError(f"{where}: its {model_json.NAME} does not describe a {name}")
    target = folder / name if whole else folder
    folders[target] = (_t5 if name == "t5" else _vit)(config, parts[name], where)
    check_free(target, hf.WEIGHTS, hf.CONFIG)
  linear = []
  if whole:
    check_free(folder, PROJECTION)
    embed = width(configs["t5"])
    shapes = {"projection/kernel": (width(configs[IMAGE]), embed), "projection/bias": (embed,)}
    linear = _outputs(_PROJECTION, parts["projection"], shapes, where)
  for target, made in folders.items():
    make_folder(target)
    with outputs.together(target):
      size = write_safetensors(target / hf.WEIGHTS, made.outputs, {"format": "pt"}, say)
      for name, content in made.files.items():
        files.write_text(target / name, json.dumps(content, indent=2) + "\n")
    say(f"{target}: {size / 1e6:,.1f} MB, {made.note}")
    # The pooler of a ViTModel is not part of the captioner.
    option = ", add_pooling_layer=False" if made.model_class == "ViTModel" else ""
    say(f"  transformers.{made.model_class}.from_pretrained({str(target)!r}{option})")
  if linear:
    write_safetensors(folder / PROJECTION, linear, {"format": "pt"}, say)
    say(f"{folder / PROJECTION}: weight and bias of the torch.nn.Linear between them")


def _split(tensors: Mapping[str, Tensor], where: str) -> dict[str, dict[str, Tensor]]:
  """Returns the parameters of `t5`, `vit` and `projection`."""
  parts: dict[str, dict[str, Tensor]] = {"t5": {}, IMAGE: {}, "projection": {}}
  for name, tensor in tensors.items():
    first = name.split("/")[0]
    part = "t5" if first in T5_PARAMS else first
    if part not in parts or part == name:
      raise UsageError(
        f"{where}: parameter {name} is not part of a captioner, so transformers has no class for it"
      )
    parts[part][name] = tensor
  return parts


def read_model(place: pathlib.Path | epath.Path, where: str) -> model_json.Model:
  """Reads the `model.json` beside the weights at `place`, or in the folder of their run; UsageError without one."""
  converted = (place / weights.PARAMS).is_file()
  for folder in (place,) if converted else (place, *place.resolve().parents[:2]):
    if (folder / model_json.NAME).is_file():
      return model_json.read(folder / model_json.NAME)
  raise UsageError(
    f"{where}: {model_json.NAME}, which describes the weights, is missing: copy it too, or write it again with the"
    " command that made the weights"
  )


def _outputs(
  pairs: Sequence[Pair], tensors: Mapping[str, Tensor], shapes: Mapping[str, Shape], where: str
) -> list[Output]:
  return make_outputs(pairs, tensors, shapes, where, "its configuration asks", export=True)[0]


def _t5(config: T5Config, tensors: Mapping[str, Tensor], where: str) -> _Folder:
  shapes = parameter_shapes(config)
  outputs = _outputs(hf_t5.t5_pairs(shapes), tensors, shapes, where)
  files = {
    hf.CONFIG: hf_t5.write_config(config, _dtype(outputs)),
    "generation_config.json": hf_t5.GENERATION_CONFIG,
  }
  return _Folder("MT5ForConditionalGeneration", files, outputs, f"the T5, {len(tensors)} parameters")


def _vit(config: ImageConfig, tensors: Mapping[str, Tensor], where: str) -> _Folder:
  if not isinstance(config, ViTConfig):
    raise UsageError(
      f"{where}: its image tower is no ViT, which alone is written for transformers: give --part=t5"
    )
  family = hf_vit.family_of(config)
  if family is None or ("vit/map_head/probe" in tensors) != (config.pool == "map"):
    raise UsageError(
      f"{where}: transformers has no class for a ViT with pool {config.pool!r}, pre_norm {config.pre_norm},"
      f" patch_bias {config.patch_bias}: give --part=t5"
    )
  shapes = parameter_shapes(config)
  outputs = _outputs(hf_vit.vit_pairs(family, config, shapes), tensors, shapes, where)
  values, processor = hf_vit.write_config(family, config, _dtype(outputs))
  note = f"the ViT, {len(tensors)} parameters"
  if config.pool == "gap":
    note += "; its vector is the mean of last_hidden_state"
  return _Folder(family.model, {hf.CONFIG: values, hf.PROCESSOR: processor}, outputs, note)


def _dtype(outputs: Sequence[Output]) -> str:
  names = {str(dtype) for output in outputs for dtype in output.dtypes}
  return names.pop() if len(names) == 1 else "float32"
