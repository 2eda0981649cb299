"""Measures speed and metrics during a run, prints lines of progress, and hands the numbers to the writers."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from xmcap.errors import one_line
from xmcap.training import compilation_cache
from xmcap.training.hosts import watch
from xmcap.training.reporting.goodput import Goodput
from xmcap.training.reporting.metrics_file import COMPILE_SECONDS, EVAL
from xmcap.training.reporting.writers import AllWriters

Batch = Mapping[str, jax.Array]
_Shapes = tuple[tuple[str, tuple[int, ...]], ...]

BESIDE = ("evaluating", "saving", "compiling", "profiling")
"""Activities other than training; their time is left out of the rates."""

_SETTLE_SECONDS = 60.0


class Pace:
  """Step times since the last report, and the time spent on other activities."""

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    self._clock = clock
    self._since = self._last_done = clock()
    self._start_over(self._since)

  def _start_over(self, now: float) -> None:
    # `_last_done` stays: the time between the last step and the report belongs to the next step.
    self._since = now
    self._steps: list[float] = []
    self._beside: dict[str, float] = dict.fromkeys(BESIDE, 0.0)
    self._waited = 0.0

  def step_done(self) -> None:
    """Notes that the device has finished one more step."""
    now = self._clock()
    self._steps.append(now - self._last_done)
    self._last_done = now

  def waited(self, seconds: float) -> None:
    """Counts time in which the device was idle for want of data."""
    self._waited += seconds

  def beside(self, activity: str, seconds: float) -> None:
    """Takes the time of one of `BESIDE` out of the rates and out of the step during which it was spent."""
    self._beside[activity] += seconds
    self._last_done += seconds

  def take(self) -> tuple[float, dict[str, float], dict[str, float]]:
    """Returns the measurements since the last report, and starts over.

    They are: the seconds of training; the rate and the seconds per step, by name; and the shares of the whole time
    spent `waiting_for_data` or on one of `BESIDE`.
    """
    now = self._clock()
    whole = max(now - self._since, 1e-9)
    training = max(whole - sum(self._beside.values()), 1e-9)
    steps = self._steps or [training]
    p50, p95 = np.percentile(steps, (50, 95))
    speed = {
      "step_seconds": training / len(steps),
      "step_seconds_p50": float(p50),
      "step_seconds_p95": float(p95),
      "steps_per_second": len(steps) / training,
    }
    shares = {"waiting_for_data": min(1.0, self._waited / whole)}
    shares.update({activity: seconds / whole for activity, seconds in self._beside.items()})
    self._start_over(now)
    return training, speed, shares


class TrainingProgress:
  """Collects the metrics of the steps on the device, and fetches, prints and writes them at each report.

  Nothing is fetched between two reports, and the loop waits for the device only where it would anyway.
  `ideal_seconds(batch)` is the time of a step at the devices' peak; see `flops.ideal_seconds`. `lengths` are those of
  the targets, for each of which the step is compiled.
  """

  def __init__(
    self,
    total_steps: int,
    start_step: int,
    writer: AllWriters,
    say: Callable[[str], None],
    ideal_seconds: Callable[[Mapping[str, jax.ShapeDtypeStruct]], float | None] = lambda batch: None,
    goodput: Goodput | None = None,
    lengths: Sequence[int] = (),
  ):
    self.pace = Pace()
    self._goodput = goodput or Goodput()
    self._total_steps = total_steps
    self._say = say
    self._writer = writer
    self._ideal_seconds = ideal_seconds
    self._lengths = lengths
    self._ideal: dict[_Shapes, float | None] = {}
    self._step = self._start_step = start_step
    self._begun: _Shapes | None = None
    self._ran: set[_Shapes] = set()
    self._start_over()

  def _start_over(self) -> None:
    self._pending: list[Mapping[str, jax.Array]] = []
    self._batches: list[_Shapes] = []
    self._done = 0

  def __enter__(self) -> "TrainingProgress":
    return self

  def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
    if error is not None:
      self.event("failed", error=one_line(error))
    self._writer.close()

  @contextlib.contextmanager
  def step(self, batch: Batch, waited: float = 0.0) -> Iterator[None]:
    """Wraps the call of a step. A batch with new shapes compiles, which is announced and does not count as training.

    The seconds that the host `waited` for the batch count only if the device was idle.
    """
    # jax's type hints leave `is_ready` out.
    latest = (value for metrics in self._pending[-1:] for value in metrics.values())
    idle = all(value.is_ready() for value in latest)  # pyright: ignore[reportAttributeAccessIssue]
    if idle:
      self._goodput.spend("waiting_for_data", waited)
      if self._step > self._start_step:
        self.pace.waited(waited)
    shapes = tuple((name, array.shape) for name, array in batch.items())
    compiles = shapes not in self._ideal
    watch.progress("compile" if compiles else "step", f"step {self._step + 1}")
    if compiles:
      self._say(f"compiling the step, {self._program(dict(shapes))}: about a minute, more for a large model")
    began, programs = time.monotonic(), compilation_cache.programs()
    self._begun = shapes
    with jax.profiler.StepTraceAnnotation("train", step_num=self._step + 1):
      yield
    self._begun = None
    if compiles:
      # The call returns when the step is compiled and dispatched.
      seconds, is_cached = time.monotonic() - began, compilation_cache.programs().all_found_since(programs)
      how = "read from the compilation cache" if is_cached else "compiled"
      self._say(f"{how} in {seconds:.1f} s; running the first step")
      self._ideal[shapes] = self._ideal_seconds(
        {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in batch.items()}
      )
      self.beside("compiling", time.monotonic() - began)
      self._write(self._step, {} if is_cached else {_compile_name(dict(shapes)): seconds})
    self._batches.append(shapes)
    self._step += 1

  def _program(self, shapes: Mapping[str, Sequence[int]]) -> str:
    """Says which of the step's programs takes batches of these shapes."""
    number = len(self._ideal) + 1
    if number > max(1, len(self._lengths)):
      return "again for another shape of batch"
    if len(self._lengths) <= 1:
      return "the only program"
    which = (
      f"program {number} of {len(self._lengths)} (targets of {', '.join(map(str, self._lengths))} tokens)"
    )
    return f"{which}, for {shapes['target_tokens'][-1]} tokens"

  def beside(self, activity: str, seconds: float) -> None:
    """Counts seconds that were spent on one of `BESIDE` instead of training."""
    self.pace.beside(activity, seconds)
    self._goodput.spend(activity, seconds)

  def _write(self, step: int, values: Mapping[str, float]) -> None:
    self._writer.scalars(step, {**values, **self._goodput.shares()})

  def add(self, metrics: Mapping[str, jax.Array]) -> None:
    """Adds a step's metrics, which stay on the device, and waits until at most two steps are queued."""
    self._pending.append(metrics)
    # The batches of more steps would fill the device's memory.
    self._throttle(ahead=2)

  def _throttle(self, ahead: int) -> None:
    while len(self._pending) - self._done > ahead:
      jax.block_until_ready(self._pending[self._done])
      self.pace.step_done()
      self._step_done()

  def _step_done(self) -> None:
    self._ran.add(self._batches[self._done])
    self._done += 1

  @property
  def done(self) -> int:
    """The last step that the devices are known to have done."""
    return self._step - len(self._batches) + self._done

  def undone(self) -> tuple[int, bool]:
    """Returns the step that an error of a device ended, and whether the step's program ran before in this process.

    An error comes when something waits for a result, which may be steps later. Between two steps, the step is the next
    one, and the question is whether any program ran.
    """
    end = time.monotonic() + _SETTLE_SECONDS
    while self._done < len(self._pending):
      try:
        # Steps before the failed one may still run; one that hangs is not waited for.
        while not all(value.is_ready() for value in jax.tree.leaves(self._pending[self._done])):
          if time.monotonic() > end:
            raise TimeoutError
          time.sleep(0.01)
        jax.block_until_ready(self._pending[self._done])
      except Exception:
        break
      self._step_done()
    else:
      return self.done + 1, self._begun in self._ran if self._begun else bool(self._ran)
    return self.done + 1, self._batches[self._done] in self._ran

  def report(self, step: int) -> dict[str, float]:
    """Fetches, prints and writes the measurements since the last report, and returns them by name.

    `metric_names` says what the names mean. `loss` and the like are means over steps. `learning_rate`, counts and
    norms are those of the last step, because fetching them for every step would be slow.
    """
    self._throttle(ahead=0)
    means = [{name: value for name, value in row.items() if not _is_latest(name)} for row in self._pending]
    means, latest = jax.device_get((means, self._pending[-1]))
    training, speed, shares = self.pace.take()
    train = {name: _finite_mean([row[name] for row in means]) for name in means[-1]}
    train["skipped_in_a_row"] = max(float(row["skipped_in_a_row"]) for row in means)
    train |= {name: float(value) for name, value in latest.items() if _is_latest(name)}
    speed |= self._rates([float(row.get("weight", 0)) for row in means], training)
    memory = device_memory()
    self._say(self._line(step, train, speed, shares))
    groups = {"train": train, "speed": speed, "time": shares, "memory": memory}
    scalars = {(group, name): value for group, named in groups.items() for name, value in named.items()}
    self._write(
      step, {name if "/" in name else f"{group}/{name}": value for (group, name), value in scalars.items()}
    )
    self._start_over()
    return {**memory, **shares, **speed, **train}

  def _rates(self, weights: Sequence[float], seconds: float) -> dict[str, float]:
    images = captions = 0
    for shapes in map(dict, self._batches):
      images += next(iter(shapes.values()))[0]
      captions += int(np.prod(shapes["target_tokens"][:2])) if "target_tokens" in shapes else 0
    rates = {"pictures_per_second": images / seconds}
    if captions:
      # The weight is 1 for each target token that is not padding.
      rates.update(captions_per_second=captions / seconds, tokens_per_second=sum(weights) / seconds)
    ideal = [of_batch for shapes in self._batches if (of_batch := self._ideal[shapes]) is not None]
    if len(ideal) == len(self._batches):
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
    if step > self._start_step + 1:  # the first step is no measure of the others
      parts.append(f"{_duration((self._total_steps - step) * speed['step_seconds'])} left")
    if shares["waiting_for_data"] >= 0.05:
      parts.append(f"waiting for data {shares['waiting_for_data']:.0%}")
    if train["skipped"]:
      parts.append(f"{int(train['skipped'])} non-finite steps skipped")
    if "accuracy" in train:
      parts.append(f"accuracy {train['accuracy']:.3f}")
    return "  ".join(parts)

  def evaluation(self, step: int, rows: Sequence[tuple[str, str, float]], seconds: float) -> None:
    """Prints and writes rows (language, name, value) of this step or an earlier one."""
    summary = summarise(rows)
    self._say(
      f"step {step}/{self._total_steps}  evaluation in {_duration(seconds)}: "
      + "  ".join(f"{name} {value:.4f}" for name, value in summary.items())
    )
    scalars = {f"{EVAL}{name}": value for name, value in summary.items()}
    scalars.update({f"{EVAL}{name}/{language}": value for language, name, value in rows if language})
    if step == self._step:
      self._write(step, scalars)
    else:  # the shares of goodput belong to this step
      self._writer.scalars(step, scalars)

  def show(self, step: int, texts: Mapping[str, str], images: Mapping[str, np.ndarray]) -> None:
    """Writes Markdown and images, uint8 [N, H, W, 3], by name, to the writers that can show them."""
    self._writer.show(step, texts, images)

  def event(self, kind: str, **facts: Any) -> None:
    """Records that the run started or ended, and its goodput until then; see `metrics_file`."""
    if kind != "started":
      self._write(self._step, {})
    self._writer.event(self._step, kind, **facts)
    if kind == "started":
      self._write(self._step, {})


def _compile_name(shapes: Mapping[str, Sequence[int]]) -> str:
  return f"{COMPILE_SECONDS}{shapes['target_tokens'][-1] if 'target_tokens' in shapes else 'step'}"


def _is_latest(name: str) -> bool:
  """Whether a report holds the last value of a metric instead of its mean."""
  return name in ("learning_rate", "skipped") or "/" in name


def summarise(rows: Sequence[tuple[str, str, float]]) -> dict[str, float]:
  """One value for each metric name of an evaluator's rows: that of the language "" or `mean`, else the mean of all."""
  by_name: dict[str, dict[str, float]] = {}
  for language, name, value in rows:
    by_name.setdefault(name, {})[language] = float(value)
  summary = {}
  for name, values in by_name.items():
    overall = [values[language] for language in ("", "mean") if language in values]
    summary[name] = overall[0] if overall else float(np.mean(list(values.values())))
  return summary


def device_memory() -> dict[str, float]:
  """`peak_bytes`, the peak memory use of this process's fullest device, and `peak_share`, its share of the memory.

  Empty if the devices do not report it, as CPUs.
  """
  stats = [device.memory_stats() or {} for device in jax.local_devices()]
  used = [
    (of_device["peak_bytes_in_use"] / of_device["bytes_limit"], float(of_device["peak_bytes_in_use"]))
    for of_device in stats
    if of_device.get("bytes_limit") and "peak_bytes_in_use" in of_device
  ]
  return dict(zip(("peak_share", "peak_bytes"), max(used), strict=True)) if used else {}


def _finite_mean(values: Sequence[Any]) -> float:
  # Skipped steps are reported separately; their NaN would hide the loss of the others.
  finite = [float(value) for value in values if np.isfinite(value)]
  return float(np.mean(finite)) if finite else float("nan")


def _duration(seconds: float) -> str:
  minutes, seconds = divmod(int(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
