"""Hooks that run between training steps: log, warn, save, evaluate, profile."""

import time
from collections.abc import Sequence
from typing import Any

import gin
import jax
import numpy as np
from absl import logging
from jax.experimental import multihost_utils

from xmcap.data.workers import MARGIN
from xmcap.errors import UsageError, XmcapError
from xmcap.files.ramp import PUBLISHED
from xmcap.files.range_cache import RecordCache
from xmcap.training.evaluate import Evaluate
from xmcap.training.profiler import Profile, Profiler
from xmcap.training.run import Hook, Run


@gin.configurable
def hooks(
  log_every: int = 100,
  skip_limit: int = 100,
  evaluators: Sequence[Any] = (),
  eval_every: int = 0,
  profiler: Profiler | None = None,
  more: Sequence[Hook] = (),
) -> list[Hook]:
  """The hooks of a run, in the order in which they are called.

  Args:
    log_every: steps between two lines of progress. Metrics are fetched from the device only then.
    skip_limit: the run stops after this many non-finite steps in a row.
    evaluators: each has `run(params, step)`, which yields rows (language, name, value), or `Deferred`.
    eval_every: steps between two evaluations; 0: only at the end.
    profiler: which steps to trace; None: as configured in gin.
    more: hooks of your own, called last.
  """
  if log_every < 1 or eval_every < 0:
    raise UsageError("hooks: log_every must be at least 1, and eval_every at least 0")
  report = Report(log_every, skip_limit)
  evaluate = Evaluate(report.now, evaluators, eval_every)
  profile = Profile(profiler or Profiler(), log_every)
  return [report, Starving(), Save(report, evaluate), evaluate, profile, *more]


class Report(Hook):
  """Reports progress, and stops the run after `skip_limit` steps in a row with a non-finite loss or gradient."""

  def __init__(self, every: int, skip_limit: int):
    self.every = every
    self.skip_limit = skip_limit
    self._last: int | None = None

  def __call__(self, run: Run) -> None:
    if run.every(self.every):
      self.now(run)

  def now(self, run: Run) -> None:
    """Reports the steps since the last report; a second call at the same step does nothing."""
    if self._last == run.step:
      return
    self._last = run.step
    run.metrics.update(run.progress.report(run.step))
    skipped = int(run.metrics["skipped_in_a_row"])
    if skipped >= self.skip_limit:
      raise XmcapError(
        f"step {run.step}: loss or gradient was not finite {skipped} steps in a row "
        f"(hooks.skip_limit {self.skip_limit}): lower the learning rate; "
        f"the newest checkpoint is at step {run.saved or 0}"
      )


class Save(Hook):
  """Writes checkpoints according to the `CheckpointPolicy`, and before an evaluation, which may then fail safely."""

  def __init__(self, report: Report, evaluate: Evaluate):
    self.report = report
    self.evaluate = evaluate

  def begin(self, run: Run) -> None:
    run.saved = run.step if run.checkpoints.steps() else None
    self.policy = run.checkpoints.policy
    if self.policy.best_metric is not None and not self.evaluate.evaluators:
      raise UsageError(
        f"train: CheckpointPolicy.best_metric is {self.policy.best_metric!r}, but no evaluator measures it"
      )
    self._last = time.monotonic()

  def __call__(self, run: Run) -> None:
    evaluated = self.evaluate.due(run)
    due = run.is_last or self.policy.due(run.step) or (evaluated and self.policy.best_metric is not None)
    if due or (run.every(self.report.every) and self._late()):
      self.report.now(run)
      self.evaluate.settle(run)  # no newer checkpoint than one whose results are awaited
      began = time.monotonic()
      run.checkpoints.save(run.step, run.state, pending=evaluated)
      run.saved = run.step
      self._last = time.monotonic()
      run.progress.beside("saving", self._last - began)

  def _late(self) -> bool:
    if not self.policy.minutes:
      return False
    late = time.monotonic() - self._last >= 60 * self.policy.minutes
    # Clocks differ, and either all processes write a checkpoint or none does.
    return bool(multihost_utils.broadcast_one_to_all(np.asarray(late)))


class Starving(Hook):
  """Says whether a host reads fast enough, and warns once if its devices wait more than a share `limit` of the time."""

  def __init__(self, limit: float = 0.1):
    self.limit = limit
    self.warned = False
    self._reads = 0.0
    self._compared = False

  def begin(self, run: Run) -> None:
    if run.step < run.total_steps and (reads := run.feed.reading_rate(run.step)):
      stream = run.feed.stream
      kind = "processes" if getattr(stream, "processes", False) else "threads"
      run.say(f"this host reads {reads:,.0f} pictures a second with {stream.workers} {kind}")
      self._reads = reads
    if cached := self._is_remote(run) and RecordCache().describe():
      run.say(cached)

  def _is_remote(self, run: Run) -> bool:
    return bool(getattr(getattr(run.feed.stream, "source", None), "is_remote", False))

  def __call__(self, run: Run) -> None:
    waiting = run.metrics.get("waiting_for_data")
    if waiting is None or self.warned:
      return
    demand = len(run.feed.rows) * run.metrics["steps_per_second"] / max(1 - waiting, 0.01)
    if self._reads and not self._compared:
      self._compared = True
      run.say(self._compare(demand))
      if self._is_remote(run):
        run.say(self._of_bucket(run, demand * jax.process_count()))
    if waiting < self.limit:
      return
    self.warned = True
    reads = f", and this host read {self._reads:,.0f} at the start" if self._reads else ""
    ways = ", or ".join(getattr(run.feed.stream, "faster", []))
    advice = f": {ways}" if ways else ""
    logging.warning(
      f"step {run.step}: the device waits for data {waiting:.0%} of the time; it could train on"
      f" {demand:,.0f} {self._noun(run)} a second{reads}{advice}"
    )

  def _noun(self, run: Run) -> str:
    """What a row of a batch is; a stream without workers reads texts alone."""
    return "pictures" if hasattr(run.feed.stream, "workers") else "examples"

  def _compare(self, demand: float) -> str:
    """Whether this host reads enough for devices that could take so many pictures a second."""
    if self._reads >= MARGIN * demand:
      return (
        f"the devices take {demand:,.0f} pictures a second, and this host reads {self._reads:,.0f}: enough"
      )
    return (
      f"this host reads {self._reads:,.0f} pictures a second, and the devices could take {demand:,.0f}: to be safe it"
      f" should read {MARGIN:g} times that, {MARGIN * demand:,.0f}"
    )

  def _of_bucket(self, run: Run, images: float) -> str:
    """What a bucket must give for so many images a second."""
    stream = run.feed.stream
    requests = images * stream.requests_per_image(run.feed.rows, run.step)
    advice = (
      f", but begins with about {PUBLISHED:,} reads: raise CaptionStream.neighbours or RecordCache.bytes"
    )
    return (
      f"for that, the bucket of all hosts gives {requests:,.0f} reads and {images * stream.record_bytes / 1e6:,.0f} MB "
      f"a second, less what is cached{advice if requests > PUBLISHED else ''}"
    )
