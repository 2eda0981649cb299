"""The same parameter of all layers of a stack as one array, so that an optimizer's rule is compiled once for them.

A large model has a thousand parameters, and a rule some ten small operations for each, which take an accelerator longer
than the arithmetic in them. `encoder/layers_0/mlp/wo/kernel`, `encoder/layers_1/...` become
`encoder/layers/mlp/wo/kernel`, the layout of stacked layers (see `xmcap.models.stacking`): an optimizer's state is the
same for both.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from xmcap.models.stacking import STACKED

Params = Mapping[str, Any]

SINGLE = "single"
"""Names all that is no layer's in `by_stack`."""

_LAYER = re.compile(rf"(?:^|(?<=/)){STACKED}_(\d+)/")


def stacked_path(path: str) -> str:
  """The path of a layer's parameter where its layers are one array; another path is itself."""
  return _LAYER.sub(f"{STACKED}/", path, count=1)


def together(tree: Params, shardings: Params | None = None) -> Params:
  """Layers one by one -> one array a parameter, the layers its first axis; all else as it is.

  Args:
    tree: arrays.
    shardings: a `NamedSharding` for each, which its part of the new array keeps; None leaves that to the compiler.
  """
  groups: dict[str, list[str]] = {}
  flat = traverse_util.flatten_dict(tree, sep="/")
  for path in sorted(flat, key=_number):
    groups.setdefault(stacked_path(path), []).append(path)
  lies = {} if shardings is None else traverse_util.flatten_dict(shardings, sep="/")
  joined = {}
  for stack, paths in groups.items():
    if paths == [stack]:
      joined[stack] = flat[stack]
      continue
    layers = [flat[path] for path in paths]
    joined[stack] = _rows(layers) if jnp.ndim(layers[0]) == 1 else jnp.stack(layers)
    if lies:
      joined[stack] = lax.with_sharding_constraint(joined[stack], of_stack(lies[paths[0]]))
  return traverse_util.unflatten_dict(joined, sep="/")


def apart(joined: Params, like: Params, shardings: Params | None = None) -> Params:
  """What `together` made of a tree like `like`, one by one again; `shardings` as there, of `like`."""
  flat = traverse_util.flatten_dict(joined, sep="/")
  lies = {} if shardings is None else traverse_util.flatten_dict(shardings, sep="/")
  for path, sharding in lies.items():
    stack = stacked_path(path)
    flat[stack] = lax.with_sharding_constraint(flat[stack], of_stack(sharding) if stack != path else sharding)
  taken: dict[str, int] = {}
  single = {}
  for path in sorted(traverse_util.flatten_dict(like, sep="/"), key=_number):
    stack = stacked_path(path)
    if stack == path:
      single[path] = flat[path]
    else:
      single[path] = flat[stack][taken.setdefault(stack, 0)]
      taken[stack] += 1
  return traverse_util.unflatten_dict(single, sep="/")


def by_stack(joined: Params) -> dict[str, Params]:
  """The parts of a tree with layers as one array: `SINGLE`, and for each stack those with as many layers."""
  parts: dict[str, dict[str, Any]] = {}
  for path, leaf in traverse_util.flatten_dict(joined, sep="/").items():
    above, stacked, _ = path.rpartition(f"{STACKED}/")
    # Where some layers are frozen in part, the others of their stack have more layers.
    name = f"{above}{STACKED}/{leaf.shape[0]}".replace("/", "_") if stacked else SINGLE
    parts.setdefault(name, {})[path] = leaf
  return {stack: traverse_util.unflatten_dict(part, sep="/") for stack, part in parts.items()}


def each_layer(stack: str, function: Callable) -> Callable:
  """A rule's function, made to take each layer of a stack by itself.

  What the rule makes of a whole parameter, such as its scale or its clipping, is then the layer's own.
  """
  return function if stack == SINGLE else jax.vmap(function)


def of_stack(sharding: NamedSharding) -> NamedSharding:
  """Where a parameter of all layers lies, from where a layer's does."""
  return NamedSharding(sharding.mesh, PartitionSpec(None, *sharding.spec))


def _number(path: str) -> int:
  found = _LAYER.search(path)
  return int(found[1]) if found else -1


def _rows(vectors: Sequence[jax.Array]) -> jax.Array:
  """`jnp.stack` of vectors, as one operation on a TPU.

  There a vector lies otherwise in memory than a matrix' row, and each that is stacked is first an operation of its own.
  """
  # Behind a barrier, since the compiler otherwise makes the comparisons' results, which is an operation each again.
  number = lax.optimization_barrier(lax.broadcasted_iota(jnp.int32, (len(vectors), *vectors[0].shape), 0))
  stacked = jnp.broadcast_to(vectors[0], number.shape)
  for row, vector in enumerate(vectors):
    stacked = jnp.where(number == row, vector, stacked)
  return stacked
