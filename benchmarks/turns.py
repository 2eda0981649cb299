"""Processes that take turns in a benchmark, and the model and the batch that all of them train.

Each rival runs in a process of its own, which may have another Python. It compiles once and then waits; asked for a
turn, it takes some steps and answers with one line of JSON. Neither jax nor torch is imported here.
"""

import argparse
import dataclasses
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Mapping

import numpy as np


@dataclasses.dataclass(frozen=True)
class Shape:
  """A T5.1.1 with mT5-base's widths, and a batch for it; each field is an option of the command line."""

  batch: int = 8
  inputs: int = 8
  targets: int = 32
  real_targets: int = 32
  encoder_layers: int = 2
  decoder_layers: int = 2
  width: int = 768
  heads: int = 12
  mlp: int = 2048
  vocabulary: int = 250_112
  dtype: str = "float32"

  @property
  def head_dim(self) -> int:
    """Of every mT5."""
    return 64


def add_options(parser: argparse.ArgumentParser) -> None:
  """An option for each field of a Shape."""
  for field in dataclasses.fields(Shape):
    parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)


def shape_of(arguments: argparse.Namespace) -> Shape:
  """The shape that the options say."""
  return Shape(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Shape)})


def weights(path: str, shape: tuple[int, ...]) -> np.ndarray:
  """The same random numbers for a parameter wherever it is asked for; `path` as t5x has it. float32."""
  if path.endswith("scale"):
    return np.ones(shape, np.float32)
  values = np.random.default_rng(zlib.crc32(path.encode())).standard_normal(shape, np.float32)
  if path.endswith("kernel"):
    values *= shape[0] ** -0.5
  if path.endswith("query/kernel"):
    values *= 64**-0.5
  return values


def tokens(shape: Shape) -> dict[str, np.ndarray]:
  """`inputs` int32 [batch, inputs], `targets` int32 [batch, targets], 0 after the real ones."""
  rng = np.random.default_rng(0)
  inputs = rng.integers(2, shape.vocabulary, (shape.batch, shape.inputs)).astype(np.int32)
  targets = rng.integers(2, shape.vocabulary, (shape.batch, shape.targets)).astype(np.int32)
  targets[:, shape.real_targets :] = 0
  return {"inputs": inputs, "targets": targets}


Steps = Callable[[int], Callable[[], float]]


def serve(name: str, steps: Mapping[str, Steps], notes: Mapping[str, object]) -> None:
  """The rival's side: answers turns until its input ends.

  Args:
    name: for people, with versions.
    steps: variant -> function that takes so many steps, done when it returns, and gives what tells the loss of the
      last one.
    notes: what else is to be told, as JSON.
  """
  answers = _own_stdout()
  print(json.dumps({"name": name, **notes}), file=answers, flush=True)
  for line in sys.stdin:
    variant, count = json.loads(line)
    began, busy = time.perf_counter(), time.process_time()
    loss = steps[variant](count)
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    loss = loss()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
      json.dumps({"seconds": seconds, "busy": busy, "loss": loss, "memory": memory}), file=answers, flush=True
    )


def _own_stdout():
  # Libraries print to the standard output; only answers may reach the one that asked.
  answers = open(sys.stdout.fileno(), "w", closefd=False)  # noqa: SIM115
  sys.stdout = sys.stderr
  return answers


class Rival:
  """The asker's side of one process.

  Args:
    script: beside this file.
    shape: of model and batch.
    python: the interpreter.

  Attributes:
    notes: what the process told at its start, `name` among it.
    memory: GB that it held at most.
    busy: of each turn, by variant: seconds a step that its threads computed, together; a machine with other work
      on it changes these less than the time that passes.
    losses: of each turn, by variant.
  """

  def __init__(self, script: str, shape: Shape, python: str = sys.executable):
    sizes = [f"--{name}={value}" for name, value in dataclasses.asdict(shape).items()]
    command = [python, str(pathlib.Path(__file__).with_name(script)), *sizes]
    self._process = subprocess.Popen(
      command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    self.memory = 0.0
    self.losses: dict[str, list[float]] = {}
    self.busy: dict[str, list[float]] = {}
    self.notes = self._answer()

  def turn(self, variant: str, steps: int) -> float:
    """Takes steps; returns seconds a step."""
    print(json.dumps([variant, steps]), file=self._process.stdin, flush=True)
    answer = self._answer()
    self.memory = max(self.memory, answer["memory"])
    self.losses.setdefault(variant, []).append(answer["loss"])
    self.busy.setdefault(variant, []).append(answer["busy"] / steps)
    return answer["seconds"] / steps

  def close(self) -> None:
    """Ends the process."""
    self._process.stdin.close()
    self._process.wait()

  def _answer(self) -> dict:
    line = self._process.stdout.readline()
    if not line:
      errors = self._process.stderr.read()[-2_000:]
      raise SystemExit(f"{' '.join(self._process.args[:2])} ended without an answer:\n{errors}")
    return json.loads(line)


def in_turns(runs: Mapping[str, Callable[[], float]], turns: int) -> dict[str, float]:
  """The median of each; in turns, so that a slow minute of the machine is everybody's. The first does not count."""
  times: dict[str, list[float]] = {name: [] for name in runs}
  for _ in range(turns + 1):
    for name, run in runs.items():
      times[name].append(run())
  return {name: statistics.median(of_name[1:]) for name, of_name in times.items()}
