"""Where a parameter lies on the mesh: its logical axes by the rules, then what the hardware makes of it.

Both sides ask here: `xmcap.training.sharding`, which places parameters, gradients and the optimizer's state, and
`layers.parameter`, which brings a parameter together where it is used.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flax.linen import partitioning

GATHERED = "data"
SHARED_OUT = "fsdp"
"""The mesh axes that cut parameters and the rows of activations alike."""

TILE = (16, 128)
"""What a TPU stores and exchanges together, of bfloat16."""

_BROKEN = 20
"""What broken tiles count in an exchange: more than padding can save, less than not to cut over many devices."""

Places = list[tuple[str, ...]]


def at_rest(
  shape: Sequence[int],
  axes: Sequence[str | None],
  rules: Sequence[tuple[str, Any]],
  sizes: Mapping[str, int],
  whole: str | None = None,
) -> Places:
  """The mesh axes that each dimension of a parameter is cut over.

  The rules say which axes; `fsdp` and `data` go where they leave the fewest tiles of a TPU, whole ones first, as a
  dimension is padded to them in memory and exchanged in several pieces else. What `fsdp` does not cut, `data` does not
  either. A vector is cut by neither: there is little of it, and an exchange takes long to start. A dimension that its
  axes do not divide stays whole.

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
  unshared = without(cut, SHARED_OUT)
  if len(dims) < 2:
    return unshared
  others = [dim for dim in dims if dim != first]
  best, least = cut, math.inf
  # Where two axes cut one dimension by a rule of its own (the embedding's rows), it stays so.
  for shared in [first, *(others if len(cut[first]) == 1 and sizes[SHARED_OUT] > 1 else ())]:
    base = cut if shared == first else _with(unshared, shared, SHARED_OUT)
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


def in_use(shape: Sequence[int], places: Places, sizes: Mapping[str, int]) -> Places:
  """Where a parameter lies when it is used, in the activations' dtype: together over one of the two axes.

  The compiler gathers along the other as it needs. It is `data` that comes together here; but `fsdp` where its parts
  are no whole tiles, so that what is exchanged in pieces is the smaller of both exchanges.
  """
  used = without(places, GATHERED)
  cut = any(GATHERED in names for names in places)
  broken = any(
    SHARED_OUT in names and size // _parts(names, sizes) % TILE[0]
    for size, names in zip(shape, used, strict=True)
  )
  return without(places, SHARED_OUT) if cut and broken else used


def without(places: Places, axis: str) -> Places:
  """The same, together over an axis of the mesh."""
  return [tuple(name for name in names if name != axis) for names in places]


def _with(places: Places, dim: int, name: str) -> Places:
  return [*places[:dim], (*places[dim], name), *places[dim + 1 :]]


def _parts(names: Sequence[str], sizes: Mapping[str, int]) -> int:
  return math.prod(sizes[name] for name in names)


def _in_tiles(shape: Sequence[int], exchanged: Sequence[int | None]) -> int:
  """What a part costs on a TPU: the numbers stored, times `_BROKEN` for each exchanged dimension of no whole tiles.

  The last two dimensions are stored in the better order.
  """
  rows, columns = TILE

  def up(size, tile):
    return -(-size // tile) * tile

  *before, a, b = shape
  broken = sum(shape[dim] % rows != 0 for dim in set(exchanged) if dim is not None)
  stored = math.prod(before) * min(up(a, rows) * up(b, columns), up(b, rows) * up(a, columns))
  return stored * _BROKEN**broken
