"""Weights that a run can start from, whoever wrote them, read one parameter at a time."""

import dataclasses
import functools
import math
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from xmcap.errors import UsageError, XmcapError
from xmcap.models import model_json, stacking
from xmcap.tensors.files import FLOATS, LastRead, Tensor, read_safetensors
from xmcap.tensors.orbax import read_orbax
from xmcap.training.checkpoints import read as saved

PARAMS = "params.safetensors"
"""What a folder of converted weights holds, beside its `model.json`."""


@dataclasses.dataclass(frozen=True)
class Weights:
  """Parameters by their paths, the layers of a stack as one (`layers`), whichever way they are kept.

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
    return Weights(str(file), stacked(tensors), f"give --gin_file={pathlib.Path(folder, model_json.NAME)}")

  def read(path):
    try:
      return read_orbax(path / saved.PARAMS)
    except UsageError as error:
      raise saved.CheckpointDamaged(str(error)) from None

  path, tensors = saved.first_readable(folder, read)
  return Weights(str(path), stacked(tensors), "use the configuration it was trained with")


def stacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Layers one by one (`layers_0/NAME`, ...) as one tensor each (`layers/NAME`); all else as it is."""

  def join(path: str, layers: Sequence[Tensor]) -> Tensor:
    first = layers[0]
    for n, layer in enumerate(layers):
      if (layer.shape, layer.dtype) != (first.shape, first.dtype):
        raise UsageError(f"{layer.where}: {path}: layer {n} is {layer.shape}, and the first is {first.shape}")
    if path in tensors:
      raise UsageError(f"{first.where}: {path} is there twice, by itself and in layers: copy it again")
    read = functools.partial(_read_all, layers)
    return Tensor((len(layers), *first.shape), first.dtype, read, first.where)

  try:
    return stacking.joined(tensors, join)
  except ValueError as error:
    where = next(iter(tensors.values())).where
    raise UsageError(f"{where}: {error}: copy it again") from None


def _read_all(layers: Sequence[Tensor]) -> np.ndarray:
  return np.stack([layer.read() for layer in layers])


def one_by_one(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """The reverse, for other code bases."""
  last, single = LastRead(), {}
  for path, tensor in tensors.items():
    slices = last.slices(path, tensor) if stacking.is_stacked(path) else []
    single |= stacking.one_by_one(path, len(slices), slices.__getitem__) or {path: tensor}
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
