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


@dataclasses.dataclass(frozen=True)
class Pair:
  """Names on both sides of the same numbers, one or more each, and how they differ."""

  ours: tuple[str, ...]
  theirs: tuple[str, ...]
  kind: Kind


def reshaped(their_shape: Callable[[Shape], Shape]) -> Kind:
  """The same numbers in the same order; `their_shape` maps our shape to theirs."""
  return Kind(
    lambda ours: [their_shape(ours[0])],
    lambda theirs, shapes: [theirs[0].reshape(shapes[0])],
    lambda ours, shapes: [ours[0].reshape(shapes[0])],
  )


SAME = reshaped(lambda shape: shape)

_TORCH_AXES = {2: (1, 0), 4: (3, 2, 0, 1)}
TORCH_KERNEL = Kind(
  lambda ours: [tuple(ours[0][axis] for axis in _TORCH_AXES[len(ours[0])])],
  lambda theirs, _: [theirs[0].transpose(np.argsort(_TORCH_AXES[theirs[0].ndim]))],
  lambda ours, _: [ours[0].transpose(_TORCH_AXES[ours[0].ndim])],
)
"""Ours is [in, out] or [height, width, in, out], torch's [out, in] or [out, in, height, width]."""
JOINED = Kind(
  lambda ours: [(sum(shape[-1] for shape in ours), *ours[0][:-1])],
  lambda theirs, shapes: [part.T for part in np.split(theirs[0], len(shapes))],
  lambda ours, _: [np.concatenate([part.T for part in ours])],
)
"""Our query, key and value (kernels or biases) are one tensor of torch, one below the other."""
TIED = Kind(lambda ours: [ours[0]], lambda theirs, _: [theirs[0], theirs[0].T])
"""Their embedding is our embedding and, transposed, the kernel of our logits."""


def leading_ones(count: int) -> Kind:
  """Theirs has so many axes of size 1 before ours."""
  return reshaped(lambda shape: (1,) * count + shape)


def position_pairs(
  pool: str, positions: tuple[str, int], token: tuple[str, int] | None, token_has_position: bool
) -> list[Pair]:
  """The pairs of a ViT's `position_embedding` and, with pool `tok`, of its `class_token`.

  Of their positions, and of their class token if there is one, the name is given and how many axes of size 1 come
  first. `token_has_position`: the first of their positions is the class token's.
  """
  name, ones = positions
  ours = ("vit/position_embedding",)
  if pool == "tok" and token and token_has_position:
    return [Pair(("vit/class_token", *ours), (token[0], name), _token_and_positions(token[1], ones))]
  if token_has_position:
    return [Pair(ours, (name,), _later_positions(ones))]
  pairs = [Pair(ours, (name,), leading_ones(ones))]
  if pool == "tok" and token:
    pairs.append(Pair(("vit/class_token",), (token[0],), leading_ones(token[1])))
  return pairs


def _token_and_positions(token_ones: int, position_ones: int) -> Kind:
  """Our class token is their token plus the first of their positions; our positions are the others.

  On the way out the first position is zero: only the sum counts.
  """

  def their_shapes(ours):
    patches, width = ours[1]
    return [(1,) * token_ones + (width,), (1,) * position_ones + (patches + 1, width)]

  def to_ours(theirs, shapes):
    rows = theirs[1].reshape(-1, shapes[1][1])
    return [theirs[0].reshape(-1).astype(np.float32) + rows[0].astype(np.float32), rows[1:]]

  def to_theirs(ours, shapes):
    rows = np.concatenate([np.zeros_like(ours[1][:1]), ours[1]])
    return [ours[0].reshape(shapes[0]), rows.reshape(shapes[1])]

  return Kind(their_shapes, to_ours, to_theirs, added=(0,))


def _later_positions(ones: int) -> Kind:
  """Our positions are all of theirs but the first, which belongs to a class token that is not taken."""
  return Kind(
    lambda ours: [(1,) * ones + (ours[0][0] + 1, ours[0][1])],
    lambda theirs, shapes: [theirs[0].reshape(-1, shapes[0][1])[1:]],
  )


Leaf = Callable[[str, str], tuple[str, Kind]]
"""(our module, our parameter in it) -> what follows the name of their module, and the kind."""


def torch_leaf(module: str, name: str) -> tuple[str, Kind]:
  """The `Leaf` of torch."""
  del module
  if name in ("kernel", "rel_embedding"):
    return ".weight", TORCH_KERNEL
  return ".bias" if name == "bias" else ".weight", SAME


def module_pairs(
  paths: Iterable[str], modules: Mapping[str, str], leaf: Leaf, prefix: str = "", others: Sequence[Pair] = ()
) -> list[Pair]:
  """The pairs of a format for our paths: `others`, and those that follow from a table, our module -> theirs.

  In the table `{n}` is the number of a layer, and our modules are without `prefix`.
  """
  pairs = list(others)
  paired = {path for pair in others for path in pair.ours}
  for path in paths:
    if path in paired:
      continue
    module, _, name = path.removeprefix(prefix).rpartition("/")
    layer = re.search(r"layers_(\d+)", module)
    if layer:
      module = module.replace(layer[0], "layers_{n}")
    after, kind = leaf(module, name)
    other = modules[module].replace("{n}", layer[1] if layer else "")
    pairs.append(Pair((path,), (other + after,), kind))
  return pairs


def joined_pairs(
  paths: Iterable[str], modules: Mapping[str, str], parts: Sequence[str] = ("query", "key", "value")
) -> list[Pair]:
  """The pairs of projections that torch keeps in one tensor.

  `modules`: our attention, `{n}` for the number of a layer -> their name up to `weight` or `bias`.
  """
  pairs = []
  for path in paths:
    found = re.fullmatch(rf"(.*/attention)/{parts[0]}/(kernel|bias)", path)
    if not found:
      continue
    layer = re.search(r"layers_(\d+)", found[1])
    module = found[1].replace(layer[0], "layers_{n}") if layer else found[1]
    if module in modules:
      name = modules[module].replace("{n}", layer[1] if layer else "")
      ours = tuple(f"{found[1]}/{part}/{found[2]}" for part in parts)
      pairs.append(Pair(ours, (name + ("weight" if found[2] == "kernel" else "bias"),), JOINED))
  return pairs


def make_outputs(
  pairs: Sequence[Pair],
  source: Mapping[str, Tensor],
  shapes: Mapping[str, Shape],
  where: str,
  asked_by: str,
  may_drop: Mapping[str, str] | None = None,
  export: bool = False,
) -> tuple[list[Output], dict[str, str]]:
  """Our outputs from their tensors, or with `export` theirs from ours; every tensor of both sides is used once.

  Args:
    pairs: of the format, with all parameters of our model.
    source: the tensors.
    shapes: {path: shape} of our model.
    where: the source, for messages.
    asked_by: why the tensors must be there with their shapes, such as `config.json asks`.
    may_drop: {pattern of a whole name in the source: reason}: tensors that may be there and are not used.

  Returns:
    The outputs, and {name: reason} of the tensors that are not used.

  Raises:
    UsageError: a tensor is missing, of another shape, no float, or has no place.
  """
  outputs, used = [], {}
  for pair in pairs:
    our_shapes = [tuple(shapes[name]) for name in pair.ours]
    mine = pair.ours, our_shapes, pair.kind.to_ours
    other = pair.theirs, [tuple(shape) for shape in pair.kind.their_shapes(our_shapes)], pair.kind.to_theirs
    (given, given_shapes, _), (made, made_shapes, change) = (mine, other) if export else (other, mine)
    tensors = []
    for name, wanted in zip(given, given_shapes, strict=True):
      tensors.append(_given(source, name, wanted, where, asked_by))
      if name in used:
        raise UsageError(f"{where}: tensor {name} would be used twice, for {used[name]} and {made[0]}")
      used[name] = made[0]
    dtypes = [tensors[min(i, len(tensors) - 1)].dtype for i in range(len(made))]
    for i in () if export else pair.kind.added:
      dtypes[i] = np.dtype(np.float32)
    outputs.append(_output(made, made_shapes, dtypes, given, tensors, change))
  dropped = {}
  for name in source:
    if name in used:
      continue
    reason = next((why for rule, why in (may_drop or {}).items() if re.fullmatch(rule, name)), None)
    if reason is None:
      raise UsageError(
        f"{where}: tensor {name} {source[name].shape} has no place in a model such as {asked_by} for"
      )
    dropped[name] = reason
  return outputs, dropped


def _given(source: Mapping[str, Tensor], name: str, wanted: Shape, where: str, asked_by: str) -> Tensor:
  if name not in source:
    raise UsageError(f"{where}: no tensor {name}, which {asked_by} for with shape {wanted}")
  tensor = source[name]
  if tensor.shape != wanted:
    raise UsageError(f"{tensor.where}: tensor {name} has shape {tensor.shape}, and {asked_by} for {wanted}")
  if tensor.dtype not in FLOATS:
    raise UsageError(
      f"{tensor.where}: tensor {name} {tensor.shape} is {tensor.dtype}, not float32, float16 or bfloat16: quantised"
      " weights cannot be converted"
    )
  return tensor


def _output(names, shapes, dtypes, read: Sequence[str], tensors: Sequence[Tensor], change) -> Output:
  def make():
    given = []
    for name, tensor in zip(read, tensors, strict=True):
      given.append(tensor.read())
      check_finite(name, given[-1], tensor.where)
    arrays = change(given, shapes)
    return [np.asarray(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]

  return Output(names, shapes, dtypes, make, tensors[0].group)
