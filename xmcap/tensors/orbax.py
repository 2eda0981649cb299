"""Trees that Orbax wrote, read one array at a time."""

import json
import logging
import math
import os
import pathlib
import sys
from typing import Any

import numpy as np

from xmcap.errors import UsageError, one_line
from xmcap.storage import addresses
from xmcap.tensors.files import Tensor, check_claim, check_name
from xmcap.terminal import shown

_METADATA = "_METADATA"
_LARGEST_METADATA = 2**26
"""Bytes. A parameter takes some 300."""


class _WithoutUnawaited(logging.Filter):
  """When hundreds of arrays fail together, one error is raised; asyncio would print all the others."""

  def filter(self, record: logging.LogRecord) -> bool:
    return "exception was never retrieved" not in record.getMessage()


logging.getLogger("asyncio").addFilter(_WithoutUnawaited())
_unraisablehook = sys.unraisablehook


def _without_late_reads(unraisable: Any) -> None:
  """TensorStore reports through this hook each read that ends after another one has failed."""
  error = unraisable.exc_value
  if not (isinstance(error, RuntimeError) and str(error) == "Event loop is closed"):
    _unraisablehook(unraisable)


sys.unraisablehook = _without_late_reads


def is_orbax(path: str | os.PathLike) -> bool:
  """Whether a folder holds a tree that Orbax wrote."""
  return os.path.isfile(os.path.join(path, _METADATA))


def read_orbax(path: str | os.PathLike) -> dict[str, Tensor]:
  """{path in the tree: tensor} of a folder; nothing but shapes is read. UsageError where it cannot be."""
  import jax
  import orbax.checkpoint as ocp
  from etils import epath

  folder = epath.Path(addresses.absolute(path))
  handler = ocp.PyTreeCheckpointHandler()
  try:
    check_metadata(folder)
    tree = handler.metadata(folder).tree
    check_claim_of(folder, tree)
  except UsageError:
    raise
  # Orbax, TensorStore and JSON each raise errors of their own for files that are short or missing.
  except Exception as error:
    raise _damaged(folder, error) from None

  def read(keys: tuple[str, ...]) -> np.ndarray:
    wanted: Any = 0
    for key in reversed(keys):
      wanted = {key: wanted}
    as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), wanted)
    arguments = ocp.args.PyTreeRestore(item=wanted, restore_args=as_numpy, partial_restore=True)
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
  """Raises UsageError if the description of a tree is too large, or a name in it leads elsewhere."""
  file = folder / _METADATA
  if not file.exists():
    return
  if file.stat().length > _LARGEST_METADATA:
    raise UsageError(f"{file}: {file.stat().length:,} bytes; a checkpoint has {_LARGEST_METADATA:,} at most")
  try:
    entries = json.loads(file.read_text())["tree_metadata"].values()
    # As Orbax makes the name of an array's folder.
    names = [".".join(str(key["key"]) for key in entry["key_metadata"]) for entry in entries]
  except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
    return  # Orbax will say what is wrong
  for name in names:
    check_name(name, str(file))
    if any(part in ("", ".", "..") for part in name.split("/")):
      raise UsageError(f"{file}: {shown(repr(name), 80)} is no name of a parameter: fetch it again")


def check_claim_of(folder: Any, tree: Any) -> None:
  """Refuses a tree whose arrays claim far more numbers than the folder, an `epath.Path`, has bytes; not in a bucket."""
  import jax

  if "://" in str(folder):
    return
  claimed = 0
  for leaf in filter(_is_array, jax.tree.leaves(tree)):
    # Whole chunks are made in memory, however little of one belongs to the array.
    chunk = getattr(getattr(leaf, "storage", None), "chunk_shape", None) or ()
    claimed += max(math.prod(leaf.shape), math.prod(chunk)) * np.dtype(leaf.dtype).itemsize
  held = sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())
  check_claim(claimed, held, str(folder))


def _is_array(leaf: Any) -> bool:
  return getattr(leaf, "shape", None) is not None and getattr(leaf, "dtype", None) is not None


def _damaged(folder: Any, error: BaseException) -> UsageError:
  reason = one_line(error)[:160]
  return UsageError(
    f"{folder}: cannot be read, it was cut short or files are missing ({reason}): copy it again"
  )
