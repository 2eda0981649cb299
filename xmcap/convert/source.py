"""A model that the reader of a format has opened."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from xmcap.convert.pairs import Pair, Shape
from xmcap.errors import UsageError
from xmcap.families.dual.model import DualConfig, DualTower
from xmcap.families.dual.text_tower import TextConfig
from xmcap.files.tensors import Tensor
from xmcap.models import stacking
from xmcap.models.captioner import variable_shapes
from xmcap.models.limits import FieldError
from xmcap.models.parts import IMAGE, T5_PARAMS
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

# Stand-ins for the other part of a captioner.
_SMALL_VIT = ViTConfig(8, 1, 8, 1, 8, 8)
_SMALL_T5 = T5Config(8, 8, 1, 8, 1, 1, 8)


@dataclasses.dataclass(frozen=True)
class WeightSource:
  """A model whose tensors have not been read yet.

  Attributes:
    kind: such as `MT5ForConditionalGeneration`.
    where: file or folder.
    tensors: {name: tensor}.
    config: configuration of our model, or our dual tower.
    pairs: returns the pairs for {path: shape} of our parameters.
    asked_by, may_drop: as in `pairs.make_outputs`.
    absent: prefixes of our parameters that the source does not have; training initialises them.
    notes: further lines for the user.
    beside: tokenizer files to copy.
  """

  kind: str
  where: str
  tensors: Mapping[str, Tensor]
  config: T5Config | ViTConfig | DualTower
  pairs: Callable[[Mapping[str, Shape]], Sequence[Pair]]
  asked_by: str
  may_drop: Mapping[str, str] = dataclasses.field(default_factory=dict)
  absent: Sequence[str] = ()
  notes: Sequence[str] = ()
  beside: Sequence[pathlib.Path] = ()

  def present_shapes(self) -> dict[str, Shape]:
    """Returns {path: shape} of our parameters that the source has."""
    shapes = parameter_shapes(self.config)
    return {path: shape for path, shape in shapes.items() if not path.startswith(tuple(self.absent))}


def make_config(
  kind: type[T5Config] | type[ViTConfig] | type[TextConfig] | type[DualConfig],
  where: str,
  values: Mapping[str, Any],
  names: Mapping[str, str] | None = None,
) -> Any:
  """Makes a configuration; UsageError if a value has another type or is out of its limits.

  `names` maps fields to the names that they have in the file `where`.
  """
  try:
    return kind(**values)
  except FieldError as error:
    raise UsageError(f"{where}: {(names or {}).get(error.field, error.field)} {error.reason}") from None
  except UsageError as error:
    # Gin appends the chain of configurables that were being called, on lines of its own.
    raise UsageError(f"{where}: {str(error).splitlines()[0]}") from None


def shape_of(tensors: Mapping[str, Tensor], name: str, rank: int, where: str, kind: str) -> Shape:
  """Returns the shape of a tensor of this kind of model; UsageError if it is missing or has another rank."""
  if name not in tensors:
    raise UsageError(f"{where}: no tensor {name}: not a {kind}")
  if len(tensors[name].shape) != rank:
    raise UsageError(f"{where}: {name} has shape {tensors[name].shape}, and a {kind} has {rank} axes there")
  return tensors[name].shape


def count_layers(names: Iterable[str], prefix: str) -> int:
  """Returns the number of layers in names such as `PREFIX0/NAME` or `PREFIX0.NAME`."""
  numbers = [re.match(rf"{re.escape(prefix)}(\d{{1,9}})[/.]", name) for name in names]
  return 1 + max((int(match[1]) for match in numbers if match), default=-1)


def parameter_shapes(config: T5Config | ViTConfig | DualTower) -> dict[str, Shape]:
  """Returns {path: shape} of all parameters that a model makes, with separate layers."""
  if isinstance(config, DualTower):
    assert isinstance(config.text, TextConfig)
    size, length = config.vit.image_size, config.text.max_length
    batch = jnp.zeros((1, size, size, 3), jnp.uint8), jnp.zeros((1, 1, length), jnp.int32)
    parts = jax.eval_shape(config.init, jax.random.key(0), *batch)["params"]
  else:
    of_vit = isinstance(config, ViTConfig)
    params = variable_shapes(*((config, _SMALL_T5) if of_vit else (_SMALL_VIT, config)))["params"]
    parts = {name: part for name, part in params.items() if name in ((IMAGE,) if of_vit else T5_PARAMS)}
  shapes = {}
  for path, leaf in stacking.flatten(parts).items():
    shape = tuple(leaf.shape)
    layers = shape[0] if shape else 0  # a scale has no axis
    shapes |= stacking.one_by_one(path, layers, lambda _, shape=shape: shape[1:]) or {path: shape}
  return shapes
