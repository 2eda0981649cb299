"""The layers of a stack, one by one (`layers_0`, `layers_1`, ...), or stacked (`layers`) for a scan over them.

Stacked, each parameter of a layer gets a leading axis of the layers, and one layer is compiled for all; the numbers
are the same. Weights from elsewhere, fresh ones and decoding know layers one by one.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen import partitioning

Params = Mapping[str, Any]

STACKED = "layers"
_ONE = re.compile(rf"{STACKED}_(\d+)")


def make(layer: type[nn.Module], config: Any, count: int) -> nn.Module | list[nn.Module]:
  """The layers of a stack, to be kept as the attribute `layers` and called by `apply`.

  Args:
    layer: made of `config`; called with (x, ..., deterministic), all but `x` the same for each layer.
    config: its `scan` stacks the layers, its `remat` recomputes their activations in the backward pass.
    count: how many.
  """
  last = len(inspect.signature(layer.__call__).parameters) - 1  # `deterministic`, counted from `self`
  if not config.scan or not count:
    layer = nn.remat(layer, static_argnums=(last,)) if config.remat else layer
    return [layer(config) for _ in range(count)]

  class Scanned(layer):
    def __call__(self, x, *shared):
      return super().__call__(x, *shared), None

  Scanned.__name__ = Scanned.__qualname__ = layer.__name__
  body = Scanned
  if config.remat:
    # Inside of a scan nothing is merged across layers anyway, and preventing it costs time.
    body = partitioning.remat(Scanned, prevent_cse=False, static_argnums=(last - 1,))
  scanned = partitioning.scan_with_axes(
    body,
    variable_axes={"params": 0},
    split_rngs={"params": True, "dropout": True},
    in_axes=nn.broadcast,
    length=count,
    axis_name=STACKED,
  )
  return scanned(config)


def apply(layers: nn.Module | Sequence[nn.Module], x: jax.Array, *shared: Any) -> jax.Array:
  """Applies the layers that `make` made, one after the other."""
  if isinstance(layers, nn.Module):
    return layers(x, *shared)[0]
  for layer in layers:
    x = layer(x, *shared)
  return x


def stack(params: Params, like: Params) -> dict[str, Any]:
  """Layers one by one -> stacked wherever `like`, a tree of the wanted layout, has them stacked."""
  stacked = {}
  for name, wanted in like.items():
    if name == STACKED and STACKED not in params:
      single = [params[key] for key in sorted(filter(_ONE.fullmatch, params), key=_number)]
      stacked[name] = _over(jnp.stack, single)
    else:
      stacked[name] = stack(params[name], wanted) if isinstance(wanted, Mapping) else params[name]
  return stacked


def unstack(params: Params) -> dict[str, Any]:
  """Stacked layers -> one by one; all else as it is."""
  single = {}
  for name, value in params.items():
    if name != STACKED:
      single[name] = unstack(value) if isinstance(value, Mapping) else value
      continue
    for number in range(len(jax.tree.leaves(value)[0])):
      single[f"{STACKED}_{number}"] = jax.tree.map(lambda leaf, number=number: leaf[number], value)
  return single


def is_stacked(params: Params) -> bool:
  """Whether any layers of a tree are stacked."""
  return any(
    name == STACKED or (isinstance(value, Mapping) and is_stacked(value)) for name, value in params.items()
  )


def init(module: nn.Module, rng: jax.Array, *inputs: Any) -> dict[str, Any]:
  """`module.init(rng, *inputs)`, but with the same numbers whether layers are stacked or not.

  Args:
    module: has `unrolled()`, the same module with its layers one by one.
    rng: of the parameters.
    inputs: of its call.

  Returns:
    `params` and `params_axes`.
  """
  single = module.unrolled()
  if single == module:
    return module.init(rng, *inputs)
  # The names and axes of the stacked layout; nothing is computed.
  shapes = jax.eval_shape(module.init, rng, *inputs)
  params = stack(single.init(rng, *inputs)["params"], shapes["params"])
  return {"params": params, "params_axes": shapes["params_axes"]}


def _over(join: Callable[[Sequence[Any]], Any], trees: Sequence[Any]) -> Any:
  return jax.tree.map(lambda *leaves: join(leaves), *trees)


def _number(name: str) -> int:
  return int(name.rpartition("_")[2])
