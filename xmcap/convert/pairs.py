"""Pairs of our parameters and another format's tensors. All are checked before a byte is written."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from xmcap.errors import UsageError
from xmcap.files.tensors import FLOATS, Output, Tensor, check_finite

Shape = tuple[int, ...]
Arrays = Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class WeightKind:
  """How our tensors differ from their tensors with the same numbers.

  Attributes:
    their_shapes: our shapes -> theirs.
    to_ours: (their arrays, our shapes) -> our arrays.
    to_theirs: (our arrays, their shapes) -> their arrays; None if this kind is never exported.
    added: indices of our arrays that are sums of theirs; they become float32, so that nothing is rounded.
  """

  their_shapes: Callable[[Sequence[Shape]], Sequence[Shape]]
  to_ours: Callable[[Arrays, Sequence[Shape]], Arrays]
  to_theirs: Callable[[Arrays, Sequence[Shape]], Arrays] | None = None
  added: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Pair:
  """The names of the same numbers on both sides, one or more each, and how they differ."""

  ours: tuple[str, ...]
  theirs: tuple[str, ...]
  kind: WeightKind


def below(prefix: str, pairs: Iterable[Pair]) -> list[Pair]:
  """Returns the pairs with `prefix` before their names."""
  return [dataclasses.replace(pair, theirs=tuple(prefix + name for name in pair.theirs)) for pair in pairs]


def reshaped(their_shape: Callable[[Shape], Shape]) -> WeightKind:
  """Returns the kind of tensors that differ only in shape; `their_shape` maps our shape to theirs."""
  return WeightKind(
    lambda ours: [their_shape(ours[0])],
    lambda theirs, shapes: [theirs[0].reshape(shapes[0])],
    lambda ours, shapes: [ours[0].reshape(shapes[0])],
  )


def leading_ones(count: int) -> WeightKind:
  """Returns the kind of tensors to which the other format adds `count` leading axes of size 1."""
  return reshaped(lambda shape: (1,) * count + shape)


SAME = reshaped(lambda shape: shape)

_TORCH_AXES = {2: (1, 0), 4: (3, 2, 0, 1)}
TORCH_KERNEL = WeightKind(
  lambda ours: [tuple(ours[0][axis] for axis in _TORCH_AXES[len(ours[0])])],
  lambda theirs, _: [theirs[0].transpose(np.argsort(_TORCH_AXES[theirs[0].ndim]))],
  lambda ours, _: [ours[0].transpose(_TORCH_AXES[ours[0].ndim])],
)
"""Ours is [in, out] or [height, width, in, out], torch's [out, in] or [out, in, height, width]."""
JOINED = WeightKind(
  lambda ours: [(sum(shape[-1] for shape in ours), *ours[0][:-1])],
  lambda theirs, shapes: [part.T for part in np.split(theirs[0], len(shapes))],
  lambda ours, _: [np.concatenate([part.T for part in ours])],
)
"""Torch concatenates our query, key and value (kernels or biases) along the first axis of one tensor."""
TIED = WeightKind(lambda ours: [ours[0]], lambda theirs, _: [theirs[0], theirs[0].T])
"""Their embedding is our embedding and, transposed, the kernel of our logits."""


def position_pairs(
  pool: str, positions: tuple[str, int], token: tuple[str, int] | None, token_has_position: bool
) -> list[Pair]:
  """Returns the pairs of a ViT's `position_embedding` and, with pool `tok`, of its `class_token`.

  `positions` and `token` are the names of theirs, each with its number of leading axes of size 1. With
  `token_has_position` the first of their positions is the class token's.
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


def _token_and_positions(token_ones: int, position_ones: int) -> WeightKind:
  """Our class token is their token plus their first position; our positions are the others.

  In an export their first position is zero, since only the sum matters.
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

  return WeightKind(their_shapes, to_ours, to_theirs, added=(0,))


def _later_positions(ones: int) -> WeightKind:
  """Our positions are theirs without the first, which belongs to an unused class token."""
  return WeightKind(
    lambda ours: [(1,) * ones + (ours[0][0] + 1, ours[0][1])],
    lambda theirs, shapes: [theirs[0].reshape(-1, shapes[0][1])[1:]],
  )


Leaf = Callable[[str, str], tuple[str, WeightKind]]
"""(our module, our parameter in it) -> what follows the name of their module, and the kind."""


def torch_leaf(module: str, name: str) -> tuple[str, WeightKind]:
  """The `Leaf` of torch."""
  del module
  if name in ("kernel", "rel_embedding"):
    return ".weight", TORCH_KERNEL
  return ".bias" if name == "bias" else ".weight", SAME


_OF_LAYER = {
  **{name: f"attention/{name}" for name in ("query", "key", "value", "out")},
  **{name: f"mlp/{name}" for name in ("wi", "wo")},
}


def layer_modules(theirs: str, ours: str = "layers_{n}", **names: str) -> dict[str, str]:
  """Returns our modules of a transformer layer -> theirs, for `module_pairs`: `theirs` and what follows it.

  `names` have our names for what follows: `query`, `key`, `value` and `out` of the attention, `wi` and `wo` of the MLP,
  `attention_norm` and `mlp_norm`.
  """
  return {f"{ours}/{_OF_LAYER.get(name, name)}": theirs + after for name, after in names.items()}


def module_pairs(
  paths: Iterable[str],
  modules: Mapping[str, str],
  prefix: str = "",
  others: Sequence[Pair] = (),
  leaf: Leaf = torch_leaf,
) -> list[Pair]:
  """Returns the pairs `others`, and those of all other paths below `prefix`, which follow from the table `modules`.

  The table maps our modules, without `prefix`, to theirs; `{n}` is the number of a layer.
  """
  pairs = list(others)
  paired = {path for pair in others for path in pair.ours}
  for path in paths:
    if path in paired or not path.startswith(prefix):
      continue
    module, _, name = path.removeprefix(prefix).rpartition("/")
    template, n = _template(module)
    after, kind = leaf(module, name)
    pairs.append(Pair((path,), (modules[template].replace("{n}", n) + after,), kind))
  return pairs


def joined_pairs(
  paths: Iterable[str], modules: Mapping[str, str], parts: Sequence[str] = ("query", "key", "value")
) -> list[Pair]:
  """Returns the pairs of projections that torch keeps in one tensor.

  `modules` maps our attention modules to their names up to `weight` or `bias`; `{n}` is the number of a layer.
  """
  pairs = []
  for path in paths:
    match = re.fullmatch(rf"(.*/attention)/{parts[0]}/(kernel|bias)", path)
    if not match:
      continue
    attention, name = match.groups()
    template, n = _template(attention)
    if template in modules:
      ours = tuple(f"{attention}/{part}/{name}" for part in parts)
      theirs = modules[template].replace("{n}", n) + ("weight" if name == "kernel" else "bias")
      pairs.append(Pair(ours, (theirs,), JOINED))
  return pairs


def _template(module: str) -> tuple[str, str]:
  """Splits our module `layers_3/mlp/wi` into `layers_{n}/mlp/wi` and `3`; outside of layers the number is empty."""
  layer = re.search(r"layers_(\d+)", module)
  return (module.replace(layer[0], "layers_{n}"), layer[1]) if layer else (module, "")


def make_outputs(
  pairs: Sequence[Pair],
  source: Mapping[str, Tensor],
  shapes: Mapping[str, Shape],
  where: str,
  asked_by: str,
  may_drop: Mapping[str, str] | None = None,
  export: bool = False,
) -> tuple[list[Output], dict[str, str]]:
  """Returns our outputs from their tensors or, with `export`, theirs from ours; and {name: reason} of unused tensors.

  Args:
    pairs: the pairs of all parameters of our model.
    source: the tensors, from `where`.
    shapes: {path: shape} of our model.
    asked_by: why the tensors must have these shapes, such as `config.json asks`.
    may_drop: {pattern of a whole name in the source: reason} of tensors that need not be used.

  Raises:
    UsageError: a tensor is missing, has another shape, is not floating-point, or has no place in our model.
  """
  outputs, used = [], set()
  for pair in pairs:
    our_shapes = [tuple(shapes[name]) for name in pair.ours]
    ours = pair.ours, our_shapes
    theirs = pair.theirs, [tuple(shape) for shape in pair.kind.their_shapes(our_shapes)]
    (read, read_shapes), (made, made_shapes) = (ours, theirs) if export else (theirs, ours)
    change = pair.kind.to_theirs if export else pair.kind.to_ours
    used |= set(read)
    tensors = [
      _given(source, name, shape, where, asked_by) for name, shape in zip(read, read_shapes, strict=True)
    ]
    dtypes = [tensors[min(i, len(tensors) - 1)].dtype for i in range(len(made))]
    for i in () if export else pair.kind.added:
      dtypes[i] = np.dtype(np.float32)
    outputs.append(_output(made, made_shapes, dtypes, read, tensors, change))
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


def unchanged(tensors: Mapping[str, Tensor], where: str) -> list[Output]:
  """Returns outputs that copy tensors; UsageError if one is not floating-point."""
  pairs = [Pair((name,), (name,), SAME) for name in tensors]
  shapes = {name: tensor.shape for name, tensor in tensors.items()}
  return make_outputs(pairs, tensors, shapes, where, "the checkpoint asks")[0]


def _given(source: Mapping[str, Tensor], name: str, shape: Shape, where: str, asked_by: str) -> Tensor:
  if name not in source:
    longer = next((other for other in source if other.endswith(f".{name}")), "")
    hint = f"; {longer} is there, with a prefix that not all names share" if longer else ""
    raise UsageError(f"{where}: no tensor {name}, which {asked_by} for with shape {shape}{hint}")
  tensor = source[name]
  if tensor.shape != shape:
    raise UsageError(f"{tensor.where}: tensor {name} has shape {tensor.shape}, and {asked_by} for {shape}")
  if tensor.dtype not in FLOATS:
    raise UsageError(
      f"{tensor.where}: tensor {name} {tensor.shape} is {tensor.dtype}, not float32, float16 or bfloat16: quantised"
      " weights cannot be converted"
    )
  return tensor


def _output(names, shapes, dtypes, read: Sequence[str], tensors: Sequence[Tensor], change) -> Output:
  def make():
    inputs = []
    for name, tensor in zip(read, tensors, strict=True):
      inputs.append(tensor.read())
      check_finite(name, inputs[-1], tensor.where)
    arrays = change(inputs, shapes)
    return [np.asarray(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]

  return Output(names, shapes, dtypes, make, tensors[0].group)
