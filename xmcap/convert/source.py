"""A model that a format's reader found: tensors by their names, and our configuration of it."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from xmcap.convert.pairs import Pair, Shape
from xmcap.errors import UsageError
from xmcap.models import stacking
from xmcap.models.captioner import variable_shapes
from xmcap.models.dual import DualConfig, DualTower
from xmcap.models.limits import FieldError
from xmcap.models.t5 import T5Config
from xmcap.models.text_tower import TextConfig
from xmcap.models.vit import ViTConfig
from xmcap.tensors.files import Tensor

T5_PARTS = ("token_embedder", "encoder", "decoder")

# The other part of a captioner of which one part is wanted.
_SMALL_VIT = ViTConfig(8, 1, 8, 1, 8, 8)
_SMALL_T5 = T5Config(8, 8, 1, 8, 1, 1, 8)


@dataclasses.dataclass(frozen=True)
class Source:
  """A model that was found, not yet read.

  Attributes:
    kind: such as `MT5ForConditionalGeneration`.
    where: file or folder.
    tensors: by their names.
    config: of our model; a dual tower is one itself.
    pairs: from the shapes of our parameters to their pairs with the tensors.
    asked_by, may_drop: see `pairs.make_outputs`.
    absent: prefixes of parameters that the source cannot have; they begin fresh.
    notes: further lines for the user.
    beside: files that go with the weights as they are, such as a tokenizer's.
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


def make_config(
  kind: type[T5Config] | type[ViTConfig] | type[TextConfig] | type[DualConfig],
  where: str,
  values: Mapping[str, Any],
  names: Mapping[str, str] | None = None,
) -> Any:
  """A configuration with the numbers of a file, in which some fields have other `names`.

  Raises:
    UsageError: a value is of another type, or out of its limits.
  """
  try:
    return kind(**values)
  except FieldError as error:
    raise UsageError(f"{where}: {(names or {}).get(error.field, error.field)} {error.reason}") from None
  except UsageError as error:
    # Gin appends the chain of configurables that were being called, on lines of its own.
    raise UsageError(f"{where}: {str(error).splitlines()[0]}") from None


def shape_of(tensors: Mapping[str, Tensor], name: str, rank: int, where: str, kind: str) -> Shape:
  """The shape of a tensor that every model of this kind has; UsageError if it is absent or has another rank."""
  if name not in tensors:
    raise UsageError(f"{where}: no tensor {name}: not a {kind}")
  if len(tensors[name].shape) != rank:
    raise UsageError(f"{where}: {name} has shape {tensors[name].shape}, and a {kind} has {rank} axes there")
  return tensors[name].shape


def count_layers(names: Iterable[str], prefix: str) -> int:
  """How many layers there are, by names such as `PREFIX0/NAME` or `PREFIX0.NAME`."""
  numbers = [re.match(rf"{re.escape(prefix)}(\d{{1,9}})[/.]", name) for name in names]
  return 1 + max((int(match[1]) for match in numbers if match), default=-1)


def parameter_shapes(config: T5Config | ViTConfig | DualTower) -> dict[str, Shape]:
  """{path: shape} of every parameter of a model, its layers one by one, as the model itself makes them."""
  if isinstance(config, DualTower):
    size, length = config.vit.image_size, getattr(config.text, "max_length", 1)
    batch = jnp.zeros((1, size, size, 3), jnp.uint8), jnp.zeros((1, 1, length), jnp.int32)
    parts = jax.eval_shape(config.init, jax.random.key(0), *batch)["params"]
  else:
    of_vit = isinstance(config, ViTConfig)
    params = variable_shapes(*((config, _SMALL_T5) if of_vit else (_SMALL_VIT, config)))["params"]
    parts = {name: part for name, part in params.items() if name in (("vit",) if of_vit else T5_PARTS)}
  shapes = {}
  for path, leaf in stacking.flatten(parts).items():
    shape = tuple(leaf.shape)
    layers = shape[0] if shape else 0  # a scale has no axis
    shapes |= stacking.one_by_one(path, layers, lambda _, shape=shape: shape[1:]) or {path: shape}
  return shapes
