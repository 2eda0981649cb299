"""Where a run starts from: one list, in order of precedence."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from etils import epath

from xmcap.errors import UsageError, XmcapError
from xmcap.tensors.files import Tensor
from xmcap.training.checkpoints import read as saved
from xmcap.training.checkpoints import weights as weights_lib
from xmcap.training.checkpoints import write as checkpoints_lib
from xmcap.training.hosts import join as hosts
from xmcap.training.step import TrainState

Pretrained = str | Sequence[str | tuple[str, str]]


def starting_state(
  checkpoints: checkpoints_lib.Checkpoints,
  create: Callable[[Collection[str]], TrainState],
  target: TrainState,
  initial_checkpoint: str | None = None,
  pretrained: Pretrained = (),
  from_scratch: bool = False,
  other_data: bool = False,
  say: Callable[[str], None] = print,
) -> tuple[TrainState, str]:
  """The state that a run begins with, and a line that says where it came from. In this order:

  1. the run's own newest checkpoint that can be read: it resumes; refused where that was trained on other data, unless
     `other_data`;
  2. refused where the run has none, but `damaged/` holds those that could not be read, unless `from_scratch`: what was
     trained is not given up unasked;
  3. `initial_checkpoint`, a whole one (parameters, optimizer state, step): it goes on with another run;
  4. `pretrained` parts put over fresh parameters; the optimizer begins anew, at step 0;
  5. scratch.

  Args:
    checkpoints: the run's.
    create: makes the fresh state, on the mesh; called with the paths of the parameters that need not be fresh.
    target: shapes and shardings of the state.
    initial_checkpoint: a run's folder (its newest checkpoint that can be read), its `checkpoints`, or one
      checkpoint.
    pretrained: a folder, or a list of folders and of (folder, prefix) pairs. A folder is a run's, a checkpoint, or
      weights that `xmcap convert` wrote. Alone: everything in it is taken, and must have a place in the model; what
      it has not begins fresh. With a prefix (a path such as `vit`; "" is all): every parameter of the model below it
      is taken, and must be there; what else is there is left. Position embeddings of another grid are resized.
    from_scratch: what is damaged may be given up.
    other_data: the run goes on with other data than it was trained on.
    say: prints a line about each setting that has changed since the checkpoint.

  Raises:
    UsageError: 3 and 4 are both given, folders give the same parameter, nothing is there, or 1 refuses.
    XmcapError: 2 refuses; parameters are missing, have no place here, or are of another shape (naming the first, with
      both shapes).
  """
  if initial_checkpoint and pretrained:
    raise UsageError(
      "train: give initial_checkpoint (a whole state) or pretrained (parts of the parameters), not both"
    )
  state = checkpoints.restore_latest(target, other_data, say)
  if state is not None:
    return state, f"resuming from step {int(state.step)} in {checkpoints.directory}"
  if refusal := _given_up(checkpoints.directory, from_scratch):
    raise XmcapError(refusal)
  if initial_checkpoint:
    path, state = saved.first_readable(initial_checkpoint, lambda path: saved.restore(path, target))
    return state, f"going on from {path} (step {int(state.step)})"
  if pretrained:
    # Checked first: what is wrong is said before minutes go into making the state.
    parts, origin = pretrained_parts(target.params, pretrained)
    state = create([path for path in saved.flat(target.params) if path in parts])
    paths, (leaves, structure) = list(saved.flat(state.params)), jax.tree.flatten(state.params)
    # Held by the list alone, a fresh parameter goes when its successor is there.
    state = state.replace(params=None)
    _overlay(leaves, paths, parts)
    return state.replace(params=jax.tree.unflatten(structure, leaves)), origin
  return create(()), "starting from scratch"


def _given_up(directory: epath.Path, from_scratch: bool) -> str:
  """Why a run with no checkpoint that can be read must not begin anew; "" where it may."""
  steps = [] if from_scratch else saved.damaged_steps(directory)
  damaged = saved.damaged_dir(directory)
  refusal = (
    f"{directory}: none of the checkpoints {steps} can be read; they are in {damaged}: put a whole one back, begin anew"
    " by --from_scratch, or remove that folder"
  )
  # All processes must come to the same end, also where the folder changes under their eyes.
  return hosts.agree("whether to begin anew", refusal if steps else "")[0]


def pretrained_parts(target: Any, pretrained: Pretrained) -> tuple[dict[str, Tensor], str]:
  """{path: tensor} of all that `pretrained` gives for a model, not yet read, and a line that says what it is.

  Args:
    target: the model's parameters or their shapes.
    pretrained: see `starting_state`.
  """
  parts: dict[str, Tensor] = {}
  sources, lines = [], []
  for item in [pretrained] if isinstance(pretrained, str) else pretrained:
    folder, prefix = _folder_and_prefix(item)
    part, resized = pretrained_part(target, folder, prefix)
    both = sorted(set(part) & set(parts))
    if both:
      raise UsageError(
        f"train.pretrained: {both[0]} is in {folder} and in one before it: write ('{folder}', 'PREFIX') for one part"
      )
    names = prefix or (
      "all parameters" if prefix == "" else ", ".join(sorted({p.split("/")[0] for p in part}))
    )
    sources.append(f"{names} from {folder}")
    lines += resized
    parts |= part
  fresh = _fresh(set(saved.flat(target)), set(parts))
  if fresh:
    logging.info("parameters that begin fresh: %s", ", ".join(fresh))
    more = f" and {len(fresh) - 6} more" if len(fresh) > 6 else ""
    lines.append(f"fresh: {', '.join(fresh[:6])}{more}")
  return parts, "; ".join([f"starting with {', '.join(sources)}", *lines])


def pretrained_part(
  target: Any, folder: str | os.PathLike, prefix: str | None
) -> tuple[dict[str, Tensor], list[str]]:
  """{path: tensor} of what one folder gives, and a line for each that is resized; see `starting_state`.

  Raises:
    UsageError: no weights there, or no parameter of `target` lies below `prefix`.
    XmcapError: one is missing there, has no place here, or has another shape.
  """
  model = {path: tuple(leaf.shape) for path, leaf in saved.flat(target).items()}
  weights = weights_lib.open_weights(folder)
  given = {path: tensor for path, tensor in weights.tensors.items() if _below(path, prefix)}
  if prefix is None:
    extra = sorted(set(given) - set(model))
    if extra:
      raise XmcapError(
        f"{weights.where}: {extra[0]} {given[extra[0]].shape} (and {len(extra) - 1} more) has no place in this model:"
        f" {weights.hint}, or name the part to take, as in ('{folder}', '{weights.parts()[0]}')"
      )
    wanted = {path: model[path] for path in given}
  else:
    wanted = {path: shape for path, shape in model.items() if _below(path, prefix)}
    if not wanted:
      raise UsageError(
        f"train.pretrained: no parameter of this model lies below {prefix!r}; its parts are {', '.join(sorted(target))}"
      )
    unused = sorted(set(given) - set(wanted))
    if unused:
      logging.warning(
        "%s: %d parameters below %r have no place in this model: %s ...",
        folder,
        len(unused),
        prefix,
        unused[0],
      )
  part, resized = {}, []
  for path, shape in wanted.items():
    if path not in given:
      raise XmcapError(f"{weights.where}: no {path}, which this model has {shape}: {weights.hint}")
    part[path], line = _fitted(path, given[path], shape, weights)
    resized += line
  return part, resized


def _folder_and_prefix(item: Any) -> tuple[str, str | None]:
  if isinstance(item, str | os.PathLike):
    return os.fspath(item), None
  if isinstance(item, Sequence) and len(item) == 2 and all(isinstance(part, str) for part in item):
    return item[0], item[1]
  raise UsageError(f"train.pretrained: {item!r} is neither a folder nor a (folder, prefix) pair")


def _below(path: str, prefix: str | None) -> bool:
  return not prefix or path == prefix or path.startswith(prefix.rstrip("/") + "/")


def _fitted(
  path: str, tensor: Tensor, shape: tuple[int, ...], weights: weights_lib.Weights
) -> tuple[Tensor, list[str]]:
  """The tensor in the model's shape, and what had to be done for that."""
  if tensor.shape == shape:
    return tensor, []
  old, new = (weights_lib.grid_side(size[0]) if len(size) == 2 else None for size in (tensor.shape, shape))
  if not weights_lib.is_position(path) or None in (old, new) or tensor.shape[1:] != shape[1:]:
    raise XmcapError(
      f"{weights.where}: {path} has shape {tensor.shape}, and this model's has {shape}: {weights.hint}"
    )
  resized = Tensor(
    shape, np.dtype(np.float32), lambda: weights_lib.resize_positions(tensor.read(), shape[0]), tensor.where
  )
  return resized, [f"{path} resized from {old} x {old} to {new} x {new} patches"]


def _fresh(model: set[str], taken: set[str]) -> list[str]:
  """The parameters that are not taken, whole parts by the name of the part."""
  inner = {path.rsplit("/", depth)[0] for path in taken for depth in range(1, path.count("/") + 1)}
  fresh = set()
  for path in model - taken:
    parts = path.split("/")
    names = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    fresh.add(next(name for name in names if name not in inner))
  return sorted(fresh)


def _overlay(leaves: list[jax.Array], paths: Sequence[str], parts: Mapping[str, Tensor]) -> None:
  """Puts `parts` in the place of a model's parameters, one after the other, with their dtypes and shardings."""
  for index, path in enumerate(paths):
    shape, dtype, sharding = leaves[index].shape, leaves[index].dtype, leaves[index].sharding
    if path not in parts:
      continue
    host = np.asarray(parts[path].read(), dtype)
    leaves[index] = jax.make_array_from_callback(shape, sharding, lambda part, host=host: host[part])
