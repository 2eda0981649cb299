"""Trees that Orbax wrote, read one array at a time."""

import os
from typing import Any

import numpy as np

from xmcap.errors import UsageError
from xmcap.tensor_files import Tensor


def is_orbax(path: str | os.PathLike) -> bool:
  """Whether a folder holds a tree that Orbax wrote."""
  return os.path.isfile(os.path.join(path, "_METADATA"))


def read_orbax(path: str | os.PathLike) -> dict[str, Tensor]:
  """{path in the tree: tensor} of a folder; nothing but shapes is read.

  Raises:
    UsageError: it cannot be read.
  """
  import jax
  import orbax.checkpoint as ocp
  from etils import epath

  folder = epath.Path(os.fspath(path))
  folder = folder if "://" in str(folder) else epath.Path(os.path.abspath(folder))
  handler = ocp.PyTreeCheckpointHandler()
  try:
    tree = handler.metadata(folder).tree
  # Orbax, TensorStore and JSON each have their own errors for files that are short or missing.
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
    if getattr(leaf, "shape", None) is not None and getattr(leaf, "dtype", None) is not None:
      shape, dtype = tuple(leaf.shape), np.dtype(leaf.dtype)
      tensors["/".join(keys)] = Tensor(shape, dtype, lambda keys=keys: read(keys), str(folder))
  return tensors


def _damaged(folder: Any, error: BaseException) -> UsageError:
  reason = " ".join(str(error).split())[:160] or type(error).__name__
  return UsageError(
    f"{folder}: cannot be read, it was cut short or files are missing ({reason}): copy it again"
  )
