"""Decides where a run starts from: one numbered list, in order of precedence."""

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from xmcap.errors import UsageError, XmcapError
from xmcap.tensors.files import Tensor
from xmcap.training.checkpoints.read import damaged_dir, damaged_steps, first_readable, flat, restore
from xmcap.training.checkpoints.weights import Weights, open_weights
from xmcap.training.hosts import join as hosts
from xmcap.training.step import TrainState

Pretrained = str | Sequence[str | tuple[str, str]]


def starting_state(
  checkpoints: Any,
  create: Callable[[Collection[str]], TrainState],
  target: TrainState,
  initial_checkpoint: str | None = None,
  pretrained: Pretrained = (),
  from_scratch: bool = False,
  other_data: bool = False,
  say: Callable[[str], None] = print,
) -> tuple[TrainState, str]:
  """Returns the state that a run begins with, and a line that says where it came from.

  In this order:

  1. The run's own newest readable checkpoint: the run resumes. If it was trained on other data, the run is refused,
     unless `other_data`.
  2. If the run has none, but `damaged/` holds checkpoints that could not be read, the run is refused, unless
     `from_scratch`.
  3. `initial_checkpoint`: the whole state (parameters, optimizer state, step) of another run.
  4. `pretrained`: parameters put over fresh ones; the optimizer begins anew, at step 0.
  5. Scratch.

  Args:
    checkpoints: of the run; has `directory` and `restore_latest(target, other_data, say)`, as `write.Checkpoints`.
    create: `StatePlan.create`.
    target: shapes and shardings of the state.
    initial_checkpoint: a run's folder (its newest readable checkpoint), its `checkpoints`, or one checkpoint.
    pretrained: see `pretrained_parts`.
    from_scratch, other_data: what the user allows.
    say: prints a line about each setting that has changed since the checkpoint.
  """
  if initial_checkpoint and pretrained:
    raise UsageError(
      "train: give initial_checkpoint (a whole state) or pretrained (parts of the parameters), not both"
    )
  state = checkpoints.restore_latest(target, other_data, say)
  if state is not None:
    return state, f"resuming from step {int(state.step)} in {checkpoints.directory}"
  if not from_scratch:
    steps, damaged = damaged_steps(checkpoints.directory), damaged_dir(checkpoints.directory)
    refusal = (
      f"{checkpoints.directory}: none of the checkpoints {steps} can be read; they are in {damaged}: put a whole one"
      " back, begin anew by --from_scratch, or remove that folder"
    )
    # Process 0 decides for all, as the folder may change at any moment.
    if refusal := hosts.agree("whether to begin anew", refusal if steps else "")[0]:
      raise XmcapError(refusal)
  if initial_checkpoint:
    path, state = first_readable(initial_checkpoint, lambda path: restore(path, target))
    return state, f"going on from {path} (step {int(state.step)})"
  if pretrained:
    # The parts are checked before minutes go into making the fresh state.
    parts, origin = pretrained_parts(target.params, pretrained)
    return overlay(create([path for path in flat(target.params) if path in parts]), parts), origin
  return create(()), "starting from scratch"


def pretrained_parts(target: Any, pretrained: Pretrained) -> tuple[dict[str, Tensor], str]:
  """Returns {path: tensor} of all that `pretrained` gives a model, not yet read, and a line that says what it is.

  Args:
    target: the model's parameters or their shapes.
    pretrained: a folder, or a list of folders and (folder, prefix) pairs. A folder is a run's, a checkpoint, or one
      that `xmcap convert` wrote. A folder alone gives all that it holds, which must have a place in the model. With a
      prefix (a path such as `vit`; "" is all) it gives every parameter of the model below that, and must hold each.
      Position embeddings of another grid are resized.
  """
  model = flat(target)
  parts: dict[str, Tensor] = {}
  sources, lines = [], []
  for item in [pretrained] if isinstance(pretrained, str) else pretrained:
    folder, prefix = _folder_and_prefix(item)
    weights = open_weights(folder)
    taken = _taken(weights, model, folder, prefix)
    fitted = {path: _fitted(path, tensor, model[path].shape, weights) for path, tensor in taken.items()}
    both = sorted(set(fitted) & set(parts))
    if both:
      raise UsageError(
        f"train.pretrained: {both[0]} is in {folder} and in one before it: write ('{folder}', 'PREFIX') for one part"
      )
    names = ", ".join(sorted({path.split("/")[0] for path in fitted})) if prefix is None else prefix
    sources.append(f"{names or 'all parameters'} from {folder}")
    lines += [line for _, line in fitted.values() if line]
    parts |= {path: tensor for path, (tensor, _) in fitted.items()}
  fresh = _fresh(set(model), set(parts))
  if fresh:
    logging.info("parameters that begin fresh: %s", ", ".join(fresh))
    more = f" and {len(fresh) - 6} more" if len(fresh) > 6 else ""
    lines.append(f"fresh: {', '.join(fresh[:6])}{more}")
  return parts, "; ".join([f"starting with {', '.join(sources)}", *lines])


def overlay(state: TrainState, parts: Mapping[str, Tensor]) -> TrainState:
  """Puts tensors in the place of a state's parameters, one at a time, with their dtypes and shardings."""
  paths, (leaves, structure) = list(flat(state.params)), jax.tree.flatten(state.params)
  # Only the list holds the fresh parameters now, so each is freed when it is replaced.
  state = state.replace(params=None)
  for index, path in enumerate(paths):
    if path in parts:
      host = np.asarray(parts[path].read(), leaves[index].dtype)
      shape, sharding = leaves[index].shape, leaves[index].sharding
      leaves[index] = jax.make_array_from_callback(shape, sharding, lambda part, host=host: host[part])
  return state.replace(params=jax.tree.unflatten(structure, leaves))


def _folder_and_prefix(item: Any) -> tuple[str, str | None]:
  if isinstance(item, str | os.PathLike):
    return os.fspath(item), None
  if isinstance(item, Sequence) and len(item) == 2 and all(isinstance(part, str) for part in item):
    return item[0], item[1]
  raise UsageError(f"train.pretrained: {item!r} is neither a folder nor a (folder, prefix) pair")


def _taken(weights: Weights, model: Mapping[str, Any], folder: str, prefix: str | None) -> dict[str, Tensor]:
  """The tensors below a prefix, which must be those of the model; None: all of a folder, which may lack some."""

  def below(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not prefix or f"{path}/".startswith(f"{prefix.rstrip('/')}/")]

  wanted = below(model)
  missing = [path for path in wanted if path not in weights.tensors]
  extra = sorted(set(below(weights.tensors)) - set(wanted))
  if prefix is None and extra:
    raise XmcapError(
      f"{weights.where}: {extra[0]} {weights.tensors[extra[0]].shape} (and {len(extra) - 1} more) has no place in this"
      f" model: {weights.hint}, or name the part to take, as in ('{folder}', '{weights.parts()[0]}')"
    )
  if not wanted:
    parts = sorted({path.split("/")[0] for path in model})
    raise UsageError(
      f"train.pretrained: no parameter of this model lies below {prefix!r}; its parts are {', '.join(parts)}"
    )
  if prefix is not None and missing:
    shape = tuple(model[missing[0]].shape)
    raise XmcapError(f"{weights.where}: no {missing[0]}, which this model has {shape}: {weights.hint}")
  if extra:
    logging.warning(
      "%s: %d parameters below %r have no place in this model: %s ...", folder, len(extra), prefix, extra[0]
    )
  return {path: weights.tensors[path] for path in wanted if path in weights.tensors}


def _fitted(path: str, tensor: Tensor, shape: tuple[int, ...], weights: Weights) -> tuple[Tensor, str]:
  """The tensor in the model's shape, and a line that says what was done for that, if anything."""
  if tensor.shape == shape:
    return tensor, ""
  is_position = path.rpartition("/")[2] == "position_embedding" and len(shape) == len(tensor.shape) == 2
  old, new = (math.isqrt(size[0]) for size in (tensor.shape, shape)) if is_position else (0, 0)
  if not is_position or (old * old, new * new) != (tensor.shape[0], shape[0]) or tensor.shape[1] != shape[1]:
    raise XmcapError(
      f"{weights.where}: {path} has shape {tensor.shape}, and this model's has {shape}: {weights.hint}"
    )

  def read() -> np.ndarray:
    return _resized(tensor.read(), old, new)

  line = f"{path} resized from {old} x {old} to {new} x {new} patches"
  return Tensor(shape, np.dtype(np.float32), read, tensor.where), line


def _resized(positions: np.ndarray, old: int, new: int) -> np.ndarray:
  """Position embeddings of another grid, [old * old, width] -> [new * new, width], bilinear as in big_vision."""
  from scipy import ndimage  # takes half a second, and few runs need it

  grid = positions.astype(np.float32).reshape(old, old, -1)
  return np.asarray(ndimage.zoom(grid, (new / old, new / old, 1), order=1)).reshape(new * new, -1)


def _fresh(model: set[str], taken: set[str]) -> list[str]:
  """The parameters that are not taken; a part of the model with none taken is given by its name alone."""
  inner = {path.rsplit("/", depth)[0] for path in taken for depth in range(1, path.count("/") + 1)}
  fresh = set()
  for path in model - taken:
    parts = path.split("/")
    names = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    fresh.add(next(name for name in names if name not in inner))
  return sorted(fresh)
