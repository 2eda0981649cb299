"""Traces a few steps for XProf (TensorBoard's Profile) and Perfetto.

`MODEL_DIR/profile/plugins/profile/step_NNNNNN/` holds two files per process: `process_I.xplane.pb` for `tensorboard
--logdir MODEL_DIR/profile`, and `process_I.trace.json.gz` for ui.perfetto.dev.
"""

import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Sequence

import gin
import jax
import numpy as np
from jax.experimental import multihost_utils

from xmcap.errors import UsageError, one_line
from xmcap.files.bucket_paths import epath
from xmcap.training.hosts import watch
from xmcap.training.run import Hook, Run

REQUEST = "profile.now"
"""A file of this name in the run's folder requests a trace; it is removed when the trace begins."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Profiler:
  """Which steps to trace.

  Attributes:
    steps: (first, last), both included, counted from 1 as in the lines of progress; (): none.
    num_steps: length of a trace that is requested by `MODEL_DIR/profile.now`; it begins after the next report.
    python: whether to trace Python calls, which makes files larger and the host slower.
  """

  steps: Sequence[int] = ()
  num_steps: int = 5
  python: bool = False

  def __post_init__(self):
    steps = tuple(self.steps or ())
    object.__setattr__(self, "steps", steps)
    if steps and (len(steps) != 2 or not 1 <= steps[0] <= steps[1]):
      raise UsageError(f"Profiler.steps is {steps}: give the first and the last step, such as (100, 105)")
    if self.num_steps < 1:
      raise UsageError(f"Profiler.num_steps is {self.num_steps}: give at least 1")


class Profile(Hook):
  """The tracing hook. Process 0 looks for `profile.now` every `check_every` steps; all trace the same steps."""

  def __init__(self, profiler: Profiler, check_every: int):
    self._profiler = profiler
    self._check_every = check_every
    self._last: int | None = None  # step of the current trace
    self._first = 0

  def begin(self, run: Run) -> None:
    self._model_dir = epath.Path(run.model_dir)
    self._say = run.say
    if self._profiler.steps and self._profiler.steps[0] == run.step + 1:
      self._begin(*self._profiler.steps)

  def end(self) -> None:
    if self._last is not None:
      self._end()

  def __call__(self, run: Run) -> None:
    began = time.monotonic()
    if self._last is not None:
      if run.step < self._last and not run.is_last:
        return
      with watch.during("checkpoint", f"the trace of step {self._first}"):
        jax.block_until_ready(run.state.params)
        self._end()
    elif steps := self._due(run):
      jax.block_until_ready(run.state.params)
      self._begin(*steps)
    else:
      return
    run.progress.beside("profiling", time.monotonic() - began)

  def _due(self, run: Run) -> Sequence[int]:
    """The first and last step of a trace that begins now; () if none does."""
    if run.is_last:
      return ()
    if self._profiler.steps and run.step + 1 == self._profiler.steps[0]:
      return self._profiler.steps
    if run.every(self._check_every) and self._asked():
      return run.step + 1, run.step + self._profiler.num_steps
    return ()

  def _asked(self) -> bool:
    request = self._model_dir / REQUEST
    asked = jax.process_index() == 0 and request.exists()
    if asked:
      request.unlink()
    return bool(multihost_utils.broadcast_one_to_all(np.asarray(asked)))

  def _begin(self, first: int, last: int) -> None:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = int(self._profiler.python)
    # Written to a local disk first, because the run's folder may be in an object store.
    self._temporary = tempfile.TemporaryDirectory(prefix="xmcap-profile-")
    try:
      jax.profiler.start_trace(self._temporary.name, create_perfetto_trace=True, profiler_options=options)
    except RuntimeError as error:  # another trace is running
      self._temporary.cleanup()
      self._say(f"no trace from step {first}: {one_line(error)}")
      return
    self._first, self._last = first, last

  def _end(self) -> None:
    self._last = None
    with self._temporary as folder:
      try:
        jax.profiler.stop_trace()
        out = self._keep(pathlib.Path(folder))
      except (OSError, ValueError) as error:
        self._say(f"the trace could not be written: {one_line(error)}; the run goes on")
        return
    self._say(f"trace from step {self._first} on in {out}")

  def _keep(self, folder: pathlib.Path) -> epath.Path:
    (xplane,) = folder.glob("plugins/profile/*/*.xplane.pb")
    out = self._model_dir / "profile" / "plugins" / "profile" / f"step_{self._first:06}"
    out.mkdir(parents=True, exist_ok=True)
    process = f"process_{jax.process_index()}"
    (out / f"{process}.xplane.pb").write_bytes(xplane.read_bytes())
    (out / f"{process}.trace.json.gz").write_bytes((xplane.parent / "perfetto_trace.json.gz").read_bytes())
    return out
