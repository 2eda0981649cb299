"""Checkpoints of a run (Orbax): writing them; `retention.py` says which, and `saved.py` reads them.

`MODEL_DIR/checkpoints/STEP/` holds two items: `params`, the tree of parameters by name, and `training`, the
rest of the `TrainState` (step, optimizer state, counters). The data's position is a function of the step. A
checkpoint appears under its name only when it is whole (Orbax renames it into place); each item then holds the sums of
its files (see `manifest.py`), which are compared before anything is read. What its evaluation finds is noted beside it
afterwards (see `scores.py`).
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
from xmcap.training.checkpoints import read as saved
from xmcap.training.checkpoints import scores, small_json
from xmcap.training.checkpoints import settings as settings_lib
from xmcap.training.checkpoints import verify as manifest
from xmcap.training.checkpoints.retention import CheckpointPolicy, Retention
from xmcap.training.hosts import join as hosts
from xmcap.training.hosts import run_folder, watch
from xmcap.training.step import TrainState

_policies = ocp.checkpoint_managers


class Checkpoints:
  """The checkpoints of one run, open for writing.

  Args:
    model_dir: the run's folder; made if absent.
    policy: what to keep.
    settings: of the run, kept in each checkpoint and compared with that of the one it goes on from; None: neither.

  Raises:
    XmcapError: the folder cannot be written, or is not the same for all processes.
  """

  def __init__(
    self,
    model_dir: str | os.PathLike,
    policy: CheckpointPolicy | None = None,
    settings: settings_lib.Settings | None = None,
  ):
    self.policy = policy = policy or CheckpointPolicy()
    self.settings = settings
    self.directory = saved.checkpoints_dir(model_dir)
    run_folder.check(self.directory)
    if jax.process_index() == 0:
      with _readable_errors(f"checkpoints of {self.directory}"):
        self._remove_unfinished()
        self._clear_unreadable()
    hosts.barrier("folder of checkpoints read")
    self._evaluated, self._scores = self._read_scores()
    self._pending: set[int] = set()
    self._retention = Retention(policy, self._scores, self._pending)
    options = ocp.CheckpointManagerOptions(
      preservation_policy=self._retention.orbax,
      save_decision_policy=_SaveWhenAsked(),
      enable_async_checkpointing=policy.asynchronous,
    )
    handlers = {item: manifest.SummedHandler() for item in (saved.PARAMS, saved.TRAINING)}
    with _readable_errors(f"checkpoints of {self.directory}"):
      self._manager = ocp.CheckpointManager(self.directory, options=options, item_handlers=handlers)

  def steps(self) -> list[int]:
    """The steps of the checkpoints there are, oldest first."""
    return sorted(self._manager.all_steps())

  def save(self, step: int, state: TrainState, pending: bool = False) -> None:
    """Writes the state of `step` (once: a second call for a step does nothing), in the background if so set.

    Args:
      step: equal to `state.step`, known here without a transfer.
      state: may be donated as soon as this returns.
      pending: its evaluation is to come, and the checkpoint stays until `attach`.

    Raises:
      XmcapError: this write, or the one before it, failed: disk full, folder gone or not writable.
    """
    if step in self._manager.all_steps():
      return
    if pending:
      self._pending.add(step)
    params, training = saved.items(state)
    note = None if self.settings is None else self.settings.encode()
    items = ocp.args.Composite(
      **{
        saved.PARAMS: manifest.SummedSave(params),
        saved.TRAINING: manifest.SummedSave(training, settings=note),
      }
    )
    what = f"checkpoint {step}"
    with watch.during("checkpoint", what), _readable_errors(f"{what} in {self.directory}"):
      self._manager.save(step, args=items)

  def attach(self, step: int, means: Mapping[str, float]) -> None:
    """Notes what the evaluation of a saved step found; all processes must call it, and the values of process 0 count.

    Waits until the checkpoint is on disk. One that was kept as the best until now, and for nothing else, goes if this
    one is better.

    Args:
      step: of a checkpoint.
      means: name -> value.

    Raises:
      UsageError: `best_metric` is not among them.
      XmcapError: as `save`.
    """
    name, value = self.policy.best_metric, None
    if name is not None:
      if name not in means:
        raise UsageError(
          f"CheckpointPolicy.best_metric is {name!r}, but the evaluators measured {', '.join(sorted(means))}"
        )
      # All must come to the same end about which checkpoint goes.
      value = float(hosts.agree("value of best_metric", repr(float(means[name])))[0])
      if not math.isfinite(value):
        logging.warning("step %d: %s is %s, which counts for no best checkpoint", step, name, value)
        value = None
    self.wait()
    score = None if value is None else self.policy.score(value)
    with _readable_errors(f"evaluation of checkpoint {step} in {self.directory}"):
      if jax.process_index() == 0:
        scores.write(self.directory / str(step), means, scores.Note(name, value, score))
      self._evaluated.add(step)
      self._pending.discard(step)
      if score is not None:
        self._scores[step] = score
      for old in self._retention.superfluous(self.steps()):
        self._manager.delete(old)

  def evaluated(self, step: int) -> bool:
    """Whether the evaluation of a checkpoint has come to its end."""
    return step in self._evaluated

  def check(self) -> None:
    """Says at once, not at the next `save`, that a write in the background failed.

    Raises:
      XmcapError: as `save`.
    """
    with _readable_errors(f"last checkpoint in {self.directory}"):
      self._manager.check_for_errors()

  def wait(self) -> None:
    """Returns when all that was saved is on disk.

    Raises:
      XmcapError: as `save`.
    """
    with (
      watch.during("checkpoint", "the last checkpoint"),
      _readable_errors(f"last checkpoint in {self.directory}"),
    ):
      self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits, then frees what Orbax holds."""
    with (
      watch.during("checkpoint", "the last checkpoint"),
      _readable_errors(f"last checkpoint in {self.directory}"),
    ):
      self._manager.close()

  def restore_latest(
    self, target: TrainState, other_data: bool = False, say: Callable[[str], None] = print
  ) -> TrainState | None:
    """The newest checkpoint that can be read, or None where there is none.

    A damaged one is said, moved aside to `MODEL_DIR/damaged/`, and the one before it is taken.

    Args:
      target: `jax.ShapeDtypeStruct`s with shardings, of any mesh.
      other_data: it may have been trained on other data than the run's.
      say: prints a line about each setting that has changed since.

    Raises:
      UsageError: see `settings.check`.
      XmcapError: parameters of other names or shapes.
    """
    for step in reversed(self.steps()):
      try:
        return saved.restore(self.directory / str(step), target, self.settings, other_data, say)
      except saved.CheckpointDamaged as error:
        logging.error("%s; taking the one before it", error)
        self._set_aside(step)
    return None

  def _set_aside(self, step: int) -> None:
    # Its step will be reached again, and Orbax does not write over a checkpoint.
    if jax.process_index() == 0:
      self._move_aside(step)
    if jax.process_count() > 1:
      ocp.multihost.sync_global_processes(f"xmcap_set_aside_{step}")
    self._manager.reload()

  def _move_aside(self, step: int) -> None:
    with _readable_errors(f"damaged checkpoint {step} in {self.directory}"):
      damaged = saved.damaged_dir(self.directory)
      damaged.mkdir(exist_ok=True)
      place, number = damaged / str(step), 1
      while place.exists():
        place, number = damaged / f"{step}.{number}", number + 1
      (self.directory / str(step)).rename(place)

  def _remove_unfinished(self) -> None:
    """Removes the checkpoint that a killed run was writing.

    Orbax would do so on a thread that nothing waits for. Where the run ends at once, by an error, that thread fails on
    the way: "cannot schedule new futures after shutdown".
    """
    for path in self.directory.iterdir():
      if path.name.split(".")[0].isdigit() and not ocp.utils.is_checkpoint_finalized(path):
        path.rmtree()

  def _clear_unreadable(self) -> None:
    """Moves aside what Orbax could not even list: its own note on a checkpoint is of no other use."""
    for step in saved.steps_in(self.directory):
      file = self.directory / str(step) / "_CHECKPOINT_METADATA"
      if file.exists() and not _is_orbax_note(file):
        logging.error("%s: cut short or changed; taking the one before it", file)
        self._move_aside(step)
        continue
      try:
        scores.read(self.directory / str(step))
      except ValueError:
        file = self.directory / str(step) / scores.NAME
        logging.error("%s: cut short or changed; removed, the checkpoint counts as not evaluated", file)
        file.unlink()

  def _read_scores(self) -> tuple[set[int], dict[int, float]]:
    """The steps that were evaluated, and the scores by the policy's metric."""
    notes = {step: scores.read(self.directory / str(step)) for step in saved.steps_in(self.directory)}
    notes = {step: note for step, note in notes.items() if note is not None}
    # A note of an older version names no metric; its run had one.
    known = {
      step: self.policy.score(note.value)
      for step, note in notes.items()
      if note.value is not None and note.metric in (None, self.policy.best_metric)
    }
    return set(notes), known if self.policy.best_metric is not None else {}


def _is_orbax_note(file: epath.Path) -> bool:
  try:
    small_json.read(file)
    ocp.metadata.get_step_metadata(file.parent)
  except OSError:
    raise
  except Exception:  # Orbax's words for a wrong type are a ValueError, a TypeError, a KeyError
    return False
  return True


class _SaveWhenAsked(_policies.SaveDecisionPolicy):
  """The loop decides when to save."""

  def should_save(self, step, previous_steps, *, context) -> bool:
    return True


@contextlib.contextmanager
def _readable_errors(what: str) -> Iterator[None]:
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
