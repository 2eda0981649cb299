"""ViTs of big_vision and of vision_transformer, as .npz: either numbering of names, layers one by one or stacked."""

import dataclasses
import math
import pathlib
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from xmcap.convert.pairs import (
  SAME,
  Leaf,
  Pair,
  WeightKind,
  layer_modules,
  leading_ones,
  module_pairs,
  position_pairs,
  reshaped,
)
from xmcap.convert.source import WeightSource, count_layers, make_config, shape_of
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files.npy_header import read_header
from xmcap.files.tensors import LastRead, Tensor, check_claim, check_name, refuse_pickle
from xmcap.models.vit import ViTConfig
from xmcap.terminal import shown

PICTURES = "pictures in [-1, 1], as big_vision's value_range(-1, 1)"
_KIND = "ViT of big_vision with learned positions"
_MOST_ARRAYS = 20_000
_ANCHOR = "embedding/kernel"
_BLOCK = "Transformer/encoderblock"
_POSITIONS = tuple(f"{folder}pos_embedding" for folder in ("", "Transformer/", "Transformer/posembed_input/"))
_INLINE_HEAD = ("probe", "MultiHeadDotProductAttention_0/", "LayerNorm_0/", "MlpBlock_0/")
_NUMBERINGS = (
  # Names of attention_norm, attention, mlp_norm and mlp. big_vision numbers the parts of a block by their class, the
  # code before it numbered all parts together.
  ("LayerNorm_0", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0"),
  ("LayerNorm_0", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3"),
)


def is_file(path: pathlib.Path) -> bool:
  """Whether a file looks like an .npz."""
  return path.is_file() and zipfile.is_zipfile(path)


def open_npz(path: pathlib.Path, pool: str | None = None) -> WeightSource:
  """Opens the ViT in a file; UsageError if the file is not a complete .npz of numbers, or holds no such ViT.

  `pool` replaces the pooling that the file has: `map`, `tok` if there is a class token, else `gap`.
  """
  tensors = read_npz(path)
  prefix = find_prefix(tensors, _ANCHOR, path)
  source = find_vit(below(tensors, prefix), pool, str(path))
  outside = {name: tensors[name] for name in tensors if not name.startswith(prefix)}
  may_drop = {
    **source.may_drop,
    r"head/(kernel|bias)": "the classifier",
    **{re.escape(name): "beside the ViT" for name in outside},
  }
  return dataclasses.replace(source, tensors={**source.tensors, **outside}, may_drop=may_drop)


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
  """Returns the tensors whose names begin with a prefix, without it."""
  return {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}


def find_prefix(tensors: Mapping[str, Tensor], anchor: str, path: pathlib.Path) -> str:
  """Returns the prefix of the only parameter named PREFIX + `anchor`; UsageError if there is none or several."""
  prefixes = [name.removesuffix(anchor) for name in tensors if name.endswith(anchor)]
  # The optimizer's moments have the same names as the parameters.
  prefixes = [prefix for prefix in prefixes if not re.search(r"(^|/)(opt/state|opt_state|mu|nu)/", prefix)]
  if len(prefixes) != 1:
    raise UsageError(f"{path}: {len(prefixes)} tensors {anchor}: not one ViT of big_vision")
  return prefixes[0]


def find_vit(tensors: Mapping[str, Tensor], pool: str | None, where: str) -> WeightSource:
  """Returns the ViT with these tensors, whose names have no prefix.

  UsageError if they are another model's, or their sizes do not match.
  """
  tensors = one_by_one(tensors, _BLOCK)
  head = "MAPHead_0/" if "MAPHead_0/probe" in tensors else "" if "probe" in tensors else None
  pool = pool or ("map" if head is not None else "tok" if "cls" in tensors else "gap")
  positions = next((name for name in _POSITIONS if name in tensors), _POSITIONS[0])
  parts = numbering(tensors, _BLOCK)
  config = _config(tensors, positions, parts, pool, where)
  without = f"pool {pool!r} does without"
  may_drop = {r"pre_logits/(kernel|bias)": "the layer before the classifier"}
  if pool != "tok":
    may_drop["cls"] = f"the class token: {without}"
  if pool != "map" and head is not None:
    names = [head] if head else _INLINE_HEAD
    may_drop |= {f"{re.escape(name)}.*": f"the attention pooling: {without}" for name in names}

  def pairs(paths: Iterable[str]) -> list[Pair]:
    with_token = config.num_patches < tensors[positions].shape[1]
    others = position_pairs(pool, (positions, 1), ("cls", 2), with_token)
    if "vit/map_head/probe" in paths:
      others.append(Pair(("vit/map_head/probe",), (f"{head}probe",), leading_ones(1)))
    modules = {"patch_embedding": "embedding", "final_norm": "Transformer/encoder_norm"}
    modules |= block_modules("layers_{n}", [f"{_BLOCK}_{{n}}/{part}" for part in parts])
    pooling = ("MultiHeadDotProductAttention_0", "LayerNorm_0", "MlpBlock_0")
    modules |= block_modules("map_head", ["", *(f"{head or ''}{part}" for part in pooling)])
    return module_pairs(paths, modules, "vit/", others, leaf(config.num_heads))

  return WeightSource(
    "ViT of big_vision",
    where,
    tensors,
    config,
    pairs,
    "its other shapes ask",
    may_drop,
    absent=["vit/map_head/"] if pool == "map" and head is None else [],
    notes=[
      f"pool {pool!r}; {PICTURES} of {config.image_size} x {config.image_size}, as its patches need at least"
    ],
  )


def one_by_one(tensors: Mapping[str, Tensor], block: str) -> dict[str, Tensor]:
  """Splits stacked layers, `BLOCK/NAME`, into `BLOCK_0/NAME` and so on; returns all other tensors as they are."""
  last, single = LastRead(), {}
  for name, tensor in tensors.items():
    if name.startswith(f"{block}/") and tensor.shape:
      for n, layer in enumerate(last.slices(name, tensor)):
        single[f"{block}_{n}/{name.removeprefix(f'{block}/')}"] = layer
    else:
      single[name] = tensor
  return single


def _config(
  tensors: Mapping[str, Tensor], positions: str, parts: Sequence[str], pool: str, where: str
) -> ViTConfig:
  def shape(name: str, rank: int) -> tuple[int, ...]:
    return shape_of(tensors, name, rank, where, _KIND)

  patch, _, _, width = shape(_ANCHOR, 4)
  _, rows, _ = shape(positions, 3)
  _, attention, _, mlp = parts
  _, mlp_dim = shape(f"{_BLOCK}_0/{mlp}/Dense_0/kernel", 2)
  _, heads, _ = shape(f"{_BLOCK}_0/{attention}/query/kernel", 3)
  with_token = math.isqrt(rows) ** 2 != rows and math.isqrt(max(rows - 1, 0)) ** 2 == rows - 1
  side = math.isqrt(rows - with_token)
  if side * side + with_token != rows:
    raise UsageError(f"{where}: tensor {positions} has {rows} positions: no square of patches")
  fields = dict(
    width=width, depth=count_layers(tensors, f"{_BLOCK}_"), mlp_dim=mlp_dim, num_heads=heads, patch_size=patch,
    image_size=side * patch, pool=pool, activation="gelu_tanh", norm_epsilon=1e-6,
  )  # fmt: skip
  return make_config(ViTConfig, where, fields)


def numbering(tensors: Mapping[str, Tensor], block: str) -> tuple[str, ...]:
  """Returns the names of attention_norm, attention, mlp_norm and mlp in a block."""
  matching = (names for names in _NUMBERINGS if f"{block}_0/{names[-1]}/Dense_0/kernel" in tensors)
  return next(matching, _NUMBERINGS[0])


def block_modules(ours: str, parts: Sequence[str]) -> dict[str, str]:
  """Returns our modules of a block -> theirs, whose parts are given in the order of `numbering`."""
  attention_norm, attention, mlp_norm, mlp = parts
  projections = layer_modules(f"{attention}/", ours, query="query", key="key", value="value", out="out")
  dense = layer_modules(f"{mlp}/", ours, wi="Dense_0", wo="Dense_1")
  return projections | dense | {f"{ours}/attention_norm": attention_norm, f"{ours}/mlp_norm": mlp_norm}


def leaf(heads: int) -> Leaf:
  """Returns the `Leaf` of big_vision: its attention has an axis of heads, which in ours is joined with head_dim."""
  kernel = reshaped(lambda shape: (shape[0], heads, shape[1] // heads))
  bias = reshaped(lambda shape: (heads, shape[0] // heads))
  out = reshaped(lambda shape: (heads, shape[0] // heads, shape[1]))

  def leaf_of(module: str, name: str) -> tuple[str, WeightKind]:
    kind = SAME
    if module.endswith("/attention/out"):
      kind = out if name == "kernel" else SAME
    elif "/attention/" in module:
      kind = kernel if name == "kernel" else bias
    return f"/{name}", kind

  return leaf_of


def read_npz(path: pathlib.Path) -> dict[str, Tensor]:
  """Returns {name: tensor} of an .npz, of which it reads only the headers.

  UsageError if the file is a pickle, not a complete zip of arrays, or holds Python objects.
  """
  refuse_pickle(path)
  tensors = {}
  try:
    with zipfile.ZipFile(path) as file:
      members = file.infolist()
      if len(members) > _MOST_ARRAYS:
        raise UsageError(f"{path}: {len(members):,} arrays; xmcap reads {_MOST_ARRAYS:,} at most")
      check_claim(sum(info.file_size for info in members), path.stat().st_size, str(path))
      for info in members:
        _add(tensors, path, file, info)
  except XmcapError:
    raise
  # zipfile, zlib and struct each raise their own errors for missing or wrong bytes.
  except Exception as error:
    raise UsageError(f"{path}: not a whole .npz ({one_line(error)[:120]}): fetch or copy it again") from None
  return tensors


def _add(
  tensors: dict[str, Tensor], path: pathlib.Path, file: zipfile.ZipFile, info: zipfile.ZipInfo
) -> None:
  if not info.filename.endswith(".npy"):
    raise UsageError(f"{path}: {shown(repr(info.filename), 80)} is no array: not an .npz")
  name = check_name(info.filename.removesuffix(".npy"), str(path))
  if name in tensors:
    raise UsageError(f"{path}: {name} is there twice: fetch or copy it again")
  if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
    raise UsageError(f"{path}: {name} is compressed in another way than numpy does it: save it with np.savez")
  with file.open(info) as member:
    header = read_header(member, info.file_size, f"{path}: {name}")
  dtype = header.dtype.newbyteorder("=")

  def read() -> np.ndarray:
    try:
      with zipfile.ZipFile(path) as file, file.open(info) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
    # zlib raises its own error for damaged bytes.
    except Exception as error:
      raise UsageError(f"{path}: {name} cannot be read ({one_line(error)[:120]}): fetch it again") from None
    return array.view(header.dtype).astype(dtype, copy=False)

  tensors[name] = Tensor(header.shape, dtype, read, str(path))
