"""A Hugging Face folder: config.json, model.safetensors or its shards."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmcap.convert import hf_t5, hf_vit
from xmcap.convert.source import Source
from xmcap.errors import UsageError, one_line
from xmcap.models.vit import POOLS
from xmcap.storage import strict_json
from xmcap.tensors.files import PICKLES, Tensor, check_name, read_safetensors
from xmcap.terminal import shown

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PROCESSOR = hf_vit.PROCESSOR
_LARGEST_JSON = 2**24
"""Bytes. An index has some 100 a tensor."""
_ASKS = f"{CONFIG} asks"


def is_folder(path: pathlib.Path) -> bool:
  """Whether it looks like one."""
  return (path / CONFIG).is_file()


def open_folder(path: pathlib.Path, pool: str | None = None) -> Source:
  """What a folder holds: an mT5 or a vision tower.

  Args:
    path: the folder.
    pool: of a ViT, instead of its own.

  Raises:
    UsageError: of a class that is not known, of a variant that ours is not, or files that are not whole.
  """
  config = read_json(path / CONFIG)
  classes = config.get("architectures") or []
  if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
    raise UsageError(f"{path / CONFIG}: architectures is no list of names")
  name = next((name for name in classes if name in (*hf_t5.CLASSES, *hf_vit.CLASSES)), None)
  model_type = config.get("model_type")
  if classes and name is None or model_type not in (*hf_t5.DEFAULTS, *hf_vit.MODEL_TYPES):
    known = ", ".join((*hf_t5.CLASSES, *hf_vit.CLASSES))
    found = shown(", ".join(classes), 60) if classes else f"model_type {shown(repr(model_type), 60)}"
    raise UsageError(f"{path / CONFIG}: {found} is not among what xmcap converts: {known}")
  tensors = read_tensors(path)
  try:
    if model_type in hf_t5.DEFAULTS:
      return _open_t5(path, config, name or "MT5ForConditionalGeneration", tensors)
    return _open_vit(path, config, name, tensors, pool)
  except (KeyError, TypeError, ValueError, AttributeError) as error:
    reason = f"{type(error).__name__}: {one_line(error)}"
    raise UsageError(f"{path / CONFIG}: a field is missing or of another type ({reason})") from None


def _open_t5(
  path: pathlib.Path, given: Mapping[str, Any], name: str, tensors: Mapping[str, Tensor]
) -> Source:
  config = hf_t5.read_config(given, str(path / CONFIG))
  pairs, notes = hf_t5.pairs_of_file(given, tensors, hf_t5.t5_pairs(config), str(path))
  for copy in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
    if copy in tensors and "shared.weight" in tensors and not _equal(tensors[copy], tensors["shared.weight"]):
      raise UsageError(
        f"{tensors[copy].where}: {copy} differs from shared.weight: xmcap's stacks share one embedding"
      )
  return Source(name, str(path), tensors, config, pairs, _ASKS, hf_t5.MAY_DROP, notes=notes)


def _equal(a: Tensor, b: Tensor) -> bool:
  return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a.read(), b.read())


def _open_vit(
  path: pathlib.Path,
  given: Mapping[str, Any],
  name: str | None,
  tensors: Mapping[str, Tensor],
  pool: str | None,
) -> Source:
  family = hf_vit.CLASSES[name] if name else hf_vit.MODEL_TYPES[given["model_type"]]
  processor = read_json(path / PROCESSOR) if (path / PROCESSOR).is_file() else {}
  config = hf_vit.read_config(family, given, processor, str(path / CONFIG), pool)
  found = [name for name in tensors if name.endswith(family.anchor) and not name.startswith("text_model.")]
  if len(found) != 1:
    what = f"tensors {', '.join(found)}" if found else f"no tensor {family.anchor}"
    raise UsageError(f"{path}: {what}: not one {family.model}, which {CONFIG} says it is")
  prefix = found[0].removesuffix(family.anchor)
  may_drop, absent = dict(family.may_drop), []
  if family.token and config.pool != "tok":
    may_drop[prefix + family.token.replace(".", r"\.")] = (
      f"the class token: pool {config.pool!r} does without"
    )
  if config.pool == "tok" and not family.token:
    raise UsageError(
      f"--pool=tok: {family.model} has no class token; use one of {', '.join(set(POOLS) - {'tok'})}"
    )
  has_head = any(name.startswith(f"{prefix}head.") for name in tensors)
  if config.pool == "map" and not has_head:
    absent.append("vit/map_head/")
  if config.pool != "map":
    may_drop[prefix.replace(".", r"\.") + r"head\..*"] = (
      f"the attention pooling: pool {config.pool!r} does without"
    )
  pairs = [
    pair for pair in hf_vit.vit_pairs(family, config, prefix) if not pair.ours[0].startswith(tuple(absent))
  ]
  source = "" if processor else f"; no {PROCESSOR}: image_mean and image_std are {family.model}'s usual"
  notes = [f"pool {config.pool!r}{source}"]
  return Source(name or family.model, str(path), tensors, config, pairs, _ASKS, may_drop, absent, notes)


def read_tensors(path: pathlib.Path) -> dict[str, Tensor]:
  """The tensors of a folder, of one file or of shards.

  Raises:
    UsageError: pickles only, no weights, shards that do not hold what the index says, a path out of the folder.
  """
  if not (path / INDEX).is_file():
    if (path / WEIGHTS).is_file():
      return read_safetensors(path / WEIGHTS)
    pickles = sorted(file.name for file in path.iterdir() if file.suffix in PICKLES)
    if pickles:
      raise UsageError(
        f"{path / pickles[0]}: a pickle, which can run code when it is read, so xmcap never does: take {WEIGHTS} of"
        " the same model, or write it where the model is trusted (transformers: save_pretrained)"
      )
    raise UsageError(f"{path}: neither {WEIGHTS} nor {INDEX} there")
  places = read_json(path / INDEX).get("weight_map")
  if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
    raise UsageError(f"{path / INDEX}: no weight_map from names to files")
  for name in places:
    check_name(name, str(path / INDEX))
  files = sorted(set(places.values()))
  for file in files:
    plain = file.isprintable() and "\\" not in file and len(file) < 256
    if file in ("", ".", "..") or pathlib.PurePath(file).name != file or not plain:
      raise UsageError(
        f"{path / INDEX}: {file[:80]!r} is no file of this folder: shards lie beside their index"
      )
    if not (path / file).is_file():
      raise UsageError(f"{path / INDEX}: the shard {file} is absent: fetch it too")
  tensors = {}
  for file in files:
    tensors |= _shard(path / file, [name for name, place in places.items() if place == file])
  return tensors


def _shard(file: pathlib.Path, names: list[str]) -> dict[str, Tensor]:
  held = read_safetensors(file)
  for name in names:
    if name not in held:
      raise UsageError(f"{file}: no tensor {name}, which {INDEX} places there")
  for name in held:
    if name not in names:
      raise UsageError(f"{file}: tensor {name} {held[name].shape} is not in {INDEX}")
  return held


def read_json(path: pathlib.Path) -> dict[str, Any]:
  """A JSON object from a file; UsageError if it is none."""
  try:
    with open(path, "rb") as file:
      raw = file.read(_LARGEST_JSON + 1)
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror}): fetch it again") from None
  if len(raw) > _LARGEST_JSON:
    raise UsageError(f"{path}: more than {_LARGEST_JSON:,} bytes of JSON: fetch it again")
  value = strict_json.parse(raw, str(path))
  if not isinstance(value, dict):
    raise UsageError(f"{path}: no JSON object: fetch it again")
  return value
