"""Decides where a run starts from: one numbered list, in order of precedence."""

from collections.abc import Callable, Collection

from etils import epath

from xmcap.errors import UsageError, XmcapError
from xmcap.training.checkpoints.pretrained import Pretrained, overlay, pretrained_parts
from xmcap.training.checkpoints.read import damaged_dir, damaged_steps, first_readable, flat, restore
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.hosts import join as hosts
from xmcap.training.step import TrainState


def starting_state(
  checkpoints: Checkpoints,
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
    checkpoints: of the run.
    create: makes the fresh state on the mesh; takes the paths of parameters that may be zeros, as they are replaced.
    target: shapes and shardings of the state.
    initial_checkpoint: a run's folder (its newest readable checkpoint), its `checkpoints`, or one checkpoint.
    pretrained: see `pretrained.pretrained_parts`.
    from_scratch: the user gives up the damaged checkpoints.
    other_data: the user allows other data than the checkpoint was trained on.
    say: prints a line about each setting that has changed since the checkpoint.

  Raises:
    UsageError: both 3 and 4 are given, 1 refuses, or what is given does not exist.
    XmcapError: 2 refuses, or parameters do not fit the model.
  """
  if initial_checkpoint and pretrained:
    raise UsageError(
      "train: give initial_checkpoint (a whole state) or pretrained (parts of the parameters), not both"
    )
  state = checkpoints.restore_latest(target, other_data, say)
  if state is not None:
    return state, f"resuming from step {int(state.step)} in {checkpoints.directory}"
  if not from_scratch:
    _refuse_damaged(checkpoints.directory)
  if initial_checkpoint:
    path, state = first_readable(initial_checkpoint, lambda path: restore(path, target))
    return state, f"going on from {path} (step {int(state.step)})"
  if pretrained:
    # The parts are checked before minutes go into making the fresh state.
    parts, origin = pretrained_parts(target.params, pretrained)
    return overlay(create([path for path in flat(target.params) if path in parts]), parts), origin
  return create(()), "starting from scratch"


def _refuse_damaged(directory: epath.Path) -> None:
  steps = damaged_steps(directory)
  refusal = (
    f"{directory}: none of the checkpoints {steps} can be read; they are in {damaged_dir(directory)}: put a whole one"
    " back, begin anew by --from_scratch, or remove that folder"
  )
  # Process 0 decides for all, as the folder may change at any moment.
  if refusal := hosts.agree("whether to begin anew", refusal if steps else "")[0]:
    raise XmcapError(refusal)
