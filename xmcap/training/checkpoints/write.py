"""Writes the checkpoints of a run with Orbax; `retention.py` decides which, and `read.py` reads them.

`MODEL_DIR/checkpoints/STEP/` holds two items: `params`, the tree of parameters, and `training`, the rest of the
`TrainState` (step, optimizer state, counters); and in a run with an EMA of the weights a third, `ema`. Orbax renames a
checkpoint into place when it is complete. Each item has checksums of its files (`checksums.py`). The results of an
evaluation are beside them, in `metrics/metrics`.
"""

import contextlib
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping

import jax
import orbax.checkpoint as ocp
from absl import logging

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import refusals
from xmcap.files.bucket_paths import epath
from xmcap.training.checkpoints import checksums, read, retention, small_json
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.checkpoints.settings import Settings
from xmcap.training.checkpoints.train_state import TrainState
from xmcap.training.hosts import join as hosts
from xmcap.training.hosts import watch


class Checkpoints:
  """The checkpoints of one run, open for writing.

  `settings` is written into each checkpoint, and compared with the settings in the checkpoint that the run resumes
  from. Raises XmcapError if the folder cannot be written, or is not the same for all processes.
  """

  def __init__(
    self,
    model_dir: str | os.PathLike,
    policy: CheckpointPolicy | None = None,
    settings: Settings | None = None,
  ):
    self.policy = policy or CheckpointPolicy()
    self.settings = settings
    self.directory = read.checkpoints_dir(model_dir)
    hosts.check_folder(self.directory)
    self._pending: set[int] = set()
    with self._explained("checkpoints"):
      if jax.process_index() == 0:
        self._remove_unfinished()
        self._clear_unreadable()
      hosts.barrier("folder of checkpoints read")
      self._notes = read.notes(self.directory)
      self._retention = retention.Retention(self.policy, self._notes, self._pending)
      options = ocp.CheckpointManagerOptions(
        preservation_policy=self._retention,
        step_name_format=read.StepFolders(),
        enable_async_checkpointing=self.policy.asynchronous,
        # If a folder could not be made in the background, Orbax's other threads would wait five minutes for it.
        async_options=ocp.AsyncOptions(create_directories_asynchronously=False),
      )
      handlers = {item: checksums.SummedHandler() for item in (read.PARAMS, read.TRAINING, read.EMA)}
      self._manager = ocp.CheckpointManager(self.directory, options=options, item_handlers=handlers)

  def steps(self) -> list[int]:
    """The steps of all checkpoints, oldest first."""
    return sorted(self._manager.all_steps())

  def save(self, step: int, state: TrainState, pending: bool = False) -> None:
    """Writes the state of `step`, in the background if the policy says so; a second call for a step does nothing.

    The state may be donated as soon as this returns. With `pending`, the checkpoint is kept until `note_evaluation` is
    called. Raises XmcapError if this write or the previous one failed.
    """
    if step in self._manager.all_steps():
      return
    if pending:
      self._pending.add(step)
    arguments = {item: checksums.SummedSave(tree) for item, tree in read.items(state).items()}
    if self.settings is not None:
      arguments[read.TRAINING].settings = self.settings.encode()
    with self._writing(f"checkpoint {step}"):
      self._manager.save(step, args=ocp.args.Composite(**arguments), force=True)

  def note_evaluation(self, step: int, means: Mapping[str, float]) -> None:
    """Stores the results of an evaluation beside the checkpoint of `step`, once that is on disk.

    All processes must call this, with the same values. If this checkpoint is the best, one that was kept only
    as the best is deleted. Raises UsageError if `best_metric` is not among the means.
    """
    name, value, score = self.policy.best_metric, None, None
    if name is not None:
      if name not in means:
        raise UsageError(
          f"CheckpointPolicy.best_metric is {name!r}, but the evaluators measured {', '.join(sorted(means))}"
        )
      value = means[name]
      if math.isfinite(value):
        score = self.policy.score(value)
      else:
        logging.warning("step %d: %s is %s, so this checkpoint cannot be the best", step, name, value)
        value = None
    self.wait()
    with self._explained(f"evaluation of checkpoint {step}"):
      self._notes[step] = retention.Note(name, value, score)
      if jax.process_index() == 0:
        retention.write_note(self.directory / str(step), means, self._notes[step])
      self._pending.discard(step)
      for old in self._retention.superfluous(self.steps()):
        self._manager.delete(old)

  def evaluated(self, step: int) -> bool:
    """Whether the evaluation of a step's checkpoint has finished."""
    return step in self._notes

  def check(self) -> None:
    """Raises XmcapError if a background write has failed."""
    with self._explained("last checkpoint"):
      self._manager.check_for_errors()

  def wait(self) -> None:
    """Waits until everything is on disk; raises as `save`."""
    with self._writing("the last checkpoint"):
      self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits, then closes Orbax's manager."""
    with self._writing("the last checkpoint"):
      self._manager.close()

  def restore_latest(
    self, target: TrainState, other_data: bool = False, say: Callable[[str], None] = print
  ) -> TrainState | None:
    """Reads the newest readable checkpoint; None if there is none. See `read.restore`.

    A damaged checkpoint is logged and moved to `MODEL_DIR/damaged/`, and the one before it is tried.
    """
    for step in reversed(self.steps()):
      try:
        return read.restore(self.directory / str(step), target, self.settings, other_data, say)
      except read.CheckpointDamaged as error:
        logging.error("%s; taking the one before it", error)
      # The run will reach this step again, and Orbax does not overwrite a checkpoint.
      if jax.process_index() == 0:
        with self._explained(f"damaged checkpoint {step}"):
          self._move_aside(step)
      hosts.barrier("damaged checkpoint moved aside")
      self._manager.reload()
    return None

  def _move_aside(self, step: int) -> None:
    damaged = read.damaged_dir(self.directory)
    damaged.mkdir(exist_ok=True)
    names = itertools.chain([str(step)], (f"{step}.{number}" for number in itertools.count(1)))
    target = next(path for name in names if not (path := damaged / name).exists())
    (self.directory / str(step)).rename(target)

  def _remove_unfinished(self) -> None:
    """Removes the checkpoint that a killed run was writing.

    Orbax's own clean-up runs in a thread that nothing waits for, and fails if a run ends immediately.
    """
    for path in self.directory.iterdir():
      if path.name.split(".")[0].isdecimal() and not read.is_finished(path):
        path.rmtree()

  def _clear_unreadable(self) -> None:
    """Moves aside checkpoints that Orbax could not list, and removes damaged notes of evaluations."""
    for step in read.steps_in(self.directory):
      checkpoint = self.directory / str(step)
      file = checkpoint / "_CHECKPOINT_METADATA"
      if file.exists() and not _is_orbax_metadata(file):
        logging.error("%s: truncated or changed; taking the one before it", file)
        self._move_aside(step)
        continue
      try:
        retention.read_note(checkpoint)
      except ValueError:
        file = checkpoint / retention.NOTE
        logging.error("%s: truncated or changed; removed, the checkpoint counts as not evaluated", file)
        file.unlink()

  @contextlib.contextmanager
  def _writing(self, label: str) -> Iterator[None]:
    with watch.during("checkpoint", label), self._explained(label):
      yield

  @contextlib.contextmanager
  def _explained(self, label: str) -> Iterator[None]:
    try:
      yield
    except Exception as error:  # TensorStore and Google's client have their own types
      if refusal := refusals.explained(error, str(self.directory)) or hosts.as_lost(error):
        raise refusal from error
      if not isinstance(error, OSError | ValueError | RuntimeError):
        raise
      raise XmcapError(
        f"{label} in {self.directory}: writing failed ({one_line(error)}): is the disk full, or the folder read-only?"
        " Earlier checkpoints are kept"
      ) from error


def _is_orbax_metadata(file: epath.Path) -> bool:
  try:
    small_json.read(file)
    ocp.metadata.get_step_metadata(file.parent)
  except OSError:
    raise
  except Exception:  # malformed content: Orbax raises ValueError, TypeError or KeyError
    return False
  return True
