"""What a run measures while it goes, and the line of progress that it says of it."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from xmcap.errors import one_line
from xmcap.training.hosts import watch
from xmcap.training.reporting.pace import Pace
from xmcap.training.reporting.writers import AllWriters

Batch = Mapping[str, jax.Array]
_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class Progress:
  """Collects the steps' metrics on the device; every so often fetches them, says them, and hands them to the writers.

  The device is waited for where the loop would wait for it anyway, and nothing is fetched between two reports.

  Args:
    total_steps: of the run.
    start_step: where this process began.
    writer: what the numbers go to, `group/name`.
    say: prints a line.
    ideal_seconds: of a step on a batch, at the peak of the devices; see `flops.ideal_seconds`.
  """

  def __init__(
    self,
    total_steps: int,
    start_step: int,
    writer: AllWriters,
    say: Callable[[str], None],
    ideal_seconds: Callable[[Batch], float | None] = lambda batch: None,
  ):
    self._total_steps = total_steps
    self._say = say
    self._writer = writer
    self._ideal_seconds = ideal_seconds
    self._ideal: dict[_Shapes, float | None] = {}
    self._step = self._start_step = start_step
    self._pace = Pace()
    self._start_over()

  def _start_over(self) -> None:
    self._pending: list[Mapping[str, jax.Array]] = []
    self._newest: Mapping[str, jax.Array] = {}
    self._done = 0
    self._batches: list[_Shapes] = []

  def __enter__(self) -> "Progress":
    return self

  def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
    if error is not None:
      self.event("failed", error=one_line(error))
    self._writer.close()

  @contextlib.contextmanager
  def step(self, batch: Batch, waited: float = 0.0) -> Iterator[None]:
    """Around the call of a step: where the batch has new shapes, that compiles, which is no training.

    Args:
      batch: of the step.
      waited: seconds that the host waited for it, which count if the device had nothing left to do.
    """
    if self._step > self._start_step and self._device_is_idle():
      self._pace.waited(waited)
    shapes = _shapes_of(batch)
    compiles = shapes not in self._ideal
    watch.progress("compile" if compiles else "step", f"step {self._step + 1}")
    began = time.monotonic()
    with jax.profiler.StepTraceAnnotation("train", step_num=self._step + 1):
      yield
    if compiles:
      self._ideal[shapes] = self._ideal_seconds(
        {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in batch.items()}
      )
      self._pace.beside("compiling", time.monotonic() - began)
    self._batches.append(shapes)
    self._step += 1

  def add(self, metrics: Mapping[str, jax.Array]) -> None:
    """Notes a step's metrics, which stay on the device, and waits until at most two steps are queued."""
    self._pending.append({name: value for name, value in metrics.items() if not _is_latest(name)})
    self._newest = metrics
    # Batches of more would fill the device's memory.
    self._throttle(ahead=2)

  def _device_is_idle(self) -> bool:
    return not self._pending or all(value.is_ready() for value in self._pending[-1].values())

  def _throttle(self, ahead: int) -> None:
    while len(self._pending) - self._done > ahead:
      jax.block_until_ready(self._pending[self._done])
      self._pace.step_done()
      self._done += 1

  def beside(self, what: str, seconds: float) -> None:
    """Takes time that was no training out of the rates; `what` is one of `pace.BESIDE`."""
    self._pace.beside(what, seconds)

  def report(self, step: int) -> dict[str, float]:
    """Fetches, says and writes what was measured since the last report; returns it by name.

    docs/training.md lists the names. `loss` and the like are means over steps; `learning_rate`, counts and the norms
    of parts are of the last.
    """
    self._throttle(ahead=0)
    fetched, newest = jax.device_get((self._pending, self._newest))
    training, speed, shares = self._pace.take()
    train = {name: _finite_mean([metrics[name] for metrics in fetched]) for name in fetched[-1]}
    train["skipped_in_a_row"] = max(float(metrics["skipped_in_a_row"]) for metrics in fetched)
    train.update({name: float(value) for name, value in newest.items() if _is_latest(name)})
    speed.update(self._rates(fetched, training))
    memory = device_memory()
    self._say(self._line(step, train, speed, shares))
    groups = {"train": train, "speed": speed, "time": shares, "memory": memory}
    self._writer.scalars(
      step,
      {
        name if "/" in name else f"{group}/{name}": value
        for group, of_group in groups.items()
        for name, value in of_group.items()
      },
    )
    self._start_over()
    return {**memory, **shares, **speed, **train}

  def _rates(self, fetched: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, float]:
    pictures = captions = 0
    for shapes in map(dict, self._batches):
      pictures += next(iter(shapes.values()))[0]
      captions += int(np.prod(shapes["target_tokens"][:2])) if "target_tokens" in shapes else 0
    rates = {"pictures_per_second": pictures / seconds}
    if captions:
      # A caption's weights are 1 for each real token of its target.
      tokens = sum(float(metrics["weight"]) for metrics in fetched)
      rates.update(captions_per_second=captions / seconds, tokens_per_second=tokens / seconds)
    ideal = [self._ideal[shapes] for shapes in self._batches]
    if None not in ideal:
      rates["mfu"] = sum(ideal) / seconds
    return rates

  def _line(self, step: int, train: dict, speed: dict, shares: dict) -> str:
    of = "captions" if "captions_per_second" in speed else "pictures"
    parts = [
      f"step {step}/{self._total_steps}",
      f"loss {train['loss']:.4f}",
      f"lr {train['learning_rate']:.2e}",
      f"{speed[f'{of}_per_second']:.0f} {of}/s",
    ]
    if "mfu" in speed:
      parts.append(f"MFU {speed['mfu']:.0%}")
    parts.append(f"{_duration((self._total_steps - step) * speed['step_seconds'])} left")
    if shares["waiting_for_data"] >= 0.05:
      parts.append(f"waiting for data {shares['waiting_for_data']:.0%}")
    if train["skipped"]:
      parts.append(f"{int(train['skipped'])} non-finite steps skipped")
    if "accuracy" in train:
      parts.append(f"accuracy {train['accuracy']:.3f}")
    return "  ".join(parts)

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
    self._writer.scalars(step, scalars)
    return summary

  def event(self, what: str, **facts: Any) -> None:
    """Writes that the run started or ended; see `metrics_file`."""
    self._writer.event(self._step, what, **facts)


MEAN_LANGUAGES = ("", "mean")


def _shapes_of(batch: Batch) -> _Shapes:
  return tuple((name, array.shape) for name, array in batch.items())


def _is_latest(name: str) -> bool:
  """Whether a report holds a metric's last value and not its mean: what only moves slowly, and the norms of parts.

  A mean of those would have to fetch many numbers for each step.
  """
  return name in ("learning_rate", "skipped") or "/" in name


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


def device_memory() -> dict[str, float]:
  """`peak_bytes`, in use at most so far on the fullest device of this process, and `peak_share` of what it has.

  Nothing where the devices do not say, as CPUs.
  """
  stats = [device.memory_stats() or {} for device in jax.local_devices()]
  used = [
    (each["peak_bytes_in_use"] / each["bytes_limit"], each["peak_bytes_in_use"])
    for each in stats
    if each.get("bytes_limit") and "peak_bytes_in_use" in each
  ]
  if not used:
    return {}
  share, peak = max(used)
  return {"peak_bytes": float(peak), "peak_share": share}


def _finite_mean(values: Sequence[Any]) -> float:
  # A skipped step is counted and said; its NaN would hide the others' loss.
  finite = [float(value) for value in values if np.isfinite(value)]
  return float(np.mean(finite)) if finite else float("nan")


def _duration(seconds: float) -> str:
  minutes, seconds = divmod(int(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
