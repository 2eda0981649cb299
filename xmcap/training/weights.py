"""Weights that a run can start from, whoever wrote them, read one parameter at a time."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping

import numpy as np

from xmcap import model_json
from xmcap.errors import UsageError, XmcapError
from xmcap.orbax_tensors import read_orbax
from xmcap.tensor_files import FLOATS, LastRead, Tensor, read_safetensors
from xmcap.training import saved

PARAMS = "params.safetensors"
"""What a folder of converted weights holds, beside its `model.json`."""

STACKED = "layers"


@dataclasses.dataclass(frozen=True)
class Weights:
  """Parameters by their paths, layers one by one (`layers_0`), whichever way they are kept.

  Attributes:
    where: the file or checkpoint.
    tensors: {path: tensor}.
    hint: what to do if they do not fit a model.
  """

  where: str
  tensors: Mapping[str, Tensor]
  hint: str

  def parts(self) -> list[str]:
    """The first names of the paths."""
    return sorted({path.split("/")[0] for path in self.tensors})


def open_weights(folder: str | os.PathLike) -> Weights:
  """What lies in a run's folder (its newest checkpoint that can be read), one checkpoint, or converted weights.

  Raises:
    UsageError: none of them there, or files that are not whole.
    XmcapError: no checkpoint can be read.
  """
  file = pathlib.Path(folder, PARAMS)
  if file.is_file():
    tensors = read_safetensors(file)
    for path, tensor in tensors.items():
      if tensor.dtype not in FLOATS:
        raise UsageError(
          f"{file}: {path} {tensor.shape} is {tensor.dtype}, no parameter: convert the source again"
        )
    return Weights(str(file), one_by_one(tensors), f"give --gin_file={pathlib.Path(folder, model_json.NAME)}")

  def read(path):
    try:
      return read_orbax(path / saved.PARAMS)
    except UsageError as error:
      raise saved.CheckpointDamaged(str(error)) from None

  path, tensors = saved.first_readable(folder, read)
  return Weights(str(path), one_by_one(tensors), "use the configuration it was trained with")


def one_by_one(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Stacked layers (`layers/NAME`, the layers along the first axis) as `layers_0/NAME`, ...; all else as it is."""
  last, single = LastRead(), {}
  for path, tensor in tensors.items():
    parts = path.split("/")
    if STACKED not in parts[:-1]:
      single[path] = tensor
      continue
    at = parts.index(STACKED)
    for n, layer in enumerate(last.slices(path, tensor)):
      name = "/".join([*parts[:at], f"{STACKED}_{n}", *parts[at + 1 :]])
      if name in tensors or name in single:
        raise UsageError(f"{tensor.where}: {name} is there twice, by itself and stacked: copy it again")
      single[name] = layer
  return single


def is_position(path: str) -> bool:
  """Whether a parameter is the position embedding of a grid of patches."""
  return path.rpartition("/")[2] == "position_embedding"


def grid_side(rows: int) -> int | None:
  """The side of a square of so many patches, or None."""
  side = math.isqrt(rows)
  return side if side * side == rows else None


def resize_positions(positions: np.ndarray, rows: int) -> np.ndarray:
  """Position embeddings of another grid: [h * h, width] -> [rows, width], linear, as big_vision does it.

  Raises:
    XmcapError: either is no square.
  """
  from scipy import ndimage

  old, new = grid_side(len(positions)), grid_side(rows)
  if old is None or new is None:
    raise XmcapError(f"position embeddings of {len(positions)} patches cannot become {rows}: no square grids")
  grid = positions.astype(np.float32).reshape(old, old, -1)
  return ndimage.zoom(grid, (new / old, new / old, 1), order=1).reshape(rows, -1)
