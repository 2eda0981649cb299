"""The pairs of our parameters and another format's tensors; all are checked before a byte is written."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from xmcap.errors import UsageError
from xmcap.tensors.files import FLOATS, Output, Tensor, check_finite

Shape = tuple[int, ...]
Arrays = Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Kind:
  """How our tensors and theirs that hold the same numbers differ.

  Attributes:
    their_shapes: our shapes -> theirs.
    to_ours: (their arrays, our shapes) -> our arrays.
    to_theirs: (our arrays, their shapes) -> their arrays; None: nothing is exported by this kind.
    added: the indices of our arrays that are a sum of theirs, kept in float32 so that nothing is rounded.
  """

  their_shapes: Callable[[Sequence[Shape]], Sequence[Shape]]
  to_ours: Callable[[Arrays, Sequence[Shape]], Arrays]
  to_theirs: Callable[[Arrays, Sequence[Shape]], Arrays] | None = None
  added: tuple[int, ...] = ()


def reshaped(their_shape: Callable[[Shape], Shape]) -> Kind:
  """The same numbers in the same order; `their_shape` maps our shape to theirs."""
  return Kind(
    lambda ours: [their_shape(ours[0])],
    lambda theirs, shapes: [theirs[0].reshape(shapes[0])],
    lambda ours, shapes: [ours[0].reshape(shapes[0])],
  )


def _permuted(order: tuple[int, ...]) -> Kind:
  back = tuple(np.argsort(order).tolist())
  return Kind(
    lambda ours: [tuple(ours[0][axis] for axis in back)],
    lambda theirs, _: [theirs[0].transpose(order)],
    lambda ours, _: [ours[0].transpose(back)],
  )


SAME = reshaped(lambda shape: shape)
TRANSPOSED = _permuted((1, 0))
"""Ours is [in, out], torch's [out, in]."""
PATCH = _permuted((2, 3, 1, 0))
"""Ours is [height, width, channel, out], torch's [out, channel, height, width]."""
LEADING_ONE = reshaped(lambda shape: (1, *shape))
LEADING_ONES = reshaped(lambda shape: (1, 1, *shape))
JOINED = Kind(
  lambda ours: [(sum(shape[-1] for shape in ours), *ours[0][:-1])],
  lambda theirs, shapes: [part.T for part in np.split(theirs[0], len(shapes))],
  lambda ours, _: [np.concatenate([part.T for part in ours])],
)
"""Our query, key and value (kernels or biases) are one tensor of torch, one below the other."""
TIED = Kind(lambda ours: [ours[0]], lambda theirs, _: [theirs[0], theirs[0].T])
"""Their embedding is our embedding and, transposed, the kernel of our logits."""


def token_and_positions(token: Kind, positions: Kind) -> Kind:
  """Our class token is their token plus the first of their positions; our positions are the others.

  On the way out the first position is zero: only the sum counts.

  Args:
    token: [width] -> their class token.
    positions: [1 + patches, width] -> their positions.
  """

  def their_shapes(ours):
    patches, width = ours[1]
    return [*token.their_shapes(ours[:1]), *positions.their_shapes([(patches + 1, width)])]

  def to_ours(theirs, shapes):
    rows = theirs[1].reshape(-1, shapes[1][1])
    return [theirs[0].reshape(-1).astype(np.float32) + rows[0].astype(np.float32), rows[1:]]

  def to_theirs(ours, shapes):
    rows = np.concatenate([np.zeros_like(ours[1][:1]), ours[1]])
    return [ours[0].reshape(shapes[0]), rows.reshape(shapes[1])]

  return Kind(their_shapes, to_ours, to_theirs, added=(0,))


def later_positions(positions: Kind) -> Kind:
  """Our positions are all of theirs but the first, which belongs to a class token that is not taken."""
  return Kind(
    lambda ours: positions.their_shapes([(ours[0][0] + 1, ours[0][1])]),
    lambda theirs, shapes: [theirs[0].reshape(-1, shapes[0][1])[1:]],
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


def import_outputs(
  pairs: Sequence[Pair],
  source: Mapping[str, Tensor],
  shapes: Mapping[str, Shape],
  where: str,
  asked_by: str,
  may_drop: Mapping[str, str],
) -> tuple[list[Output], dict[str, str]]:
  """The outputs for a model of ours from their tensors; every tensor of both sides is used once.

  Args:
    pairs: of the format.
    source: their tensors.
    shapes: of our model.
    where: the source, for messages.
    asked_by: why the tensors must be there with their shapes, such as `config.json asks`.
    may_drop: {pattern of a whole name of theirs: reason}: tensors that may be there and are not used.

  Returns:
    The outputs, and {name: reason} of the tensors that are not used.

  Raises:
    UsageError: a tensor is missing, of another shape, no float, or has no place.
  """
  _check_each_once(pairs, shapes, where)
  outputs, used = [], {}
  for pair in pairs:
    our_shapes = [tuple(shapes[name]) for name in pair.ours]
    tensors = []
    for name, wanted in zip(pair.theirs, pair.kind.their_shapes(our_shapes), strict=True):
      tensors.append(_given(source, name, wanted, where, asked_by))
      if name in used:
        raise UsageError(f"{where}: tensor {name} would be used twice, for {used[name]} and {pair.ours[0]}")
      used[name] = pair.ours[0]
    dtypes = [
      np.dtype(np.float32) if i in pair.kind.added else tensors[0].dtype for i in range(len(pair.ours))
    ]
    outputs.append(_output(pair.ours, our_shapes, dtypes, pair.theirs, tensors, pair.kind.to_ours))
  dropped = {}
  for name in source:
    if name in used:
      continue
    reason = next((why for rule, why in may_drop.items() if re.fullmatch(rule, name)), None)
    if reason is None:
      raise UsageError(
        f"{where}: tensor {name} {source[name].shape} has no place in a model such as {asked_by} for"
      )
    dropped[name] = reason
  return outputs, dropped


def export_outputs(
  pairs: Sequence[Pair], source: Mapping[str, Tensor], shapes: Mapping[str, Shape], where: str
) -> list[Output]:
  """The reverse: the outputs for their model from our tensors, each of which is used once.

  Args:
    pairs: of the format.
    source: our tensors of this part of the model.
    shapes: of the model that the configuration describes.
    where: the source, for messages.

  Raises:
    UsageError: a parameter is missing, of another shape, or has no place.
  """
  _check_each_once(pairs, shapes, where)
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


def _check_each_once(pairs: Sequence[Pair], shapes: Mapping[str, Shape], where: str) -> None:
  """Refuses a table that does not make each parameter of the model exactly once."""
  made = [name for pair in pairs for name in pair.ours]
  if len(made) != len(shapes) or set(made) != set(shapes):
    wrong = set(made) ^ set(shapes) or {name for name in made if made.count(name) > 1}
    raise UsageError(f"{where}: no such conversion: it does not make {', '.join(sorted(wrong)[:3])} once")


def _output(names, shapes, dtypes, read: Sequence[str], tensors: Sequence[Tensor], change) -> Output:
  def make():
    given = []
    for name, tensor in zip(read, tensors, strict=True):
      given.append(tensor.read())
      check_finite(name, given[-1], tensor.where)
    arrays = change(given, shapes)
    return [np.asarray(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]

  return Output(names, [tuple(shape) for shape in shapes], dtypes, make, tensors[0].group)
