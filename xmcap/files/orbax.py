"""Reads Orbax checkpoints one array at a time."""

import json
import logging
import math
import os
import pathlib
import sys
from typing import Any

import numpy as np

from xmcap.errors import UsageError, one_line
from xmcap.files import addresses
from xmcap.files.tensors import Tensor, check_claim, check_name
from xmcap.terminal import shown

_METADATA = "_METADATA"
_LARGEST_METADATA = 2**26
"""Bytes; a parameter takes some 300."""


class _WithoutUnawaited(logging.Filter):
  """When hundreds of arrays fail together, one error is raised; asyncio would print all the others."""

  def filter(self, record: logging.LogRecord) -> bool:
    return "exception was never retrieved" not in record.getMessage()


logging.getLogger("asyncio").addFilter(_WithoutUnawaited())
_unraisablehook = sys.unraisablehook


def _without_late_reads(unraisable: Any) -> None:
  """Ignores reads that end after another has failed, which TensorStore reports through this hook."""
  error = unraisable.exc_value
  if not (isinstance(error, RuntimeError) and str(error) == "Event loop is closed"):
    _unraisablehook(unraisable)


sys.unraisablehook = _without_late_reads


def is_orbax(path: str | os.PathLike) -> bool:
  """Whether a folder is a tree written by Orbax."""
  from xmcap.files.bucket_paths import epath

  return (epath.Path(path) / _METADATA).is_file()


def read_orbax(path: str | os.PathLike) -> dict[str, Tensor]:
  """Returns {path in the tree: tensor}; reads only the metadata. UsageError if the folder cannot be read."""
  import jax
  import orbax.checkpoint as ocp
  from flax.traverse_util import unflatten_dict

  from xmcap.files.bucket_paths import epath

  folder = epath.Path(addresses.absolute(path))
  handler = ocp.PyTreeCheckpointHandler()
  try:
    check_metadata(folder)
    tree = handler.metadata(folder).tree
    check_claim_of(folder, tree)
  except UsageError:
    raise
  # Orbax, TensorStore and JSON each raise their own errors for truncated or missing files.
  except Exception as error:
    raise _damaged(folder, error) from None

  def read(keys: tuple[str, ...]) -> np.ndarray:
    item = unflatten_dict({keys: 0})
    as_numpy = unflatten_dict({keys: ocp.RestoreArgs(restore_type=np.ndarray)})
    arguments = ocp.args.PyTreeRestore(item=item, restore_args=as_numpy, partial_restore=True)
    try:
      restored = handler.restore(folder, args=arguments)
    except Exception as error:
      raise _damaged(folder, error) from None
    return np.asarray(jax.tree.leaves(restored)[0])

  tensors = {}
  for where, leaf in jax.tree_util.tree_leaves_with_path(tree):
    keys = tuple(str(getattr(key, "key", getattr(key, "idx", key))) for key in where)
    if _is_array(leaf):
      shape, dtype = tuple(leaf.shape), np.dtype(leaf.dtype)
      tensors["/".join(keys)] = Tensor(shape, dtype, lambda keys=keys: read(keys), str(folder))
  return tensors


def check_metadata(folder: Any) -> None:
  """Raises UsageError if the metadata of a tree is too large, or a name in it leads to another folder."""
  file = folder / _METADATA
  if not file.exists():
    return
  if file.stat().length > _LARGEST_METADATA:
    raise UsageError(f"{file}: {file.stat().length:,} bytes; a checkpoint has at most {_LARGEST_METADATA:,}")
  try:
    entries = json.loads(file.read_text())["tree_metadata"].values()
    # Orbax forms the name of an array's folder in this way.
    names = [".".join(str(key["key"]) for key in entry["key_metadata"]) for entry in entries]
  except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
    return  # Orbax will say what is wrong
  for name in names:
    check_name(name, str(file))
    if any(part in ("", ".", "..") for part in name.split("/")):
      raise UsageError(f"{file}: {shown(repr(name), 80)} is not a valid parameter name: fetch it again")


def check_claim_of(folder: Any, tree: Any) -> None:
  """Raises UsageError if the arrays of a tree claim far more bytes than its folder has; buckets are not checked."""
  import jax

  if "://" in str(folder):
    return
  claimed = 0
  for leaf in filter(_is_array, jax.tree.leaves(tree)):
    # Whole chunks are allocated, however little of one belongs to the array.
    chunk = getattr(getattr(leaf, "storage", None), "chunk_shape", None) or ()
    claimed += max(math.prod(leaf.shape), math.prod(chunk)) * np.dtype(leaf.dtype).itemsize
  size = sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())
  check_claim(claimed, size, str(folder))


def _is_array(leaf: Any) -> bool:
  return getattr(leaf, "shape", None) is not None and getattr(leaf, "dtype", None) is not None


def _damaged(folder: Any, error: BaseException) -> UsageError:
  reason = one_line(error)[:160]
  return UsageError(f"{folder}: cannot be read: files are truncated or missing ({reason}): copy it again")
