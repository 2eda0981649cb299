"""Stacks of layers, and the two layouts of their parameters.

Inside xmcap the parameters of a stack are `layers/NAME`, with a leading axis of layers. Other code bases, the files of
`xmcap convert` and decoding use one entry per layer: `layers_0/NAME`, `layers_1/NAME`, ... `stack` and `unstack`
convert between the two.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import traverse_util
from flax.linen import partitioning

LAYERS = "layers"
_ONE = re.compile(rf"(^|.*/){LAYERS}_(\d+)/(.*)")
_STACKED = re.compile(rf"(^|.*/){LAYERS}/(.*)")
_Leaf = TypeVar("_Leaf")

REMAT = {
  "no": None,
  "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
  "full": jax.checkpoint_policies.nothing_saveable,
}
"""Name of a policy -> which activations of a layer are stored for the backward pass; all others are recomputed.

`no` stores all; `dots`, the products with parameters, but not those of attention; `full`, the layer's input alone.
"""


def make(layer: type[nn.Module], config: Any, count: int) -> nn.Module:
  """Makes a stack of layers as one module, to be stored as the attribute `layers`.

  Args:
    layer: made from `config`; called with (x, ..., deterministic), where all but `x` are the same for every layer.
    config: `scan` compiles one layer for all, which compiles faster and runs slower; `remat` is one of `REMAT`.
    count: number of layers.

  Returns:
    A module that is called like a layer, and returns (x, None).
  """
  last = len(inspect.signature(layer.__call__).parameters) - 1  # `deterministic`, counted from `self`

  class Body(layer):
    def __call__(self, x, *shared):
      return super().__call__(x, *shared), None

  Body.__name__ = Body.__qualname__ = layer.__name__
  body: Any = Body
  if policy := REMAT[config.remat]:
    # Common-subexpression elimination cannot merge layers of a loop, so preventing it would only cost time.
    body = nn.remat(Body, prevent_cse=not config.scan, static_argnums=(last,), policy=policy)
  return partitioning.scan_with_axes(
    body,
    variable_axes={"params": 0},
    split_rngs={"params": True, "dropout": True},
    in_axes=nn.broadcast,  # pyright: ignore[reportArgumentType]  # missing in flax's type hint
    length=count,
    unroll=1 if config.scan else count,
    axis_name=LAYERS,
  )(config)


def flatten(params: Mapping[str, Any]) -> dict[str, Any]:
  """Flattens nested dicts to {path: leaf}, with paths such as `encoder/layers/mlp/wi_0/kernel`."""
  return traverse_util.flatten_dict(params, sep="/")


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
  """The inverse of `flatten`."""
  return traverse_util.unflatten_dict(dict(leaves), sep="/")


def unstack(params: Mapping[str, Any]) -> dict[str, Any]:
  """Parameters `layers/NAME` [layers, ...] -> `layers_0/NAME`, ...; all others are unchanged."""
  single = {}
  for path, leaf in flatten(params).items():
    layers = leaf.shape[0] if is_stacked(path) else 0
    single.update(one_by_one(path, layers, lambda n, leaf=leaf: leaf[n]) or {path: leaf})
  return nested(single)


def stack(params: Mapping[str, Any]) -> dict[str, Any]:
  """Parameters `layers_0/NAME`, ... -> `layers/NAME` [layers, ...]; all others are unchanged."""
  return nested(joined(flatten(params), lambda path, leaves: _stacked(leaves)))


def _stacked(leaves: list[Any]) -> Any:
  on_host = all(isinstance(leaf, np.ndarray) for leaf in leaves)
  return np.stack(leaves) if on_host else jnp.stack(leaves)


def one_by_one(path: str, count: int, layer: Callable[[int], _Leaf]) -> dict[str, _Leaf]:
  """Splits a stacked parameter into {path: parameter} of its `count` layers; {} if the path is not of a stack.

  The path is like `encoder/layers/mlp/wi_0/kernel`; `layer(n)` returns the parameter of layer n.
  """
  match = _STACKED.fullmatch(path)
  return {} if not match else {f"{match[1]}{LAYERS}_{n}/{match[2]}": layer(n) for n in range(count)}


def joined(leaves: Mapping[str, _Leaf], join: Callable[[str, list[_Leaf]], _Leaf]) -> dict[str, _Leaf]:
  """The inverse of `one_by_one`, for all parameters {path: parameter}; `join(path, layers)` stacks those of one path.

  Raises:
    ValueError: a layer is missing.
  """
  stacks: dict[str, dict[int, _Leaf]] = {}
  result: dict[str, _Leaf] = {}
  for path, leaf in leaves.items():
    match = _ONE.fullmatch(path)
    if not match:
      result[path] = leaf
    else:
      stacks.setdefault(f"{match[1]}{LAYERS}/{match[3]}", {})[int(match[2])] = leaf
  for path, layers in stacks.items():
    missing = set(range(len(layers))) - set(layers)
    if missing:
      raise ValueError(f"{path}: layer {min(missing)} is missing")
    result[path] = join(path, [layers[n] for n in range(len(layers))])
  return result


def is_stacked(path: str) -> bool:
  """Whether the path is that of a stacked parameter."""
  return bool(_STACKED.fullmatch(path))


def merge(some: Any, others: Any) -> Any:
  """Joins two trees that share no leaf."""
  return nested({**flatten(some), **flatten(others)})


def path_name(path: Sequence[Any]) -> str:
  """`decoder/layers/mlp/wi_0/kernel` from a path of `jax.tree_util`."""
  return jax.tree_util.keystr(tuple(path), simple=True, separator="/")
