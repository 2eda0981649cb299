"""Writes the checkpoints of a run with Orbax; `retention.py` says which, and `read.py` reads them.

`MODEL_DIR/checkpoints/STEP/` holds two items: `params`, the tree of parameters, and `training`, the rest of the
`TrainState` (step, optimizer state, counters). Orbax renames a checkpoint into place when it is whole. Each item holds
checksums of its files (`checksums.py`), and the results of an evaluation are noted beside it (`evaluation_notes.py`).
"""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping

import jax
import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.training.checkpoints import checksums, evaluation_notes, read, small_json
from xmcap.training.checkpoints.retention import CheckpointPolicy, Retention
from xmcap.training.checkpoints.settings import Settings
from xmcap.training.hosts import join as hosts
from xmcap.training.hosts import run_folder, watch
from xmcap.training.step import TrainState


class Checkpoints:
  """The checkpoints of one run, open for writing.

  The settings of the run are written into each checkpoint, and compared with those of the one it resumes from.

  Raises:
    XmcapError: the folder cannot be written, or is not the same for all processes.
  """

  def __init__(
    self,
    model_dir: str | os.PathLike,
    policy: CheckpointPolicy | None = None,
    settings: Settings | None = None,
  ):
    self.policy = policy = policy or CheckpointPolicy()
    self.settings = settings
    self.directory = read.checkpoints_dir(model_dir)
    run_folder.check(self.directory)
    if jax.process_index() == 0:
      with _explained(f"checkpoints of {self.directory}"):
        self._remove_unfinished()
        self._clear_unreadable()
    hosts.barrier("folder of checkpoints read")
    self._evaluated, self._scores = self._read_scores()
    self._pending: set[int] = set()
    self._retention = Retention(policy, self._scores, self._pending)
    options = ocp.CheckpointManagerOptions(
      preservation_policy=self._retention,
      enable_async_checkpointing=policy.asynchronous,
    )
    handlers = {item: checksums.SummedHandler() for item in (read.PARAMS, read.TRAINING)}
    with _explained(f"checkpoints of {self.directory}"):
      self._manager = ocp.CheckpointManager(self.directory, options=options, item_handlers=handlers)

  def steps(self) -> list[int]:
    """The steps of all checkpoints, oldest first."""
    return sorted(self._manager.all_steps())

  def save(self, step: int, state: TrainState, pending: bool = False) -> None:
    """Writes the state of `step`, in the background if the policy says so; a second call for a step does nothing.

    The state may be donated as soon as this returns. With `pending` an evaluation is to come, and the checkpoint stays
    until `note_evaluation`.

    Raises:
      XmcapError: this write, or the one before it, failed.
    """
    if step in self._manager.all_steps():
      return
    if pending:
      self._pending.add(step)
    trees = read.items(state)
    settings = None if self.settings is None else self.settings.encode()
    arguments = {
      read.PARAMS: checksums.SummedSave(trees[read.PARAMS]),
      read.TRAINING: checksums.SummedSave(trees[read.TRAINING], settings=settings),
    }
    with self._writing(f"checkpoint {step}"):
      self._manager.save(step, args=ocp.args.Composite(**arguments), force=True)

  def note_evaluation(self, step: int, means: Mapping[str, float]) -> None:
    """Notes the results of an evaluation beside the checkpoint of `step`, once that is on disk.

    All processes must call this; the values of process 0 count. A checkpoint that was kept only as the best goes if
    this one is better. Raises UsageError if `best_metric` is not among the means.
    """
    name, value = self.policy.best_metric, None
    if name is not None:
      if name not in means:
        raise UsageError(
          f"CheckpointPolicy.best_metric is {name!r}, but the evaluators measured {', '.join(sorted(means))}"
        )
      # All processes must delete the same checkpoint.
      value = float(hosts.agree("value of best_metric", repr(float(means[name])))[0])
      if not math.isfinite(value):
        logging.warning("step %d: %s is %s, so this checkpoint cannot be the best", step, name, value)
        value = None
    self.wait()
    score = None if value is None else self.policy.score(value)
    with _explained(f"evaluation of checkpoint {step} in {self.directory}"):
      if jax.process_index() == 0:
        note = evaluation_notes.Note(name, value, score)
        evaluation_notes.write(self.directory / str(step), means, note)
      self._evaluated.add(step)
      self._pending.discard(step)
      if score is not None:
        self._scores[step] = score
      for old in self._retention.superfluous(self.steps()):
        self._manager.delete(old)

  def evaluated(self, step: int) -> bool:
    """Whether the checkpoint of a step was evaluated to the end."""
    return step in self._evaluated

  def check(self) -> None:
    """Raises XmcapError if a write in the background has failed."""
    with _explained(f"last checkpoint in {self.directory}"):
      self._manager.check_for_errors()

  def wait(self) -> None:
    """Returns when all that was saved is on disk; raises as `save`."""
    with self._writing("the last checkpoint"):
      self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits, then frees what Orbax holds."""
    with self._writing("the last checkpoint"):
      self._manager.close()

  @contextlib.contextmanager
  def _writing(self, what: str) -> Iterator[None]:
    with watch.during("checkpoint", what), _explained(f"{what} in {self.directory}"):
      yield

  def restore_latest(
    self, target: TrainState, other_data: bool = False, say: Callable[[str], None] = print
  ) -> TrainState | None:
    """Reads the newest checkpoint that can be read; None if there is none. See `read.restore`.

    A damaged one is logged and moved to `MODEL_DIR/damaged/`, and the one before it is tried.
    """
    for step in reversed(self.steps()):
      try:
        return read.restore(self.directory / str(step), target, self.settings, other_data, say)
      except read.CheckpointDamaged as error:
        logging.error("%s; taking the one before it", error)
      # Orbax does not overwrite a checkpoint, and the run will come to this step again.
      if jax.process_index() == 0:
        self._move_aside(step)
      hosts.barrier("damaged checkpoint moved aside")
      self._manager.reload()
    return None

  def _move_aside(self, step: int) -> None:
    with _explained(f"damaged checkpoint {step} in {self.directory}"):
      damaged = read.damaged_dir(self.directory)
      damaged.mkdir(exist_ok=True)
      target, number = damaged / str(step), 1
      while target.exists():
        target, number = damaged / f"{step}.{number}", number + 1
      (self.directory / str(step)).rename(target)

  def _remove_unfinished(self) -> None:
    """Removes the checkpoint that a killed run was writing.

    Orbax's own clean-up is a thread that nothing waits for: it fails where a run ends at once.
    """
    for path in self.directory.iterdir():
      if path.name.split(".")[0].isdigit() and not ocp.utils.is_checkpoint_finalized(path):
        path.rmtree()

  def _clear_unreadable(self) -> None:
    """Moves aside checkpoints that Orbax could not list, and removes damaged notes of evaluations."""
    for step in read.steps_in(self.directory):
      checkpoint = self.directory / str(step)
      file = checkpoint / "_CHECKPOINT_METADATA"
      if file.exists() and not _is_orbax_metadata(file):
        logging.error("%s: cut short or changed; taking the one before it", file)
        self._move_aside(step)
        continue
      try:
        evaluation_notes.read(checkpoint)
      except ValueError:
        file = checkpoint / evaluation_notes.NAME
        logging.error("%s: cut short or changed; removed, the checkpoint counts as not evaluated", file)
        file.unlink()

  def _read_scores(self) -> tuple[set[int], dict[int, float]]:
    """The steps that were evaluated, and their scores by the policy's metric."""
    notes = {
      step: evaluation_notes.read(self.directory / str(step)) for step in read.steps_in(self.directory)
    }
    notes = {step: note for step, note in notes.items() if note is not None}
    metric = self.policy.best_metric
    # A note of an older version names no metric.
    scores = {
      step: self.policy.score(note.value)
      for step, note in notes.items()
      if metric is not None and note.value is not None and note.metric in (None, metric)
    }
    return set(notes), scores


def _is_orbax_metadata(file: epath.Path) -> bool:
  try:
    small_json.read(file)
    ocp.metadata.get_step_metadata(file.parent)
  except OSError:
    raise
  except Exception:  # for a wrong type Orbax raises ValueError, TypeError or KeyError
    return False
  return True


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
  try:
    yield
  except XmcapError:
    raise
  except (OSError, ValueError, RuntimeError) as error:
    if lost := hosts.as_lost(error):
      raise lost from error
    raise XmcapError(
      f"{what}: writing failed ({one_line(error)}): is the disk full, or the folder read-only?"
      " What was saved before stays"
    ) from error
