"""Text towers that were taught to follow a CLIP, with the image tower of that CLIP.

M-CLIP's (Carlsson et al., 2022) and those of sentence-transformers: an encoder of transformers, the mean of its tokens,
and a linear layer.
"""

import dataclasses
import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from xmcap.convert import hf, hf_text
from xmcap.convert.pairs import Pair, below, module_pairs
from xmcap.convert.source import WeightSource
from xmcap.errors import UsageError
from xmcap.families.dual.model import DualTower
from xmcap.families.dual.text_tower import TextConfig
from xmcap.families.dual.tokenizer_files import describe
from xmcap.files import strict_json
from xmcap.files.tensors import Tensor, is_file_name
from xmcap.terminal import shown

_MODULES = "modules.json"
_M_CLIP_TYPE, _M_CLIP_PREFIX, _M_CLIP_HEAD = "M-CLIP", "transformer.", "LinearTransformation"
_LARGEST = 2**20  # bytes of modules.json, which has some hundreds
_DENSE = "dense/"  # before the names of the tensors of a Dense
_IMAGE = "image_tower/"
_IMAGE_PARTS = ("vit/", "image_head/", "logit_scale", "logit_bias")


class _Text(NamedTuple):
  """A text tower: its tensors, the prefix of its encoder and the module of its head there, "" if it has none."""

  tensors: Mapping[str, Tensor]
  prefix: str
  head: str
  config: TextConfig
  folder: pathlib.Path


def is_folder(path: pathlib.Path) -> bool:
  """Whether a folder looks like such a text tower."""
  if (path / _MODULES).is_file():
    return True
  return hf.is_folder(path) and hf.read_json(path / hf.CONFIG).get("model_type") == _M_CLIP_TYPE


def open_pair(path: pathlib.Path, images: WeightSource) -> WeightSource:
  """Opens the text tower in a folder and the image tower of a CLIP as one model.

  UsageError if there is no such text tower, our tower does not support it, or the two do not share a space.
  """
  if not is_folder(path):
    raise UsageError(f"{path}: --image_tower goes with a text tower of M-CLIP or of sentence-transformers")
  with hf.reading_fields(path / hf.CONFIG):
    text = _open_sentence_transformer(path) if (path / _MODULES).is_file() else _open_m_clip(path)
  other = images.config
  assert isinstance(other, DualTower)
  kernel = text.tensors.get(f"{text.head}.weight")
  width = kernel.shape[0] if kernel is not None and kernel.shape else text.config.width
  if width != other.dual.embed_dim:
    raise UsageError(
      f"{path}: its texts are {width} numbers wide, the pictures of {images.where} {other.dual.embed_dim}: name the"
      " CLIP that it was taught by"
    )
  head = "none" if not text.head else "linear_bias" if f"{text.head}.bias" in text.tensors else "linear"
  dual = dataclasses.replace(other.dual, text_head=head)
  encoder = hf_text.recognise(text.tensors, text.prefix, str(path))
  # The image tower comes without the texts of its own.
  theirs = images.pairs(images.present_shapes())
  of_images = [pair for pair in theirs if pair.ours[0].startswith(_IMAGE_PARTS)]
  left = [name for pair in theirs if pair not in of_images for name in pair.theirs]

  def pairs(paths: Collection[str]) -> list[Pair]:
    others = below(_IMAGE, of_images) + hf_text.encoder_pairs(encoder, text.tensors, text.prefix, paths)
    return module_pairs(paths, {"text_head": text.head}, others=others)

  return WeightSource(
    f"{encoder.name} and the image tower of {images.kind}",
    str(path),
    {**text.tensors, **{_IMAGE + name: tensor for name, tensor in images.tensors.items()}},
    dataclasses.replace(other, text=text.config, dual=dual),
    pairs,
    f"{hf.CONFIG} asks",
    hf_text.may_drop(encoder, text.prefix)
    | {_IMAGE + re.escape(name): "the text tower of --image_tower" for name in left}
    | {_IMAGE + rule: reason for rule, reason in images.may_drop.items()},
    absent=images.absent,
    beside=describe(text.folder).files,
  )


def _open_m_clip(path: pathlib.Path) -> _Text:
  tensors = hf.read_tensors(path)
  encoder = hf_text.recognise(tensors, _M_CLIP_PREFIX, str(path))
  config = hf_text.read_config(encoder, tensors, _M_CLIP_PREFIX, str(path / hf.CONFIG), "mean", None, {})
  return _Text(tensors, _M_CLIP_PREFIX, _M_CLIP_HEAD, config, path)


def _open_sentence_transformer(path: pathlib.Path) -> _Text:
  modules = _read_modules(path / _MODULES)
  kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
  folders = [str(module["path"]) for module in modules]
  if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Dense"]) or any(
    folder and not is_file_name(folder) for folder in folders
  ):
    raise UsageError(
      f"{path / _MODULES}: {shown(', '.join(kinds), 80)}: xmcap has Transformer, Pooling and Dense"
    )
  pooling = hf.read_json(path / folders[1] / hf.CONFIG)
  if [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value] != [
    "pooling_mode_mean_tokens"
  ]:
    raise UsageError(f"{path / folders[1] / hf.CONFIG}: xmcap has pooling_mode_mean_tokens alone")
  place = path / folders[0]
  settings, where = hf.read_json(place / hf.CONFIG), str(place / hf.CONFIG)
  activation = settings.get("activation", settings.get("hidden_act", "gelu"))
  if activation != "gelu":
    raise UsageError(
      f"{where}: the activation is {shown(repr(activation), 40)}; xmcap has gelu for these encoders"
    )
  tensors, head = dict(hf.read_tensors(place)), ""
  encoder = hf_text.recognise(tensors, "", where)
  limits = place / "sentence_bert_config.json"
  most = hf.read_json(limits).get("max_seq_length") if limits.is_file() else None
  config = hf_text.read_config(encoder, tensors, "", where, "mean", most, settings)
  if len(kinds) == 3:
    dense = hf.read_json(path / folders[2] / hf.CONFIG)
    if not str(dense.get("activation_function")).endswith(".Identity"):
      raise UsageError(
        f"{path / folders[2] / hf.CONFIG}: an activation after the linear layer, which xmcap's has not"
      )
    tensors |= {_DENSE + name: tensor for name, tensor in hf.read_tensors(path / folders[2]).items()}
    head = f"{_DENSE}linear"
  return _Text(tensors, "", head, config, place)


def _read_modules(file: pathlib.Path) -> list[Mapping[str, Any]]:
  try:
    modules = strict_json.parse(file.read_bytes(), str(file)) if file.stat().st_size <= _LARGEST else None
  except OSError as error:
    raise UsageError(f"{file}: cannot be read ({error.strerror}): fetch it again") from None
  if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
    raise UsageError(f"{file}: no list of modules of sentence-transformers")
  return modules
