"""What a run says while it goes: a line of progress, and TensorBoard's files."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np


class Progress:
  """Collects the steps' metrics on the device, and every so often fetches and says them.

  Args:
    total_steps: of the run.
    start_step: where this process began.
    log_dir: TensorBoard's files go there; None writes none (and does not import TensorFlow).
    say: prints a line.
  """

  def __init__(self, total_steps: int, start_step: int, log_dir: str | None, say: Callable[[str], None]):
    self._total_steps = total_steps
    self._say = say
    self._log_dir = log_dir
    self._writer = None
    self._pending: list[Mapping[str, jax.Array]] = []
    self._examples = 0
    self._last_step = start_step
    self._restart_clock()

  def _restart_clock(self) -> None:
    self._since = time.monotonic()
    self._away = self._waited = 0.0

  def add(self, metrics: Mapping[str, jax.Array], examples: int) -> None:
    """Notes a step: its metrics stay on the device. `examples`: captions (or images) of the whole batch."""
    self._pending.append(metrics)
    self._examples += examples

  def device_is_idle(self) -> bool:
    """Whether all steps that were handed to the device are done."""
    return not self._pending or all(value.is_ready() for value in self._pending[-1].values())

  def throttle(self, ahead: int) -> None:
    """Waits until at most `ahead` steps are queued: batches of more would fill the device's memory."""
    if len(self._pending) > ahead:
      jax.block_until_ready(self._pending[-1 - ahead])

  def waited(self, seconds: float) -> None:
    """Counts time in which the device had nothing to do for want of data."""
    self._waited += seconds

  def away(self, seconds: float) -> None:
    """Takes time that was no training (evaluation, a blocking checkpoint) out of the rates."""
    self._away += seconds

  def report(self, step: int) -> dict[str, float]:
    """Fetches and says the means since the last report; returns them.

    `loss` and the like are means over steps, `skipped` counts and the rate are the latest; besides them
    `steps_per_second`, `examples_per_second` and `waiting_for_data` (share of the time).
    """
    fetched = jax.device_get(self._pending)
    seconds = max(time.monotonic() - self._since - self._away, 1e-9)
    steps = max(step - self._last_step, 1)
    values = {name: _finite_mean([metrics[name] for metrics in fetched]) for name in fetched[-1]}
    values.update({name: float(fetched[-1][name]) for name in LATEST if name in values})
    values["skipped_in_a_row"] = max(float(metrics["skipped_in_a_row"]) for metrics in fetched)
    values["steps_per_second"] = steps / seconds
    values["examples_per_second"] = self._examples / seconds
    values["waiting_for_data"] = min(1.0, self._waited / seconds)
    left = (self._total_steps - step) / values["steps_per_second"]
    line = (
      f"step {step}/{self._total_steps}  loss {values['loss']:.4f}  lr {values['learning_rate']:.2e}  "
      f"{values['examples_per_second']:.0f} examples/s  {_duration(left)} left"
    )
    if values["waiting_for_data"] >= 0.05:
      line += f"  waiting for data {values['waiting_for_data']:.0%}"
    if values["skipped"]:
      line += f"  {int(values['skipped'])} non-finite steps skipped"
    if "accuracy" in values:
      line += f"  accuracy {values['accuracy']:.3f}"
    self._say(line)
    self.write(step, {f"train/{name}": value for name, value in values.items()})
    self._pending.clear()
    self._examples, self._last_step = 0, step
    self._restart_clock()
    return values

  def evaluation(self, step: int, rows: Sequence[tuple[str, str, float]], seconds: float) -> dict[str, float]:
    """Says and writes rows (language, name, value); returns one value a name.

    That is the row of the language "" or `mean` if there is one, and else the mean over the languages.
    """
    summary = summarise(rows)
    self._say(
      f"step {step}/{self._total_steps}  evaluation in {_duration(seconds)}: "
      + "  ".join(f"{name} {value:.4f}" for name, value in summary.items())
    )
    scalars = {f"eval/{name}": value for name, value in summary.items()}
    scalars.update({f"eval/{name}/{language}": value for language, name, value in rows if language})
    self.write(step, scalars)
    return summary

  def write(self, step: int, scalars: Mapping[str, float]) -> None:
    """Scalars to TensorBoard's files, if there are any."""
    if self._log_dir is None:
      return
    if self._writer is None:
      # clu brings TensorFlow, seconds that a run without TensorBoard need not spend.
      from clu import metric_writers

      self._writer = metric_writers.SummaryWriter(self._log_dir)
    self._writer.write_scalars(step, dict(scalars))
    self._writer.flush()

  def close(self) -> None:
    """Ends TensorBoard's files."""
    if self._writer is not None:
      self._writer.close()


LATEST = ("learning_rate", "skipped")
MEAN_LANGUAGES = ("", "mean")


def summarise(rows: Sequence[tuple[str, str, float]]) -> dict[str, float]:
  """One value for each metric name of an evaluator's rows; see `Progress.evaluation`."""
  by_name: dict[str, dict[str, float]] = {}
  for language, name, value in rows:
    by_name.setdefault(name, {})[language] = float(value)
  summary = {}
  for name, values in by_name.items():
    given = [values[language] for language in MEAN_LANGUAGES if language in values]
    summary[name] = given[0] if given else float(np.mean(list(values.values())))
  return summary


def _finite_mean(values: Sequence[Any]) -> float:
  # A skipped step is counted and said; its NaN would hide the others' loss.
  finite = [float(value) for value in values if np.isfinite(value)]
  return float(np.mean(finite)) if finite else float("nan")


def _duration(seconds: float) -> str:
  minutes, seconds = divmod(int(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
