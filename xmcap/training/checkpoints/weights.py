"""Opens pretrained weights, from a run or from `xmcap convert`, and reads one parameter at a time."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmcap.errors import UsageError
from xmcap.files import addresses
from xmcap.files.orbax import read_orbax
from xmcap.files.tensors import FLOATS, LastRead, Tensor, read_safetensors
from xmcap.models import model_json, stacking
from xmcap.training.checkpoints import read

PARAMS = "params.safetensors"
"""The weights in a folder that `xmcap convert` wrote, beside its `model.json`."""


@dataclasses.dataclass(frozen=True)
class Weights:
  """Parameters by path, with the layers of a stack as one tensor.

  `hint` says what to do if they do not fit, `is_ema` whether those that learned are the EMA of a run.
  """

  where: str
  tensors: Mapping[str, Tensor]
  hint: str
  is_ema: bool = False

  def parts(self) -> list[str]:
    """The top-level names of the parameters."""
    return sorted({path.split("/")[0] for path in self.tensors})


def open_weights(folder: str | os.PathLike, weights: str | None = None) -> Weights:
  """Opens a run's folder, one checkpoint, or a folder of converted weights, here or in a bucket.

  In a run's folder it is the best checkpoint by the run's `CheckpointPolicy.best_metric`, or the newest readable one if
  the run has no such metric; which weights are in it, `weights` says, as in `read.chosen_weights`.
  """
  file = addresses.join(folder, PARAMS)
  if addresses.is_file(file):
    if weights == "ema":
      raise UsageError(f"{file}: has no EMA of the weights: leave --weights=ema out")
    tensors = read_safetensors(file)
    for path, tensor in tensors.items():
      if tensor.dtype not in FLOATS:
        raise UsageError(
          f"{file}: {path} {tensor.shape} is {tensor.dtype}, not floating-point: convert the source again"
        )
    return Weights(file, stacked(tensors), f"give --gin_file={addresses.join(folder, model_json.NAME)}")

  def read_params(path):
    kind = read.chosen_weights(path, weights)
    try:
      tensors = read_orbax(path / read.PARAMS)
      if kind == "raw":
        return tensors, False
      ema = read_orbax(path / read.EMA)
    except UsageError as error:
      raise read.CheckpointDamaged(str(error)) from None
    inside = f"{read.PARAMS}/"
    of_ema = {name.removeprefix(inside): one for name, one in ema.items() if name.startswith(inside)}
    return {**tensors, **of_ema}, True

  best = read.best_step(folder)
  chosen = folder if best is None else read.checkpoints_dir(folder) / str(best)
  path, (tensors, is_ema) = read.first_readable(chosen, read_params)
  where = f"{path} (the EMA of its weights)" if is_ema else str(path)
  return Weights(where, stacked(tensors), "use the configuration it was trained with", is_ema)


def read_all(folder: str | os.PathLike, weights: str | None = None) -> dict[str, Any]:
  """Reads all parameters of a folder (see `open_weights`) as nested dicts of float32 arrays."""
  tensors = open_weights(folder, weights).tensors
  return stacking.nested({path: np.asarray(tensor.read(), np.float32) for path, tensor in tensors.items()})


def stacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Stacks the tensors of single layers (`layers_0/NAME`, ...) into one (`layers/NAME`)."""

  def join(path: str, layers: Sequence[Tensor]) -> Tensor:
    first = layers[0]
    for n, layer in enumerate(layers):
      if (layer.shape, layer.dtype) != (first.shape, first.dtype):
        raise UsageError(f"{layer.where}: {path}: layer {n} is {layer.shape}, but the first is {first.shape}")
    if path in tensors:
      raise UsageError(f"{first.where}: {path} occurs twice, stacked and as single layers: copy it again")
    shape = (len(layers), *first.shape)
    return Tensor(shape, first.dtype, lambda: np.stack([layer.read() for layer in layers]), first.where)

  try:
    return stacking.joined(tensors, join)
  except ValueError as error:
    where = next(iter(tensors.values())).where
    raise UsageError(f"{where}: {error}: copy it again") from None


def one_by_one(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """The inverse of `stacked`, for other code bases."""
  last, single = LastRead(), {}
  for path, tensor in tensors.items():
    slices = last.slices(path, tensor) if stacking.is_stacked(path) else []
    single |= stacking.one_by_one(path, len(slices), slices.__getitem__) or {path: tensor}
  return single
