"""Which tensor of ours is which of theirs: a format is a table of pairs, checked in full before a byte is written."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from xmcap.errors import UsageError
from xmcap.tensors.files import FLOATS, Output, Tensor, check_finite

Shape = tuple[int, ...]
Arrays = Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Kind:
  """How tensors of ours and of theirs that hold the same numbers differ.

  Attributes:
    their_shapes: our shapes -> theirs.
    to_ours: (their arrays, our shapes) -> our arrays.
    to_theirs: (our arrays, their shapes) -> their arrays.
    added: the indices of ours that are a sum of theirs, kept in float32 so that nothing is rounded.
  """

  their_shapes: Callable[[Sequence[Shape]], Sequence[Shape]]
  to_ours: Callable[[Arrays, Sequence[Shape]], Arrays]
  to_theirs: Callable[[Arrays, Sequence[Shape]], Arrays]
  added: tuple[int, ...] = ()


def _permuted(order: tuple[int, ...]) -> Kind:
  back = tuple(int(axis) for axis in np.argsort(order))
  return Kind(
    lambda ours: [tuple(ours[0][axis] for axis in back)],
    lambda theirs, _: [theirs[0].transpose(order)],
    lambda ours, _: [ours[0].transpose(back)],
  )


def reshaped(their_shape: Callable[[Shape], Shape]) -> Kind:
  """The same numbers in the same order under another shape, which is a function of ours."""
  return Kind(
    lambda ours: [tuple(their_shape(ours[0]))],
    lambda theirs, shapes: [theirs[0].reshape(shapes[0])],
    lambda ours, shapes: [ours[0].reshape(shapes[0])],
  )


SAME = reshaped(lambda shape: shape)
TRANSPOSED = _permuted((1, 0))
"""[in, out] of ours is torch's [out, in]."""
PATCH = _permuted((2, 3, 1, 0))
"""[height, width, channel, out] of ours is torch's [out, channel, height, width]."""
LEADING_ONE = reshaped(lambda shape: (1, *shape))
LEADING_ONES = reshaped(lambda shape: (1, 1, *shape))

JOINED = Kind(
  lambda ours: [(sum(shape[-1] for shape in ours), *ours[0][:-1])],
  lambda theirs, shapes: [part.T for part in np.split(theirs[0], len(shapes))],
  lambda ours, _: [np.concatenate([part.T for part in ours])],
)
"""Query, key and value of ours are one tensor of torch, one below the other; kernels or biases."""


def _one_way(*_):
  raise NotImplementedError("nothing is exported by this kind")


TIED = Kind(lambda ours: [ours[0]], lambda theirs, _: [theirs[0], theirs[0].T], _one_way)
"""Their embedding is our embedding and, transposed, the kernel of our logits. One way only."""


def token_and_positions(token: Callable[[Shape], Shape], positions: Callable[[Shape], Shape]) -> Kind:
  """Our class token is their token plus the first of their positions; our positions are the rest.

  Back, the token takes it all and the first position is zero: the sum, which is all that counts, is the same.

  Args:
    token: [width] -> their shape of the class token.
    positions: [1 + num_patches, width] -> their shape of the positions.
  """

  def their_shapes(ours):
    (width,), (patches, _) = ours
    return [tuple(token((width,))), tuple(positions((patches + 1, width)))]

  def to_ours(theirs, shapes):
    rows = theirs[1].reshape(-1, shapes[1][1])
    return [theirs[0].reshape(-1).astype(np.float32) + rows[0].astype(np.float32), rows[1:]]

  def to_theirs(ours, shapes):
    rows = np.concatenate([np.zeros_like(ours[1][:1]), ours[1]])
    return [ours[0].reshape(shapes[0]), rows.reshape(shapes[1])]

  return Kind(their_shapes, to_ours, to_theirs, added=(0,))


def later_positions(positions: Callable[[Shape], Shape]) -> Kind:
  """Our positions are theirs but the first, which was that of a class token we do not take. One way only."""
  return Kind(
    lambda ours: [tuple(positions((ours[0][0] + 1, ours[0][1])))],
    lambda theirs, shapes: [theirs[0].reshape(-1, shapes[0][1])[1:]],
    _one_way,
  )


@dataclasses.dataclass(frozen=True)
class Pair:
  """Names on both sides of the same numbers, one or more each, and how they differ."""

  ours: tuple[str, ...]
  theirs: tuple[str, ...]
  kind: Kind


Row = tuple[str | tuple[str, ...], str | tuple[str, ...], Kind]
"""A line of a format's table: our name(s), their name(s), kind."""


def expand(rows: Iterable[Row], ours: str = "", theirs: str = "") -> list[Pair]:
  """Pairs from the lines of a table, below a prefix on each side."""

  def names(given, prefix):
    return tuple(prefix + name for name in ((given,) if isinstance(given, str) else given))

  return [Pair(names(mine, ours), names(other, theirs), kind) for mine, other, kind in rows]


@dataclasses.dataclass(frozen=True)
class Dropped:
  """A tensor that stays behind, by a rule that names it, and why."""

  name: str
  reason: str


def import_outputs(
  pairs: Sequence[Pair],
  source: Mapping[str, Tensor],
  shapes: Mapping[str, Shape],
  where: str,
  asked_by: str,
  may_drop: Mapping[str, str] | None = None,
) -> tuple[list[Output], list[Dropped]]:
  """What to write for a model of ours from tensors of theirs; every tensor of both sides is used once.

  Args:
    pairs: the format's.
    source: their tensors.
    shapes: of the model that they are to become.
    where: the source, for messages.
    asked_by: what says that the tensors must be there and so large, such as `config.json asks`.
    may_drop: {pattern of a whole name of theirs: reason}: what may be there and is not used.

  Raises:
    UsageError: a tensor is missing, of another shape, no float, or has no place.
  """
  _check_once([name for pair in pairs for name in pair.ours], shapes, "this model", where)
  used: dict[str, Pair] = {}
  outputs = []
  for pair in pairs:
    our_shapes = [tuple(shapes[name]) for name in pair.ours]
    tensors = []
    for name, wanted in zip(pair.theirs, pair.kind.their_shapes(our_shapes), strict=True):
      tensors.append(_given(source, name, wanted, where, asked_by))
      if name in used:
        raise UsageError(
          f"{where}: tensor {name} would be used twice, for {used[name].ours[0]} and {pair.ours[0]}"
        )
      used[name] = pair
    dtype = tensors[0].dtype
    dtypes = [np.dtype(np.float32) if i in pair.kind.added else dtype for i in range(len(pair.ours))]
    outputs.append(_output(pair.ours, our_shapes, dtypes, pair.theirs, tensors, pair.kind.to_ours))
  dropped = []
  for name in source:
    if name not in used:
      reason = next((why for rule, why in (may_drop or {}).items() if re.fullmatch(rule, name)), None)
      if reason is None:
        raise UsageError(
          f"{where}: tensor {name} {source[name].shape} has no place in a model such as {asked_by} for"
        )
      dropped.append(Dropped(name, reason))
  return outputs, dropped


def export_outputs(
  pairs: Sequence[Pair], source: Mapping[str, Tensor], shapes: Mapping[str, Shape], where: str
):
  """The other way: their tensors from ours; every tensor of ours below the pairs' names is used once.

  Args:
    pairs: the format's.
    source: our tensors, those of this part of the model alone.
    shapes: of the model that the configuration describes.
    where: the source, for messages.

  Returns:
    The outputs.

  Raises:
    UsageError: a parameter is missing, of another shape, or has no place.
  """
  _check_once([name for pair in pairs for name in pair.ours], shapes, "this model", where)
  for name in source:
    if name not in shapes:
      raise UsageError(
        f"{where}: parameter {name} {source[name].shape} has no place in the model that its configuration describes"
      )
  outputs = []
  for pair in pairs:
    tensors = [
      _given(source, name, tuple(shapes[name]), where, "its configuration asks") for name in pair.ours
    ]
    their_shapes = pair.kind.their_shapes([tensor.shape for tensor in tensors])
    dtypes = [tensors[min(i, len(tensors) - 1)].dtype for i in range(len(pair.theirs))]
    outputs.append(_output(pair.theirs, their_shapes, dtypes, pair.ours, tensors, pair.kind.to_theirs))
  return outputs


def _given(source: Mapping[str, Tensor], name: str, wanted: Shape, where: str, asked_by: str) -> Tensor:
  if name not in source:
    raise UsageError(f"{where}: no tensor {name}, which {asked_by} for with shape {tuple(wanted)}")
  tensor = source[name]
  if tensor.shape != tuple(wanted):
    raise UsageError(
      f"{tensor.where}: tensor {name} has shape {tensor.shape}, and {asked_by} for {tuple(wanted)}"
    )
  if tensor.dtype not in FLOATS:
    raise UsageError(
      f"{tensor.where}: tensor {name} {tensor.shape} is {tensor.dtype}, not float32, float16 or bfloat16: quantised"
      " weights cannot be converted"
    )
  return tensor


def _check_once(made: Sequence[str], shapes: Mapping[str, Shape], model: str, where: str) -> None:
  """Each parameter of the model is made by one pair: a slip in a table shows before anything is written."""
  twice = {name for name in made if made.count(name) > 1} if len(set(made)) < len(made) else set()
  for names, what in (
    (twice, "made twice"), (set(shapes) - set(made), "not made"), (set(made) - set(shapes), "unknown"),
  ):  # fmt: skip
    if names:
      raise UsageError(
        f"{where}: parameters {what} of {model}: {', '.join(sorted(names)[:3])}; no such conversion"
      )


def _output(names, shapes, dtypes, read: Sequence[str], tensors: Sequence[Tensor], change) -> Output:
  def make():
    given = []
    for name, tensor in zip(read, tensors, strict=True):
      given.append(tensor.read())
      check_finite(name, given[-1], tensor.where)
    arrays = change(given, shapes)
    return [np.asarray(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]

  return Output(names, [tuple(shape) for shape in shapes], dtypes, make, tensors[0].group)


def count(shapes: Mapping[str, Shape]) -> int:
  """How many numbers."""
  return sum(math.prod(shape) for shape in shapes.values())
