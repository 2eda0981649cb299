"""Where a run starts from: one list, in order of precedence."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from xmcap.errors import UsageError
from xmcap.training import checkpoints as checkpoints_lib
from xmcap.training import optimizer as optimizer_lib
from xmcap.training.step import TrainState


def starting_state(
  checkpoints: checkpoints_lib.Checkpoints,
  create: Callable[[], TrainState],
  target: TrainState,
  initial_checkpoint: str | None = None,
  pretrained: Sequence[tuple[str, str]] = (),
) -> tuple[TrainState, str]:
  """The state that a run begins with, and a line that says where it came from. In this order:

  1. the run's own newest checkpoint that can be read: it resumes;
  2. `initial_checkpoint`, a whole one (parameters, optimizer state, step): it goes on with another run;
  3. `pretrained` parts put over fresh parameters; the optimizer begins anew, at step 0;
  4. scratch.

  Args:
    checkpoints: the run's.
    create: makes the fresh state, on the mesh.
    target: shapes and shardings of the state.
    initial_checkpoint: a run's folder (its newest checkpoint that can be read), its `checkpoints`, or one
      checkpoint.
    pretrained: (folder, prefix) pairs: every parameter below `prefix` (a path such as `vit`; "" is all) is
      taken from the checkpoint in that folder, where it has the same path.

  Raises:
    UsageError: 2 and 3 are both given, or a checkpoint that is not there.
    XmcapError: parameters are missing there, or of another shape (naming the first, with both shapes).
  """
  if initial_checkpoint and pretrained:
    raise UsageError(
      "train: give initial_checkpoint (a whole state) or pretrained (parts of the parameters), not both"
    )
  state = checkpoints.restore_latest(target)
  if state is not None:
    return state, f"resuming from step {int(state.step)} in {checkpoints.directory}"
  if initial_checkpoint:
    path, state = checkpoints_lib.first_readable(
      initial_checkpoint, lambda path: checkpoints_lib.restore(path, target)
    )
    return state, f"going on from {path} (step {int(state.step)})"
  if pretrained:
    # Read first: what is wrong is said before minutes go into making the state.
    parts = [pretrained_part(target.params, folder, prefix) for folder, prefix in pretrained]
    state = create()
    for part in parts:
      state = state.replace(params=_overlay(state.params, part))
    sources = ", ".join(f"{prefix or 'all parameters'} from {folder}" for folder, prefix in pretrained)
    return state, f"starting with {sources}"
  return create(), "starting from scratch"


def pretrained_part(target: Any, folder: str | os.PathLike, prefix: str) -> dict[str, Any]:
  """{path: array} of every parameter of `target` below `prefix`, read from the checkpoint in `folder`.

  Raises:
    UsageError: no checkpoint there, or no parameter of `target` lies below `prefix`.
    XmcapError: one is missing in the checkpoint, or has another shape.
  """
  wanted = {path: leaf for path, leaf in checkpoints_lib.flat(target).items() if _below(path, prefix)}
  if not wanted:
    tops = ", ".join(sorted(target))
    raise UsageError(
      f"train.pretrained: no parameter of this model lies below {prefix!r}; its parts are {tops}"
    )
  given = {
    path: leaf
    for path, leaf in checkpoints_lib.flat(checkpoints_lib.load_params(folder)).items()
    if _below(path, prefix)
  }
  checkpoints_lib.check_same(wanted, given, str(folder), allow_extra=True)
  unused = sorted(set(given) - set(wanted))
  if unused:
    logging.warning(
      "%s: %d parameters below %r have no place in this model: %s ...", folder, len(unused), prefix, unused[0]
    )
  return {path: given[path] for path in wanted}


def _below(path: str, prefix: str) -> bool:
  return not prefix or path == prefix or path.startswith(prefix.rstrip("/") + "/")


def _overlay(params: Any, part: Mapping[str, Any]) -> Any:
  def replaced(path, leaf):
    value = part.get(optimizer_lib.path_name(path))
    return leaf if value is None else jax.device_put(np.asarray(value, leaf.dtype), leaf.sharding)

  return jax.tree_util.tree_map_with_path(replaced, params)
