"""Decides where a run starts from, in a numbered order of precedence."""

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from xmcap.errors import UsageError, XmcapError
from xmcap.files.tensors import Tensor
from xmcap.training.checkpoints.read import damaged_dir, damaged_steps, first_readable, flat, restore
from xmcap.training.checkpoints.train_state import TrainState, placed_ema
from xmcap.training.checkpoints.weights import PARAMS, Weights, open_weights
from xmcap.training.hosts import join as hosts

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

  The first of these that applies:

  1. The run's own newest readable checkpoint: the run resumes. If it was trained on other data, that is an error,
     unless `other_data` is set.
  2. If the run has no checkpoint, but `damaged/` holds some that could not be read, that is an error, unless
     `from_scratch` is set.
  3. `initial_checkpoint`: the whole state (parameters, optimizer state, step) of another run.
  4. `pretrained`: parameters that replace fresh ones, with a fresh optimizer state, at step 0.
  5. Scratch.

  Args:
    checkpoints: has `directory` and `restore_latest(target, other_data, say)`, as `write.Checkpoints`.
    create: `StatePlan.create`.
    target: shapes and shardings of the state.
    initial_checkpoint: a run's folder (its newest readable checkpoint), its `checkpoints` folder, or one checkpoint.
    pretrained: see `pretrained_parts`.
    from_scratch, other_data: see 2 and 1.
    say: prints a line for each setting that has changed since the checkpoint.
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
      f"{checkpoints.directory}: none of the checkpoints {steps} can be read; they are in {damaged}: put an intact copy"
      " back, start over with --from_scratch, or remove that folder"
    )
    # Process 0 decides for all, because the folder may change at any moment.
    if refusal := hosts.agree("whether to start over", refusal if steps else "")[0]:
      raise XmcapError(refusal)
  if initial_checkpoint:
    path, state = first_readable(initial_checkpoint, lambda path: restore(path, target, say=say))
    return state, f"continuing from {path} (step {int(state.step)})"
  if pretrained:
    # Check the parts before the fresh state is made, which can take minutes.
    parts, origin = pretrained_parts(target.params, pretrained)
    return overlay(create([path for path in flat(target.params) if path in parts]), parts), origin
  return create(()), "starting from scratch"


def pretrained_parts(target: Any, pretrained: Pretrained) -> tuple[dict[str, Tensor], str]:
  """Returns the pretrained parameters of a model as {path: tensor}, not yet read, and a line that describes them.

  Args:
    target: the model's parameters or their shapes.
    pretrained: a folder, or a list of folders and (folder, prefix) pairs. A folder is that of a run (its best or
      newest checkpoint, see `open_weights`), a checkpoint, or the output of `xmcap convert`. From a folder alone all
      parameters are taken, and each must exist in the model. With a prefix (a path such as `vit`; "" is the whole
      model) all parameters of the model below the prefix are taken, and each must exist in the folder. Position
      embeddings for another grid are resized.
  """
  model = flat(target)
  parts: dict[str, Tensor] = {}
  sources, lines = [], []
  for folder, prefix in folders_and_prefixes(pretrained):
    weights = open_weights(folder)
    taken = _taken(weights, model, folder, prefix)
    fitted = {path: _fitted(path, tensor, model[path].shape, weights) for path, tensor in taken.items()}
    both = sorted(set(fitted) & set(parts))
    if both:
      raise UsageError(
        f"train.pretrained: {both[0]} is in {folder} and in an earlier one: write ('{folder}', 'PREFIX') for one part"
      )
    names = ", ".join(sorted({path.split("/")[0] for path in fitted})) if prefix is None else prefix
    sources.append(f"{names or 'all parameters'} from {weights.where.removesuffix(f'/{PARAMS}')}")
    lines += [line for _, line in fitted.values() if line]
    parts |= {path: tensor for path, (tensor, _) in fitted.items()}
  fresh = _fresh(set(model), set(parts))
  if fresh:
    logging.info("randomly initialized parameters: %s", ", ".join(fresh))
    more = f" and {len(fresh) - 6} more" if len(fresh) > 6 else ""
    lines.append(f"randomly initialized: {', '.join(fresh[:6])}{more}")
  return parts, "; ".join([f"starting with {', '.join(sources)}", *lines])


def folders_and_prefixes(pretrained: Pretrained) -> list[tuple[str, str | None]]:
  """The (folder, prefix) pairs of `pretrained`; the prefix of a folder alone is None. UsageError for other items."""
  pairs: list[tuple[str, str | None]] = []
  for item in [pretrained] if isinstance(pretrained, str | os.PathLike) else pretrained:
    if isinstance(item, str | os.PathLike):
      pairs.append((os.fspath(item), None))
    elif isinstance(item, Sequence) and len(item) == 2 and all(isinstance(part, str) for part in item):
      pairs.append((item[0], item[1]))
    else:
      raise UsageError(f"train.pretrained: {item!r} is neither a folder nor a (folder, prefix) pair")
  return pairs


def overlay(state: TrainState, parts: Mapping[str, Tensor]) -> TrainState:
  """Replaces parameters of a state by tensors, one at a time, keeping dtypes and shardings; an EMA begins at them."""
  paths = list(flat(state.params))
  leaves, structure = jax.tree.flatten(state.params)
  # Now only the list refers to the fresh parameters, so each is freed when it is replaced.
  ema = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state.ema
  )
  state = state.replace(params=None, ema=None)
  for index, path in enumerate(paths):
    if path in parts:
      host = np.asarray(parts[path].read(), leaves[index].dtype)
      shape, sharding = leaves[index].shape, leaves[index].sharding
      leaves[index] = jax.make_array_from_callback(shape, sharding, lambda part, host=host: host[part])
  params = jax.tree.unflatten(structure, leaves)
  return state.replace(params=params, ema=ema and placed_ema(ema, params))


def _taken(weights: Weights, model: Mapping[str, Any], folder: str, prefix: str | None) -> dict[str, Tensor]:
  """The tensors below a prefix, all of which the model needs; None: all in the folder, which need not be complete."""

  def below(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not prefix or f"{path}/".startswith(f"{prefix.rstrip('/')}/")]

  needed = below(model)
  extra = sorted(set(below(weights.tensors)) - set(needed))
  if prefix is None:
    if extra:
      raise XmcapError(
        f"{weights.where}: {extra[0]} {weights.tensors[extra[0]].shape} (and {len(extra) - 1} more) is not in this"
        f" model: {weights.hint}, or name the part to take, as in ('{folder}', '{weights.parts()[0]}')"
      )
    return {path: weights.tensors[path] for path in needed if path in weights.tensors}
  if not needed:
    parts = sorted({path.split("/")[0] for path in model})
    raise UsageError(
      f"train.pretrained: this model has no parameters below {prefix!r}; its parts are {', '.join(parts)}"
    )
  for path in needed:
    if path not in weights.tensors:
      shape = tuple(model[path].shape)
      raise XmcapError(f"{weights.where}: {path} {shape} of this model is missing: {weights.hint}")
  if extra:
    logging.warning(
      "%s: %d parameters below %r are not in this model: %s ...", folder, len(extra), prefix, extra[0]
    )
  return {path: weights.tensors[path] for path in needed}


def _fitted(path: str, tensor: Tensor, shape: tuple[int, ...], weights: Weights) -> tuple[Tensor, str]:
  """The tensor in the model's shape, and a line that says how it was resized, if it was."""
  if tensor.shape == shape:
    return tensor, ""
  is_position = path.rpartition("/")[2] == "position_embedding" and len(shape) == len(tensor.shape) == 2
  old, new = (math.isqrt(size[0]) for size in (tensor.shape, shape)) if is_position else (0, 0)
  if not is_position or (old * old, new * new) != (tensor.shape[0], shape[0]) or tensor.shape[1] != shape[1]:
    raise XmcapError(
      f"{weights.where}: {path} has shape {tensor.shape}, but {shape} in this model: {weights.hint}"
    )

  def read() -> np.ndarray:
    return _resized(tensor.read(), old, new)

  line = f"{path} resized from {old} x {old} to {new} x {new} patches"
  return Tensor(shape, np.dtype(np.float32), read, tensor.where), line


def _resized(positions: np.ndarray, old: int, new: int) -> np.ndarray:
  """Resizes position embeddings, [old * old, width] -> [new * new, width], bilinearly as in big_vision."""
  from scipy import ndimage  # slow to import, and few runs need it

  grid = positions.astype(np.float32).reshape(old, old, -1)
  return np.asarray(ndimage.zoom(grid, (new / old, new / old, 1), order=1)).reshape(new * new, -1)


def _fresh(model: set[str], taken: set[str]) -> list[str]:
  """The parameters that are not taken; a part of the model of which none is taken is listed by its name alone."""
  inner = {path.rsplit("/", depth)[0] for path in taken for depth in range(1, path.count("/") + 1)}
  fresh = set()
  for path in model - taken:
    parts = path.split("/")
    names = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    fresh.add(next(name for name in names if name not in inner))
  return sorted(fresh)
