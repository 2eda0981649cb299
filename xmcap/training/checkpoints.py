"""Checkpoints of a run (Orbax): when they are written, and which are kept; `saved.py` reads them.

`MODEL_DIR/checkpoints/STEP/` holds two items: `params`, the tree of parameters by name, and `training`, the
rest of the `TrainState` (step, optimizer state, counters). The data's position is a function of the step. A
checkpoint appears under its name only when it is whole (Orbax renames it into place); each item then holds the sums of
its files (see `manifest.py`), which are compared before anything is read.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator

import gin
import jax
import orbax.checkpoint as ocp
from absl import logging
from etils import epath

from xmcap.errors import UsageError, XmcapError
from xmcap.training import hosts, manifest, run_folder, saved
from xmcap.training.step import TrainState

_policies = ocp.checkpoint_managers


@gin.configurable
@dataclasses.dataclass(frozen=True)
class CheckpointPolicy:
  """Which checkpoints a run writes and keeps.

  Attributes:
    every: steps between two checkpoints; 0 writes one only at the end.
    keep: so many of the newest stay.
    best_metric: name of a metric of the evaluators; the checkpoint with the best value stays too, and every
      evaluation writes one.
    best_mode: `max` or `min`.
    asynchronous: write in the background while the training goes on.
  """

  every: int = 1000
  keep: int = 2
  best_metric: str | None = None
  best_mode: str = "max"
  asynchronous: bool = True

  def __post_init__(self):
    if self.every < 0 or self.keep < 1:
      raise UsageError(
        f"CheckpointPolicy: every {self.every}, keep {self.keep}: give every >= 0 and keep >= 1"
      )
    if self.best_mode not in ("max", "min"):
      raise UsageError(f"CheckpointPolicy.best_mode is {self.best_mode!r}: give 'max' or 'min'")


class Checkpoints:
  """The checkpoints of one run, open for writing.

  Args:
    model_dir: the run's folder; made if absent.
    policy: what to keep.

  Raises:
    XmcapError: the folder cannot be written, or is not the same for all processes.
  """

  def __init__(self, model_dir: str | os.PathLike, policy: CheckpointPolicy | None = None):
    self.policy = policy = policy or CheckpointPolicy()
    self.directory = saved.checkpoints_dir(model_dir)
    run_folder.check(self.directory)
    self._clear_unreadable()
    keep = [_policies.LatestN(policy.keep)]
    if policy.best_metric is not None:
      keep.append(_policies.BestN(get_metric_fn=_score, n=1, keep_checkpoints_without_metrics=False))
    options = ocp.CheckpointManagerOptions(
      preservation_policy=_policies.AnyPreservationPolicy(keep),
      save_decision_policy=_SaveWhenAsked(),
      # Without it Orbax does not write the metrics; which checkpoints stay is the policy's matter.
      best_fn=_score if policy.best_metric else None,
      enable_async_checkpointing=policy.asynchronous,
      cleanup_tmp_directories=True,
    )
    handlers = {item: manifest.SummedHandler() for item in (saved.PARAMS, saved.TRAINING)}
    with _readable_errors(f"checkpoints of {self.directory}"):
      self._manager = ocp.CheckpointManager(self.directory, options=options, item_handlers=handlers)

  def steps(self) -> list[int]:
    """The steps of the checkpoints there are, oldest first."""
    return sorted(self._manager.all_steps())

  def save(self, step: int, state: TrainState, metric: float | None = None) -> None:
    """Writes the state of `step` (once: a second call for a step does nothing), in the background if so set.

    Args:
      step: equal to `state.step`, known here without a transfer.
      state: may be donated as soon as this returns.
      metric: the value of `best_metric`, if it was just measured.

    Raises:
      XmcapError: this write, or the one before it, failed: disk full, folder gone or not writable.
    """
    if step in self._manager.all_steps():
      return
    params, training = saved.items(state)
    metrics = None
    if metric is not None:
      metrics = {
        "value": float(metric),
        "score": float(metric) * (1 if self.policy.best_mode == "max" else -1),
      }
    items = ocp.args.Composite(
      **{saved.PARAMS: manifest.SummedSave(params), saved.TRAINING: manifest.SummedSave(training)}
    )
    with _readable_errors(f"checkpoint {step} in {self.directory}"):
      self._manager.save(step, args=items, metrics=metrics)

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
    with _readable_errors(f"last checkpoint in {self.directory}"):
      self._manager.wait_until_finished()

  def close(self) -> None:
    """Waits, then frees what Orbax holds."""
    with _readable_errors(f"last checkpoint in {self.directory}"):
      self._manager.close()

  def restore_latest(self, target: TrainState) -> TrainState | None:
    """The newest checkpoint that can be read, or None where there is none at all.

    A damaged one is said, moved aside to `MODEL_DIR/damaged/`, and the one before it is taken.

    Args:
      target: `jax.ShapeDtypeStruct`s with shardings, of any mesh.

    Raises:
      XmcapError: checkpoints are there, but none can be read; or parameters of other names or shapes.
    """
    steps = self.steps()
    for step in reversed(steps):
      try:
        return saved.restore(self.directory / str(step), target)
      except saved.CheckpointDamaged as error:
        logging.error("%s; taking the one before it", error)
        self._set_aside(step)
    if steps:
      raise XmcapError(
        f"{self.directory}: none of the checkpoints {steps} can be read; they are in {self._damaged_dir}"
      )
    return None

  @property
  def _damaged_dir(self) -> epath.Path:
    return self.directory.parent / "damaged"

  def _set_aside(self, step: int) -> None:
    # Its step will be reached again, and Orbax does not write over a checkpoint.
    if jax.process_index() == 0:
      self._move_aside(step)
    if jax.process_count() > 1:
      ocp.multihost.sync_global_processes(f"xmcap_set_aside_{step}")
    self._manager.reload()

  def _move_aside(self, step: int) -> None:
    with _readable_errors(f"damaged checkpoint {step} in {self.directory}"):
      self._damaged_dir.mkdir(exist_ok=True)
      place, number = self._damaged_dir / str(step), 1
      while place.exists():
        place, number = self._damaged_dir / f"{step}.{number}", number + 1
      (self.directory / str(step)).rename(place)

  def _clear_unreadable(self) -> None:
    """Moves aside what Orbax could not even list: its own notes on a checkpoint are of no other use."""
    if jax.process_index() == 0:
      for step in saved.steps_in(self.directory):
        for note in ("_CHECKPOINT_METADATA", "metrics/metrics"):
          file = self.directory / str(step) / note
          if file.exists() and not _is_json_object(file):
            logging.error("%s: cut short or changed; taking the one before it", file)
            self._move_aside(step)
            break
    hosts.barrier("folder of checkpoints read")


def _is_json_object(file: epath.Path) -> bool:
  try:
    return isinstance(json.loads(file.read_text()), dict)
  except ValueError:
    return False


def _score(metrics: dict[str, float]) -> float:
  return metrics["score"]


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
      f"{what}: writing failed ({saved.one_line(error)}): is the disk full, or the folder read-only?"
      " What was saved before stays"
    ) from error
