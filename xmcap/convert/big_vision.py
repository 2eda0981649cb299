"""ViTs of big_vision and of vision_transformer, as .npz: names, both generations, layers one by one or stacked."""

import math
import pathlib
import re
import zipfile
from collections.abc import Mapping

import ml_dtypes
import numpy as np

from xmcap.convert.pairs import (
  LEADING_ONE,
  LEADING_ONES,
  SAME,
  Kind,
  Pair,
  Row,
  expand,
  later_positions,
  reshaped,
  token_and_positions,
)
from xmcap.convert.source import Source, make_config
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.models.vit import ViTConfig
from xmcap.tensors.files import LastRead, Tensor, check_claim, check_name, refuse_pickle
from xmcap.tensors.npy_header import read_header
from xmcap.terminal import shown

_MOST_ARRAYS = 20_000
_ANCHOR = "embedding/kernel"
_STACKED = "Transformer/encoderblock/"
_INLINE_HEAD = ("probe", "MultiHeadDotProductAttention_0/", "LayerNorm_0/", "MlpBlock_0/")

_PARTS = ("attention_norm", "attention", "mlp_norm", "mlp")
# flax numbers a block's parts by their class; the code before big_vision numbered them all together.
_NUMBERINGS = (
  dict(
    zip(_PARTS, ("LayerNorm_0", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0"), strict=True)
  ),
  dict(
    zip(_PARTS, ("LayerNorm_0", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3"), strict=True)
  ),
)


def _norm(ours: str, theirs: str) -> list[Row]:
  return [(f"{ours}/{name}", f"{theirs}/{name}", SAME) for name in ("scale", "bias")]


def _mlp(ours: str, theirs: str) -> list[Row]:
  names = {"wi": "Dense_0", "wo": "Dense_1"}
  return [
    (f"{ours}/{a}/{name}", f"{theirs}/{b}/{name}", SAME)
    for a, b in names.items()
    for name in ("kernel", "bias")
  ]


def _attention(ours: str, theirs: str, heads: int) -> list[Row]:
  """Kernels there are [embed, heads, head_dim], that of `out` [heads, head_dim, embed]; ours are 2-D."""
  into = reshaped(lambda shape: (shape[0], heads, shape[1] // heads))
  out = reshaped(lambda shape: (heads, shape[0] // heads, shape[1]))
  bias = reshaped(lambda shape: (heads, shape[0] // heads))
  rows: list[Row] = []
  for name in ("query", "key", "value"):
    rows += [
      (f"{ours}/{name}/kernel", f"{theirs}/{name}/kernel", into),
      (f"{ours}/{name}/bias", f"{theirs}/{name}/bias", bias),
    ]
  return [
    *rows,
    (f"{ours}/out/kernel", f"{theirs}/out/kernel", out),
    (f"{ours}/out/bias", f"{theirs}/out/bias", SAME),
  ]


def is_file(path: pathlib.Path) -> bool:
  """Whether it looks like an .npz."""
  return path.is_file() and zipfile.is_zipfile(path)


def open_npz(path: pathlib.Path, pool: str | None = None) -> Source:
  """The ViT in a file.

  Args:
    path: the .npz.
    pool: of the model, instead of what the file holds: `map` for an attention pooling, `tok` for a class token,
      else `gap`.

  Raises:
    UsageError: it is no whole .npz of numbers, or holds no such ViT.
  """
  tensors = read_npz(path)
  prefixes = [name.removesuffix(_ANCHOR) for name in tensors if name.endswith(_ANCHOR)]
  # Beside the parameters of a run lie the optimizer's moments, under the same names.
  prefixes = [prefix for prefix in prefixes if not re.search(r"(^|/)(opt/state|opt_state|mu|nu)/", prefix)]
  if len(prefixes) != 1:
    raise UsageError(f"{path}: {len(prefixes)} tensors {_ANCHOR}: not one ViT of big_vision")
  prefix = prefixes[0]
  inside = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
  outside = {name: tensor for name, tensor in tensors.items() if not name.startswith(prefix)}
  inside = _one_by_one(inside)
  found = pool or ("map" if _head(inside) is not None else "tok" if "cls" in inside else "gap")
  config, pairs, may_drop, absent = _model(inside, found, str(path))
  notes = [f"pool {found!r}; pictures in [-1, 1], as big_vision's value_range(-1, 1)"]
  beside = {re.escape(name): "beside the ViT" for name in outside}
  asked_by = "its other shapes ask"
  return Source(
    "ViT of big_vision",
    str(path),
    inside | outside,
    config,
    pairs,
    asked_by,
    may_drop | beside,
    absent,
    notes,
  )


def _head(tensors: Mapping[str, Tensor]) -> str | None:
  """The prefix of the attention pooling, or None."""
  return "MAPHead_0/" if "MAPHead_0/probe" in tensors else "" if "probe" in tensors else None


def _one_by_one(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Stacked layers as layers one by one."""
  last, single = LastRead(), {}
  for name, tensor in tensors.items():
    if not name.startswith(_STACKED) or not tensor.shape:
      single[name] = tensor
      continue
    for n, layer in enumerate(last.slices(name, tensor)):
      single[f"Transformer/encoderblock_{n}/{name.removeprefix(_STACKED)}"] = layer
  return single


def _model(tensors: Mapping[str, Tensor], pool: str, where: str):
  def shape(name: str, rank: int) -> tuple[int, ...]:
    if name not in tensors:
      raise UsageError(f"{where}: no tensor {name}: not a ViT of big_vision with learned positions")
    if len(tensors[name].shape) != rank:
      raise UsageError(f"{where}: tensor {name} has shape {tensors[name].shape}, and a ViT's has {rank} axes")
    return tensors[name].shape

  positions = next(
    (f"{place}pos_embedding" for place in ("", "Transformer/", "Transformer/posembed_input/")
     if f"{place}pos_embedding" in tensors), "pos_embedding",
  )  # fmt: skip
  patch, _, _, width = shape(_ANCHOR, 4)
  _, rows, _ = shape(positions, 3)
  numbers = [re.match(r"Transformer/encoderblock_(\d{1,9})/", name) for name in tensors]
  depth = 1 + max((int(match[1]) for match in numbers if match), default=-1)
  block = "Transformer/encoderblock_0"
  names = next((n for n in _NUMBERINGS if f"{block}/{n['mlp']}/Dense_0/kernel" in tensors), _NUMBERINGS[0])
  _, mlp_dim = shape(f"{block}/{names['mlp']}/Dense_0/kernel", 2)
  _, heads, _ = shape(f"{block}/{names['attention']}/query/kernel", 3)

  side = math.isqrt(rows)
  with_token = side * side != rows and rows > 1 and math.isqrt(rows - 1) ** 2 == rows - 1
  side = math.isqrt(rows - 1) if with_token else side
  if side * side + with_token != rows:
    raise UsageError(f"{where}: tensor {positions} has {rows} positions: no square of patches")
  fields = dict(
    width=width, depth=depth, mlp_dim=mlp_dim, num_heads=heads, patch_size=patch, image_size=side * patch, pool=pool,
    activation="gelu_tanh", norm_epsilon=1e-6,
  )  # fmt: skip
  config = make_config(ViTConfig, where, fields)

  may_drop = {
    r"head/(kernel|bias)": "the classifier",
    r"pre_logits/(kernel|bias)": "the layer before the classifier",
  }
  table: list[Row] = [
    ("patch_embedding/kernel", _ANCHOR, SAME),
    ("patch_embedding/bias", "embedding/bias", SAME),
    *_norm("final_norm", "Transformer/encoder_norm"),
  ]
  as_rows = lambda shape: (1, *shape)  # noqa: E731
  if pool == "tok" and with_token:
    kind: Kind = token_and_positions(lambda token: (1, 1, *token), as_rows)
    table.append((("class_token", "position_embedding"), ("cls", positions), kind))
  else:
    table.append(("position_embedding", positions, later_positions(as_rows) if with_token else LEADING_ONE))
    if pool == "tok":
      table.append(("class_token", "cls", LEADING_ONES))
    else:
      may_drop["cls"] = f"the class token: pool {pool!r} does without"
  head, absent = _head(tensors), []
  if pool == "map" and head is not None:
    table += [
      ("map_head/probe", f"{head}probe", LEADING_ONE),
      *_attention("map_head/attention", f"{head}MultiHeadDotProductAttention_0", heads),
      *_norm("map_head/mlp_norm", f"{head}LayerNorm_0"),
      *_mlp("map_head/mlp", f"{head}MlpBlock_0"),
    ]
  elif pool == "map":
    absent.append("vit/map_head/")
  else:
    may_drop |= {f"{re.escape(name)}.*": f"the attention pooling: pool {pool!r} does without"
                 for name in (("MAPHead_0/",) if head else _INLINE_HEAD if head == "" else ())}  # fmt: skip
  pairs: list[Pair] = expand(table, "vit/")
  layer = [
    *_norm("attention_norm", names["attention_norm"]),
    *_attention("attention", names["attention"], heads),
    *_norm("mlp_norm", names["mlp_norm"]),
    *_mlp("mlp", names["mlp"]),
  ]
  for n in range(depth):
    pairs += expand(layer, f"vit/layers_{n}/", f"Transformer/encoderblock_{n}/")
  return config, pairs, may_drop, absent


# ---- the file ------------------------------------------------------------------------------------


def read_npz(path: pathlib.Path) -> dict[str, Tensor]:
  """{name: tensor} of an .npz; only the arrays' headers are read.

  Raises:
    UsageError: it is a pickle, not a whole zip of arrays, or holds Python objects.
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
  # zipfile, zlib and struct each have their own errors for bytes that are short or wrong.
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
  # numpy does not know bfloat16 and writes its bytes as they are.
  plain = np.dtype(ml_dtypes.bfloat16) if header.dtype.str == "|V2" else header.dtype
  tensors[name] = Tensor(header.shape, plain, _reader(path, info.filename, plain), str(path))


def _reader(path: pathlib.Path, member: str, dtype: np.dtype):
  def read() -> np.ndarray:
    try:
      with zipfile.ZipFile(path) as file, file.open(member) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
    # zlib has its own error for numbers that were damaged.
    except Exception as error:
      raise UsageError(f"{path}: {member} cannot be read ({one_line(error)[:120]}): fetch it again") from None
    return array.view(dtype)

  return read
