"""Reads t5x checkpoints: the legacy layout of the public ones (msgpack and zarr folders), and the current one (Orbax).

Our parameters have t5x's names, so no table is needed; the sizes follow from the shapes.
"""

import math
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmcap.convert.pairs import SAME, Pair, Shape
from xmcap.convert.source import WeightSource, count_layers, make_config, shape_of
from xmcap.errors import UsageError, one_line
from xmcap.files.orbax import is_orbax, read_orbax
from xmcap.files.tensors import LastRead, Tensor, check_claim, check_name, is_file_name
from xmcap.models.t5 import T5Config
from xmcap.terminal import shown

_LEGACY, _ORBAX = "checkpoint", "state"
_TARGET = "target/"
_LARGEST_MSGPACK = 2**28
"""Largest msgpack file in bytes. It holds small specs and, in public checkpoints, the norms; weights are in zarr."""
_LONGEST_LIST = 4096
"""Longest list in it, such as a shape. msgpack allocates as many items as a list claims, also in nested lists."""
_MAY_DROP = {
  r"state/.*": "the optimizer's state",
  r"flax_mutables/.*": "not parameters",
  r"step|version": "counters",
}


def is_checkpoint(path: pathlib.Path) -> bool:
  """Whether a folder looks like a t5x checkpoint."""
  return (path / _LEGACY).is_file() or is_orbax(path / _ORBAX)


def find(path: pathlib.Path) -> pathlib.Path | None:
  """Finds a t5x checkpoint: `path` itself, or the newest `checkpoint_N` in a run's folder; None if there is none."""
  if is_checkpoint(path):
    return path
  folders = [folder for folder in path.glob("checkpoint_*") if re.fullmatch(r"checkpoint_\d+", folder.name)]
  return max(
    filter(is_checkpoint, folders), key=lambda folder: int(folder.name.partition("_")[2]), default=None
  )


def read(path: pathlib.Path) -> dict[str, Tensor]:
  """Returns {path in the tree: tensor} of a checkpoint of either layout; parameters are below `target/`.

  UsageError if it cannot be read, or is incomplete.
  """
  return _read_legacy(path) if (path / _LEGACY).is_file() else read_orbax(path / _ORBAX)


def parameters(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Returns the parameters in the result of `read`, without the prefix `target/`."""
  return {name.removeprefix(_TARGET): tensors[name] for name in tensors if name.startswith(_TARGET)}


def open_checkpoint(path: pathlib.Path) -> WeightSource:
  """Opens the T5 in a checkpoint.

  UsageError if it cannot be read, its layers are stacked, or it is a whole captioner or not a T5.1.1.
  """
  tensors = read(path)
  tensors = _one_by_one(tensors, path)
  params = parameters(tensors)
  if any(name.startswith("vit/") for name in params):
    raise UsageError(
      f"{path}: a captioner, not a T5: use python -m xmcap.t5x.checkpoints from_t5x --input={path} --out=DIR"
    )
  if any(re.match(r"(encoder|decoder)/(\w+/)?layers/", name) for name in params):
    raise UsageError(
      f"{path}: its layers are stacked as t5x does not stack them: xmcap reads separate layers, and those of"
      " scan_layers (t5x.examples.scalable_t5)"
    )
  config = _config(params, path)

  def pairs(paths):
    return [Pair((path,), (_TARGET + path,), SAME) for path in paths]

  note = "relpos_max_distance is not in the checkpoint: using t5x's 128"
  return WeightSource(
    "T5 of t5x", str(path), tensors, config, pairs, "its other shapes ask", _MAY_DROP, notes=[note]
  )


def _one_by_one(tensors: Mapping[str, Tensor], path: pathlib.Path) -> dict[str, Tensor]:
  """Splits stacks of t5x's scan_layers, `encoder/encoder/NAME`, into `encoder/layers_N/NAME`; others stay.

  Follows t5x.examples.scalable_t5.network: layers lie along axis 1 (`param_scan_axis`), and each has a relative
  position bias of its own. Ours share one, so that all must be the same.
  """
  last, unstacked = LastRead(), {}
  for name, tensor in tensors.items():
    stack = re.fullmatch(rf"{_TARGET}(encoder|decoder)/\1/(?!layers/)(.+)", name)
    if not stack:
      unstacked[name] = tensor
      continue
    part, inside = stack.groups()
    layers = last.slices(name, tensor, _scan_axis(tensors, part))
    if inside == "relpos_bias/rel_embedding":
      first = layers[0].read()
      if any(not np.array_equal(layer.read(), first) for layer in layers[1:]):
        raise UsageError(
          f"{path}: each layer of its {part} has a relpos_bias of its own, as scalable_t5 and umT5 train them:"
          " xmcap's layers share one"
        )
      unstacked[f"{_TARGET}{part}/{inside}"] = layers[0]
    else:
      unstacked |= {f"{_TARGET}{part}/layers_{n}/{inside}": layer for n, layer in enumerate(layers)}
  return unstacked


def _scan_axis(tensors: Mapping[str, Tensor], part: str) -> int:
  """Returns the axis of the layers of a stack: 0 if it is not 1, by the width of the norms."""
  embedding = tensors.get(f"{_TARGET}token_embedder/embedding")
  norm = tensors.get(f"{_TARGET}{part}/{part}/pre_mlp_layer_norm/scale")
  if embedding is None or norm is None or len(norm.shape) != 2 or len(embedding.shape) != 2:
    return 1
  return 0 if norm.shape[1] == embedding.shape[1] != norm.shape[0] else 1


def _config(params: Mapping[str, Tensor], path: pathlib.Path) -> T5Config:
  def shape(name: str, rank: int) -> Shape:
    return shape_of(params, name, rank, str(path), "T5.1.1 or mT5 of t5x")

  vocab, width = shape("token_embedder/embedding", 2)
  heads, buckets = shape("encoder/relpos_bias/rel_embedding", 2)
  _, joined = shape("encoder/layers_0/attention/query/kernel", 2)
  _, mlp = shape("encoder/layers_0/mlp/wi_0/kernel", 2)
  shape("decoder/logits_dense/kernel", 2)
  if not heads or joined % heads:
    raise UsageError(
      f"{path}: {heads} heads in encoder/relpos_bias/rel_embedding do not divide the query's {joined}"
    )
  fields = dict(
    vocab_size=vocab, emb_dim=width, num_heads=heads, head_dim=joined // heads,
    num_encoder_layers=count_layers(params, "encoder/layers_"),
    num_decoder_layers=count_layers(params, "decoder/layers_"), mlp_dim=mlp, relpos_buckets=buckets,
  )  # fmt: skip
  return make_config(T5Config, str(path), fields)


def _read_legacy(path: pathlib.Path) -> dict[str, Tensor]:
  import msgpack
  from flax import serialization, traverse_util

  file = path / _LEGACY
  if (size := file.stat().st_size) > _LARGEST_MSGPACK:
    raise UsageError(f"{file}: {size:,} bytes; a msgpack of t5x has at most {_LARGEST_MSGPACK:,}")
  try:
    # Arrays are bytes with a shape and the name of a dtype; it cannot contain code.
    raw = file.read_bytes()
    msgpack.unpackb(raw, raw=False, strict_map_key=False, max_array_len=_LONGEST_LIST)
    tree = serialization.msgpack_restore(raw)
  # msgpack and flax each raise their own errors for truncated or malformed bytes.
  except Exception as error:
    raise UsageError(
      f"{file}: damaged, or not a msgpack checkpoint of t5x ({one_line(error)[:120]}): download it again"
    ) from None
  tree = tree.get("optimizer") if isinstance(tree, dict) else None
  if not isinstance(tree, dict) or not isinstance(tree.get("target"), dict):
    raise UsageError(f"{file}: has no optimizer/target: not a checkpoint of t5x")
  tensors = {}
  for keys, leaf in traverse_util.flatten_dict(tree, is_leaf=_is_spec).items():
    name = "/".join(map(str, keys))
    check_name(name, str(file))
    if name.startswith(_TARGET):
      tensors[name] = _leaf(name, leaf, path)
    else:
      # The optimizer state is never read.
      tensors[name] = Tensor((), np.dtype(np.float32), lambda: np.zeros((), np.float32), str(path))
  return tensors


def _is_spec(keys: tuple[Any, ...], value: Mapping[str, Any]) -> bool:
  """Whether a value of the tree describes a zarr folder."""
  return bool(keys) and ("kvstore" in value or ("driver" in value and "path" in value))


def _leaf(name: str, leaf: Any, path: pathlib.Path) -> Tensor:
  if isinstance(leaf, np.ndarray | np.generic):
    array = np.asarray(leaf)
    return Tensor(array.shape, array.dtype, lambda: array, str(path / _LEGACY))
  spec = leaf if isinstance(leaf, dict) else {}
  kvstore = spec.get("kvstore")
  # tensorstore before 0.1.14 wrote the path beside the kvstore.
  folder = kvstore.get("path") if isinstance(kvstore, dict) else None
  folder = str(folder or spec.get("path", "")).rstrip("/")
  if spec.get("driver") != "zarr" or not is_file_name(folder):
    raise UsageError(
      f"{path / _LEGACY}: {name} is neither an array nor a zarr folder: {shown(repr(leaf), 160)}"
    )
  return _zarr(path / folder, name)


def _zarr(folder: pathlib.Path, name: str) -> Tensor:
  import tensorstore

  # It may have been written by another driver (gfile, gcs), but here it is a local folder.
  spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{folder.resolve()}/"}}
  if not folder.is_dir():
    raise UsageError(f"{folder}, which holds {name}, is missing: copy the whole checkpoint")

  def damaged(error: Exception) -> UsageError:
    return UsageError(f"{folder}: cannot be read ({one_line(error)[:160]}): copy it again")

  try:
    array = tensorstore.open(spec, open=True, read=True).result()
    missing = _missing_chunks(folder, array)
  except (ValueError, OSError, TypeError) as error:
    raise damaged(error) from None
  if missing > 0:
    raise UsageError(f"{folder}: {missing} of the chunks of {name} are missing: copy the whole checkpoint")

  def read_all() -> np.ndarray:
    try:
      return array.read().result()
    except (ValueError, OSError) as error:
      raise damaged(error) from None

  return Tensor(tuple(array.shape), np.dtype(array.dtype.numpy_dtype), read_all, str(folder))


def _missing_chunks(folder: pathlib.Path, array: Any) -> int:
  """Counts missing chunks, which zarr would silently read as zeros; UsageError if the others claim too much memory."""
  chunk = array.chunk_layout.read_chunk.shape
  counts = [-(-size // part) for size, part in zip(array.shape, chunk, strict=True)]
  files = [file for file in folder.rglob("*") if file.is_file()]
  # Whole chunks are allocated, even if only a small part belongs to the array.
  claimed = max(math.prod(counts), 1) * math.prod(chunk) * array.dtype.numpy_dtype.itemsize
  check_claim(claimed, sum(file.stat().st_size for file in files), str(folder))
  return math.prod(counts) - sum(not file.name.startswith(".") for file in files)
