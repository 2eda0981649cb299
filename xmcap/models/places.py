"""Where a parameter lies on the mesh: its logical axes by the rules, then what the hardware makes of it.

Both sides ask here: `xmcap.training.sharding`, which places parameters, gradients and the optimizer's state, and
`layers.parameter`, which brings a parameter together where it is used.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flax.linen import partitioning

GATHERED = "data"
"""The mesh axis over which a parameter comes together where it is used, in the activations' dtype."""
SHARED_OUT = "fsdp"
"""The mesh axis that cuts parameters and the rows of activations alike: the compiler gathers along it as it needs."""

TILE = (16, 128)
"""What a TPU stores and exchanges together, of bfloat16."""

Places = list[tuple[str, ...]]


def at_rest(
  shape: Sequence[int],
  axes: Sequence[str | None],
  rules: Sequence[tuple[str, Any]],
  sizes: Mapping[str, int],
  whole: str | None = None,
) -> Places:
  """The mesh axes that each dimension of a parameter is cut over.

  The rules say which axes; `fsdp` and `data` go where they leave the fewest padded tiles of a TPU, as a dimension is
  padded to them in memory and exchanged in several pieces else. What `fsdp` does not cut, `data` does not either.
  A vector is cut by neither: there is little of it, and an exchange takes long to start. A dimension that its axes do
  not divide stays whole.

  Args:
    shape: of the parameter.
    axes: its logical axes.
    rules: (logical axis, mesh axes or None) pairs, in order of precedence.
    sizes: of the mesh's axes.
    whole: the logical axis along which it is never cut further than the rules say (of stacked layers).
  """
  named = partitioning.logical_to_mesh_axes(tuple(axes), rules)
  cut = [(names,) if isinstance(names, str) else tuple(names or ()) for names in named]
  cut = [names if not size % _parts(names, sizes) else () for size, names in zip(shape, cut, strict=True)]
  dims = [dim for dim in range(len(shape)) if axes[dim] != whole]
  first = next((dim for dim in dims if SHARED_OUT in cut[dim]), None)
  if first is None:
    return cut
  without = [tuple(name for name in names if name != SHARED_OUT) for names in cut]
  if len(dims) < 2:
    return without
  others = [dim for dim in dims if dim != first]
  best, least = cut, (math.inf, math.inf)
  # Where two axes cut one dimension by a rule of its own (the embedding's rows), it stays so.
  for shared in [first, *(others if len(cut[first]) == 1 and sizes[SHARED_OUT] > 1 else ())]:
    base = cut if shared == first else _with(without, shared, SHARED_OUT)
    for gathered in [
      None,
      *([shared, *(dim for dim in dims if dim != shared)] if sizes[GATHERED] > 1 else ()),
    ]:
      places = base if gathered is None else _with(base, gathered, GATHERED)
      parts = [divmod(size, _parts(names, sizes)) for size, names in zip(shape, places, strict=True)]
      cost = _in_tiles([part for part, _ in parts], (shared, gathered))
      if cost < least and not any(rest for _, rest in parts):
        best, least = places, cost
  return best


def without_gathered(places: Places) -> Places:
  """The same, together over `data`."""
  return [tuple(name for name in names if name != GATHERED) for names in places]


def _with(places: Places, dim: int, name: str) -> Places:
  return [*places[:dim], (*places[dim], name), *places[dim + 1 :]]


def _parts(names: Sequence[str], sizes: Mapping[str, int]) -> int:
  return math.prod(sizes[name] for name in names)


def _in_tiles(shape: Sequence[int], exchanged: Sequence[int | None]) -> tuple[int, int]:
  """What a part costs on a TPU: how many of the exchanged dimensions are no whole tiles, and the numbers stored.

  The last two dimensions are stored in the better order.
  """
  rows, columns = TILE

  def up(size, tile):
    return -(-size // tile) * tile

  *before, a, b = shape
  broken = sum(shape[dim] % rows != 0 for dim in set(exchanged) if dim is not None)
  return broken, math.prod(before) * min(up(a, rows) * up(b, columns), up(b, rows) * up(a, columns))
