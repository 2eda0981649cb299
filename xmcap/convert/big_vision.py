"""ViTs of big_vision and of vision_transformer, as .npz: either numbering of names, layers one by one or stacked."""

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
_BLOCK = "Transformer/encoderblock"
_INLINE_HEAD = ("probe", "MultiHeadDotProductAttention_0/", "LayerNorm_0/", "MlpBlock_0/")
_PARTS = ("attention_norm", "attention", "mlp_norm", "mlp")
_NUMBERINGS = (
  # big_vision numbers a block's parts by their class, the code before it numbered them all together.
  ("LayerNorm_0", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0"),
  ("LayerNorm_0", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3"),
)


def is_file(path: pathlib.Path) -> bool:
  """Whether it looks like an .npz."""
  return path.is_file() and zipfile.is_zipfile(path)


def open_npz(path: pathlib.Path, pool: str | None = None) -> Source:
  """The ViT in a file.

  Args:
    path: the .npz.
    pool: of our model, instead of what the file holds: `map` for an attention pooling, `tok` for a class token, else
      `gap`.

  Raises:
    UsageError: it is no whole .npz of numbers, or holds no such ViT.
  """
  tensors = read_npz(path)
  prefixes = [name.removesuffix(_ANCHOR) for name in tensors if name.endswith(_ANCHOR)]
  # The optimizer's moments have the same names as the parameters.
  prefixes = [prefix for prefix in prefixes if not re.search(r"(^|/)(opt/state|opt_state|mu|nu)/", prefix)]
  if len(prefixes) != 1:
    raise UsageError(f"{path}: {len(prefixes)} tensors {_ANCHOR}: not one ViT of big_vision")
  prefix = prefixes[0]
  inside = {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
  outside = {name: tensors[name] for name in tensors if not name.startswith(prefix)}
  inside = _one_by_one(inside)
  head = "MAPHead_0/" if "MAPHead_0/probe" in inside else "" if "probe" in inside else None
  pool = pool or ("map" if head is not None else "tok" if "cls" in inside else "gap")
  config, pairs, may_drop, absent = _model(inside, pool, head, str(path))
  may_drop |= {re.escape(name): "beside the ViT" for name in outside}
  notes = [f"pool {pool!r}; pictures in [-1, 1], as big_vision's value_range(-1, 1)"]
  return Source(
    "ViT of big_vision",
    str(path),
    inside | outside,
    config,
    pairs,
    "its other shapes ask",
    may_drop,
    absent,
    notes,
  )


def _one_by_one(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  last, single = LastRead(), {}
  for name, tensor in tensors.items():
    if name.startswith(f"{_BLOCK}/") and tensor.shape:
      for n, layer in enumerate(last.slices(name, tensor)):
        single[f"{_BLOCK}_{n}/{name.removeprefix(f'{_BLOCK}/')}"] = layer
    else:
      single[name] = tensor
  return single


def _model(
  tensors: Mapping[str, Tensor], pool: str, head: str | None, where: str
) -> tuple[ViTConfig, list[Pair], dict[str, str], list[str]]:
  """Configuration, pairs, `may_drop` and `absent` of a `Source`; `head` is the prefix of the attention pooling."""

  def shape(name: str, rank: int) -> tuple[int, ...]:
    if name not in tensors:
      raise UsageError(f"{where}: no tensor {name}: not a ViT of big_vision with learned positions")
    if len(tensors[name].shape) != rank:
      raise UsageError(f"{where}: tensor {name} has shape {tensors[name].shape}, and a ViT's has {rank} axes")
    return tensors[name].shape

  folders = ("", "Transformer/", "Transformer/posembed_input/")
  positions = next(
    (name for folder in folders if (name := f"{folder}pos_embedding") in tensors), "pos_embedding"
  )
  patch, _, _, width = shape(_ANCHOR, 4)
  _, rows, _ = shape(positions, 3)
  numbers = [re.match(rf"{_BLOCK}_(\d{{1,9}})/", name) for name in tensors]
  depth = 1 + max((int(match[1]) for match in numbers if match), default=-1)
  parts = next(
    (names for names in _NUMBERINGS if f"{_BLOCK}_0/{names[-1]}/Dense_0/kernel" in tensors), _NUMBERINGS[0]
  )
  parts = dict(zip(_PARTS, parts, strict=True))
  _, mlp_dim = shape(f"{_BLOCK}_0/{parts['mlp']}/Dense_0/kernel", 2)
  _, heads, _ = shape(f"{_BLOCK}_0/{parts['attention']}/query/kernel", 3)
  with_token = math.isqrt(rows) ** 2 != rows and math.isqrt(max(rows - 1, 0)) ** 2 == rows - 1
  side = math.isqrt(rows - with_token)
  if side * side + with_token != rows:
    raise UsageError(f"{where}: tensor {positions} has {rows} positions: no square of patches")
  fields = dict(
    width=width, depth=depth, mlp_dim=mlp_dim, num_heads=heads, patch_size=patch, image_size=side * patch, pool=pool,
    activation="gelu_tanh", norm_epsilon=1e-6,
  )  # fmt: skip
  config = make_config(ViTConfig, where, fields)

  without = f"pool {pool!r} does without"
  may_drop, absent = {
    r"head/(kernel|bias)": "the classifier", r"pre_logits/(kernel|bias)": "the layer before the classifier",
  }, []  # fmt: skip
  table: list[Row] = [
    ("patch_embedding/kernel", _ANCHOR, SAME),
    ("patch_embedding/bias", "embedding/bias", SAME),
    *_norm("final_norm", "Transformer/encoder_norm"),
  ]
  if pool == "tok" and with_token:
    kind = token_and_positions(LEADING_ONES, LEADING_ONE)
    table.append((("class_token", "position_embedding"), ("cls", positions), kind))
  else:
    table.append(
      ("position_embedding", positions, later_positions(LEADING_ONE) if with_token else LEADING_ONE)
    )
    if pool == "tok":
      table.append(("class_token", "cls", LEADING_ONES))
    else:
      may_drop["cls"] = f"the class token: {without}"
  if pool == "map" and head is None:
    absent.append("vit/map_head/")
  elif pool == "map":
    table += [
      ("map_head/probe", f"{head}probe", LEADING_ONE),
      *_attention("map_head/attention", f"{head}MultiHeadDotProductAttention_0", heads),
      *_norm("map_head/mlp_norm", f"{head}LayerNorm_0"),
      *_mlp("map_head/mlp", f"{head}MlpBlock_0"),
    ]
  elif head is not None:
    names = ["MAPHead_0/"] if head else _INLINE_HEAD
    may_drop |= {f"{re.escape(name)}.*": f"the attention pooling: {without}" for name in names}
  pairs = expand(table, "vit/")
  layer = [
    *_norm("attention_norm", parts["attention_norm"]),
    *_attention("attention", parts["attention"], heads),
    *_norm("mlp_norm", parts["mlp_norm"]),
    *_mlp("mlp", parts["mlp"]),
  ]
  for n in range(depth):
    pairs += expand(layer, f"vit/layers_{n}/", f"{_BLOCK}_{n}/")
  return config, pairs, may_drop, absent


def _norm(ours: str, theirs: str) -> list[Row]:
  return [(f"{ours}/{name}", f"{theirs}/{name}", SAME) for name in ("scale", "bias")]


def _mlp(ours: str, theirs: str) -> list[Row]:
  return [
    (f"{ours}/{mine}/{name}", f"{theirs}/{other}/{name}", SAME)
    for mine, other in (("wi", "Dense_0"), ("wo", "Dense_1"))
    for name in ("kernel", "bias")
  ]


def _attention(ours: str, theirs: str, heads: int) -> list[Row]:
  """Their kernels are [embed, heads, head_dim], that of `out` [heads, head_dim, embed]; ours are 2-D."""
  kernel = reshaped(lambda shape: (shape[0], heads, shape[1] // heads))
  bias = reshaped(lambda shape: (heads, shape[0] // heads))
  out = reshaped(lambda shape: (heads, shape[0] // heads, shape[1]))
  rows = [
    (f"{ours}/{name}/{leaf}", f"{theirs}/{name}/{leaf}", kind)
    for name in ("query", "key", "value")
    for leaf, kind in (("kernel", kernel), ("bias", bias))
  ]
  rows += [
    (f"{ours}/out/{leaf}", f"{theirs}/out/{leaf}", kind) for leaf, kind in (("kernel", out), ("bias", SAME))
  ]
  return rows


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
  # zipfile, zlib and struct each raise errors of their own for bytes that are short or wrong.
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
    # zlib raises an error of its own for numbers that were damaged.
    except Exception as error:
      raise UsageError(f"{path}: {member} cannot be read ({one_line(error)[:120]}): fetch it again") from None
    return array.view(dtype)

  return read
