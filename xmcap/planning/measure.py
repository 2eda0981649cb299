"""Measures the step of a run on the devices that are attached, with a made-up batch: no data is read."""

import dataclasses
import re
import statistics
import time

import jax
import numpy as np

from xmcap.planning import run as run_lib
from xmcap.planning import step as step_lib
from xmcap.training import sharding

_WARM_UP = 2  # steps, of which the first loads the program
_BLOCKS, _STEPS = 5, 5  # of blocks whose steps follow each other without a wait, as in training
_LINE = re.compile(r"compiled in ([\d.]+) s, ([\d.]+) ms a step", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Measured:
  """Seconds to compile the step, and the median of its milliseconds."""

  compile_seconds: float
  milliseconds: float

  def __str__(self) -> str:
    return f"compiled in {self.compile_seconds:.1f} s, {self.milliseconds:.3f} ms a step"

  @classmethod
  def parse(cls, text: str) -> "Measured | None":
    """Reads what `__str__` wrote, from among other lines; None if it is not there."""
    match = _LINE.search(text)
    return cls(*map(float, match.groups())) if match else None


def measure_step() -> Measured:
  """Compiles the step of the run that is configured in gin and runs it some times; all processes call it.

  Raises:
    UsageError: the run is incomplete, or does not suit the devices.
    XmcapError: a device's memory is too small, or the compiler fails for another reason.
  """
  devices = jax.devices()
  run = run_lib.of_gin(run_lib.Attached(len(devices), sharding.fast_domains(devices)))
  plan, lowered = step_lib.lower(run, devices)
  began = time.monotonic()
  compiled = lowered.compile()
  compile_seconds = time.monotonic() - began
  mesh = run.partitioning.mesh(devices)
  batch = sharding.put_batch(_made_up(run, sharding.process_rows(mesh, run.pictures)), mesh, run.pictures)
  state = plan.create()
  milliseconds = []
  for number, steps in enumerate((_WARM_UP, *(_STEPS,) * _BLOCKS)):
    began = time.monotonic()
    for _ in range(steps):
      state, metrics = compiled(state, batch)
    jax.block_until_ready((state, metrics))
    if number:
      milliseconds.append(1e3 * (time.monotonic() - began) / steps)
  return Measured(compile_seconds, statistics.median(milliseconds))


def _made_up(run: run_lib.PlannedRun, rows: np.ndarray) -> dict[str, np.ndarray]:
  """Name -> array [rows, ...] of random pictures and tokens, all of which count."""
  random = np.random.default_rng(rows[0])
  vocabulary = run.objective.module.t5.vocab_size
  arrays = {}
  for name, (shape, dtype) in run.shapes.items():
    least, most = (0, 256) if name == "image" else (1, vocabulary) if name.endswith("tokens") else (1, 2)
    arrays[name] = random.integers(least, most, (len(rows), *shape[1:])).astype(dtype)
  return arrays
