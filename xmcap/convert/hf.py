"""A Hugging Face folder: config.json, model.safetensors or its shards."""

import contextlib
import functools
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap.convert import hf_dual, hf_image_processors, hf_t5, hf_vit, weight_files
from xmcap.convert.source import WeightSource
from xmcap.errors import UsageError, one_line
from xmcap.families.dual import tokenizer_files
from xmcap.files.bucket_paths import epath
from xmcap.files.tensors import Tensor, check_name, is_file_name, read_safetensors
from xmcap.models.vit import POOLS, ViTConfig
from xmcap.terminal import shown
from xmcap.training.checkpoints import small_json

CONFIG, WEIGHTS = "config.json", "model.safetensors"
PROCESSOR = hf_image_processors.PROCESSOR
_ASKS = f"{CONFIG} asks"


def is_folder(path: pathlib.Path) -> bool:
  """Whether a folder looks like one of transformers."""
  return (path / CONFIG).is_file()


def open_dual(path: pathlib.Path) -> WeightSource:
  """Opens both towers in a folder; UsageError for an unknown class, an unsupported variant, or damaged files."""
  config = read_json(path / CONFIG)
  name = hf_dual.MODEL_TYPES.get(str(config.get("model_type")))
  classes = config.get("architectures")
  # Some published files spell MetaCLIP2Model.
  if name is None or (classes is not None and [str(text).lower() for text in classes] != [name.lower()]):
    raise UsageError(f"{path / CONFIG}: no model of two towers: give {', '.join(hf_dual.MODELS)}")
  towers = hf_dual.MODELS[name]
  # transformers 5 renames the layers of AltCLIP's image tower.
  tensors = {name.replace("vision_model.encoder.layer.", "vision_model.encoder.layers."): tensor
             for name, tensor in read_tensors(path).items()}  # fmt: skip
  tokenizer = tokenizer_files.describe(path)
  if path / tokenizer_files.TOKENIZER in tokenizer.files:
    tokenizer_files.read_tokenizer(
      path / tokenizer_files.TOKENIZER
    )  # it is copied even if another file is used
  processor, where = _processor(path)
  with reading_fields(path / CONFIG):
    module = hf_dual.read_config(towers, config, processor, tokenizer, str(path / CONFIG), where)
    assert isinstance(module.vit, ViTConfig)
    pairs = functools.partial(hf_dual.dual_pairs, towers, module.vit, hf_dual.text_values(towers, config))
  absent = () if "logit_bias" in tensors else ("logit_bias",)
  return WeightSource(
    name, str(path), tensors, module, pairs, _ASKS, towers.may_drop, absent, beside=tokenizer.files
  )


def open_folder(path: pathlib.Path, pool: str | None = None) -> WeightSource:
  """Opens the mT5 or the vision tower in a folder; a ViT gets `pool` instead of its own.

  UsageError for an unknown class, an unsupported variant, or damaged files.
  """
  config = read_json(path / CONFIG)
  if "pretrained_cfg" in config:
    name = shown(str(config.get("architecture")), 60)
    raise UsageError(
      f"{path / CONFIG}: {name} of timm, which xmcap does not read: give this ViT of transformers, OpenCLIP or"
      " big_vision"
    )
  classes = config.get("architectures") or []
  if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
    raise UsageError(f"{path / CONFIG}: architectures is no list of names")
  name = next((name for name in classes if name in (*hf_t5.CLASSES, *hf_vit.CLASSES)), None)
  model_type = config.get("model_type")
  if classes and name is None or model_type not in (*hf_t5.DEFAULTS, *hf_vit.MODEL_TYPES):
    supported = ", ".join((*hf_t5.CLASSES, *hf_vit.CLASSES))
    variant = shown(", ".join(classes), 60) if classes else f"model_type {shown(repr(model_type), 60)}"
    raise UsageError(f"{path / CONFIG}: {variant} is not among what xmcap converts: {supported}")
  tensors = read_tensors(path)
  with reading_fields(path / CONFIG):
    if model_type in hf_t5.DEFAULTS:
      return _open_t5(path, config, name or hf_t5.CLASSES[0], tensors)
    return _open_vit(path, config, name, tensors, pool)


@contextlib.contextmanager
def reading_fields(file: pathlib.Path) -> Iterator[None]:
  """Turns the errors of code that reads the fields of a configuration into a UsageError."""
  try:
    yield
  except (KeyError, TypeError, ValueError, AttributeError) as error:
    reason = f"{type(error).__name__}: {one_line(error)}"
    raise UsageError(f"{file}: a field is missing or of another type ({reason})") from None


def _processor(path: pathlib.Path) -> tuple[dict[str, Any], str]:
  """Returns the fields of the image processor, {} if there are none, and the name of their file.

  Processors of transformers 5 write theirs into `processor_config.json`, below `image_processor`.
  """
  own, whole = path / PROCESSOR, path / hf_image_processors.WHOLE_PROCESSOR
  if own.is_file() and (fields := read_json(own)):
    return fields, str(own)
  inside = read_json(whole).get("image_processor") if whole.is_file() else None
  return inside if isinstance(inside, dict) else {}, str(whole)


def _open_t5(
  path: pathlib.Path, settings: Mapping[str, Any], name: str, tensors: Mapping[str, Tensor]
) -> WeightSource:
  where = str(path / CONFIG)
  config, scaled = hf_t5.read_config(settings, where), hf_t5.is_scaled(settings, where)
  embedding = hf_t5.embedding_of(tensors, str(path))
  tied = hf_t5.HEAD not in tensors and embedding in tensors
  # transformers 4 did not tie them, and began new ones.
  if tied and settings["model_type"] == "t5" and not scaled and "scale_decoder_outputs" not in settings:
    raise UsageError(
      f"{path}: no tensor {hf_t5.HEAD}: {CONFIG} says that the logits are not tied to the embedding"
    )
  notes = []
  if tied:
    notes.append(
      f"no {hf_t5.HEAD}: as in transformers the logits begin as the embedding, and are trained apart"
    )
  if scaled:
    notes.append("the logits' factor d_model**-0.5 is part of decoder/logits_dense/kernel")
  pairs = functools.partial(hf_t5.t5_pairs, embedding=embedding, tied=tied, scaled=scaled)
  return WeightSource(name, str(path), tensors, config, pairs, _ASKS, hf_t5.MAY_DROP, notes=notes)


def _open_vit(
  path: pathlib.Path,
  settings: Mapping[str, Any],
  name: str | None,
  tensors: Mapping[str, Tensor],
  pool: str | None,
) -> WeightSource:
  family = hf_vit.CLASSES[name] if name else hf_vit.MODEL_TYPES[settings["model_type"]]
  processor, processor_where = _processor(path)
  config = hf_vit.read_config(family, settings, processor, str(path / CONFIG), processor_where, pool)
  anchors = [name for name in tensors if name.endswith(family.anchor) and not name.startswith("text_model.")]
  if len(anchors) != 1:
    reason = f"tensors {', '.join(anchors)}" if anchors else f"no tensor {family.anchor}"
    raise UsageError(f"{path}: {reason}: not one {family.model}, which {CONFIG} says it is")
  prefix = anchors[0].removesuffix(family.anchor)
  if config.pool == "tok" and not family.token:
    raise UsageError(
      f"--pool=tok: {family.model} has no class token; use one of {', '.join(p for p in POOLS if p != 'tok')}"
    )
  may_drop, absent, without = dict(family.may_drop), [], f"pool {config.pool!r} does without"
  if family.token and config.pool != "tok":
    may_drop[re.escape(prefix + family.token[0])] = f"the class token: {without}"
  if config.pool != "map":
    may_drop[re.escape(f"{prefix}head.") + ".*"] = f"the attention pooling: {without}"
  elif family.pool != "map" or not any(name.startswith(f"{prefix}head.") for name in tensors):
    absent.append("vit/map_head/")
  pairs = functools.partial(hf_vit.vit_pairs, family, config, prefix=prefix)
  source = "" if processor else f"; no {PROCESSOR}: image_mean and image_std are {family.model}'s usual"
  notes = [f"pool {config.pool!r}{source}"]
  if processor:
    how = hf_image_processors.check_size(processor, config.image_size, family.resize, processor_where)
    side = f"{config.image_size} x {config.image_size}"
    if how:
      notes.append(f"pictures are stretched to {side} by a bilinear filter, not as its processor does: {how}")
  return WeightSource(name or family.model, str(path), tensors, config, pairs, _ASKS, may_drop, absent, notes)


def read_tensors(path: pathlib.Path, weights: str = WEIGHTS) -> dict[str, Tensor]:
  """Reads the tensors of a folder from the file `weights`, or from the shards in its index, as `unwrapped` names them.

  UsageError if there are only other weights or none, or if the shards are not those of the index.
  """
  index = path / f"{weights}.index.json"
  if index.is_file():
    tensors = _read_shards(path, index)
  elif (path / weights).is_file():
    tensors = read_safetensors(path / weights)
  else:
    raise UsageError(f"{path}: {weight_files.absent([file.name for file in path.iterdir()], weights)}")
  return weight_files.unwrapped(tensors, str(path))


def _read_shards(path: pathlib.Path, index: pathlib.Path) -> dict[str, Tensor]:
  files = read_json(index).get("weight_map")
  if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
    raise UsageError(f"{index}: no weight_map from names to files")
  for name in files:
    check_name(name, str(index))
  shards = sorted(set(files.values()))
  for shard in shards:
    if not is_file_name(shard):
      raise UsageError(f"{index}: {shard[:80]!r} is no file of this folder: shards lie beside their index")
    if not (path / shard).is_file():
      raise UsageError(f"{index}: the shard {shard} is absent: fetch it too")
  tensors = {}
  for shard in shards:
    stored, names = read_safetensors(path / shard), {name for name in files if files[name] == shard}
    for name in names - stored.keys():
      raise UsageError(f"{path / shard}: no tensor {name}, which {index.name} places there")
    for name in stored.keys() - names:
      raise UsageError(f"{path / shard}: tensor {name} {stored[name].shape} is not in {index.name}")
    tensors |= stored
  return tensors


def read_json(path: pathlib.Path) -> dict[str, Any]:
  """Reads a JSON object from a file; UsageError if there is none."""
  try:
    return small_json.read(epath.Path(path))
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror}): fetch it again") from None
  except ValueError as error:
    raise UsageError(f"{error}: fetch it again") from None
