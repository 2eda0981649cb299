"""A small run that things happen to, for `faults.py`: a start of it, in a process of its own, and all of its starts."""

import dataclasses
import hashlib
import os
import pathlib
import random
import re
import resource
import signal
import sys
import threading
import time

EVERY = 20
BAD_STEPS = (57, 311)
FULL = 100_000  # bytes that a file may have on a full disk
PATIENCE = 4.0  # seconds until a source counts as stalled, or a write as hanging, where one does

SIGNALS = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")
DAMAGE = ("cut short", "bit flip")
ONE = (*SIGNALS, "full disk", "stalled source", "hanging write", *DAMAGE)
"""What can happen to a start."""

CODES = {
  "SIGKILL": (-9,), "SIGTERM": (75, -15), "SIGHUP": (-1,), "SIGINT": (130,), "full disk": (1,),
  "stalled source": (75,), "hanging write": (75,),
}  # fmt: skip
"""What a start exits with, if it came to that; below zero by a signal."""


@dataclasses.dataclass(frozen=True)
class Plan:
  """What happens to a start.

  Attributes:
    events: name -> (step, seconds): it comes so long after the batch of that step is asked for.
    from_scratch: the user asks for that.
  """

  events: dict[str, tuple[int, float]] = dataclasses.field(default_factory=dict)
  from_scratch: bool = False


def attempt(model_dir: str, log: str, total_steps: int, plan: Plan) -> None:
  """One start of the run, in a process of its own; ends it as the command does."""
  out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
  os.dup2(out, 1)
  os.dup2(out, 2)
  # As in a terminal, whatever this script was started by.
  signal.signal(signal.SIGHUP, signal.SIG_DFL)
  signal.signal(signal.SIGINT, signal.default_int_handler)
  code = 0
  try:
    code = _train(model_dir, total_steps, plan)
  except KeyboardInterrupt:
    code = 130
  sys.stdout.flush()
  os._exit(code)


def _train(model_dir: str, total_steps: int, plan: Plan) -> int:
  import jax
  import numpy as np

  from tests.training.toy import ToyObjective, ToyStream
  from xmcap.errors import XmcapError
  from xmcap.files import outputs
  from xmcap.training.checkpoints import checksums
  from xmcap.training.checkpoints.retention import CheckpointPolicy
  from xmcap.training.hooks import hooks
  from xmcap.training.hosts import heartbeat, watch
  from xmcap.training.hosts import join as hosts
  from xmcap.training.loop import train
  from xmcap.training.optimizer import Optimizer, adam
  from xmcap.training.reporting.writers import Writers
  from xmcap.training.run import Start
  from xmcap.training.schedule import ConstantThenRsqrt

  hanging, write = threading.Event(), checksums.write
  heartbeat.BEAT = 0.3

  def happen(kind):
    if kind == "full disk":
      resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, FULL))
    elif kind == "hanging write":
      hanging.set()
    else:
      os.kill(os.getpid(), getattr(signal, kind))

  def on_batch(step):
    time.sleep(0.004)
    for kind, (at, seconds) in plan.events.items():
      if step == at and kind == "stalled source":
        threading.Event().wait()
      elif step == at:
        threading.Timer(seconds, happen, [kind]).start()

  def write_or_hang(folder):
    if hanging.is_set():
      threading.Event().wait()
    write(folder)

  checksums.write = write_or_hang
  limits = watch.HangLimits(checkpoint=PATIENCE) if "hanging write" in plan.events else watch.HangLimits()
  try:
    with outputs.held(model_dir, "xmcap train", "MODEL_DIR"), hosts.joined(None, 1, None, limits=limits):
      result = train(
        model_dir, ToyObjective(4096), ToyStream(bad_steps=BAD_STEPS, on_batch=on_batch), total_steps,
        Optimizer(adam, ConstantThenRsqrt(learning_rate=1e-2, constant_steps=None)), hooks=hooks(log_every=50),
        checkpoint=CheckpointPolicy(every=EVERY), writers=Writers(tensorboard=False),
        start=Start(plan.from_scratch, say=lambda line: print(line, flush=True)),
        data_timeout=PATIENCE if "stalled source" in plan.events else 600,
      )  # fmt: skip
  except XmcapError as error:
    print("ERROR", str(error).split("\n  In call to configurable")[0], flush=True)
    return error.exit_code
  if not result.finished:
    return 130 if "SIGINT" in result.message else 75
  digest = hashlib.sha256()
  for leaf in jax.tree.leaves(jax.device_get(result.state)):
    digest.update(np.asarray(leaf).tobytes())
  print("digest", digest.hexdigest(), "skipped", int(result.state.skipped))
  return 0


class Run:
  """A run and what happened to it.

  Args:
    folder: of the run.
    steps: of the run.
    context: of `multiprocessing`.
  """

  def __init__(self, folder: pathlib.Path, steps: int, context):
    self.folder, self.steps, self.context = folder, steps, context
    self.log = folder.with_suffix(".log")

  def whole(self) -> list[int]:
    """Steps of the checkpoints that are finished."""
    folder = self.folder / "checkpoints"
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())

  def text(self) -> str:
    """What the newest start said."""
    return self.log.read_text(errors="replace") if self.log.exists() else ""

  def plan(self, kinds: tuple[str, ...], rng: random.Random) -> Plan:
    """When these happen to a start; damage was done before it."""
    begins = self.whole()[-1] if self.whole() else 0

    def moment():
      return min(begins + rng.randrange(1, 150), self.steps - 1), rng.uniform(0.0, 0.1)

    return Plan({kind: moment() for kind in kinds if kind not in DAMAGE})

  def begin(self, plan: Plan, log: pathlib.Path | None = None):
    """The process of a start, and its log."""
    log = log or self.log
    log.unlink(missing_ok=True)
    process = self.context.Process(target=attempt, args=(str(self.folder), str(log), self.steps, plan))
    process.start()
    return process

  def await_state(self, process) -> None:
    """Returns when the first line says that the state is there: any moment from then on is as good as another."""
    while process.is_alive() and "parameters on" not in self.text():
      time.sleep(0.01)

  def start(self, plan: Plan, damaged: tuple[pathlib.Path, ...] = ()) -> tuple[int, str]:
    """Starts it; returns the exit code and the log; checks where it resumed."""
    before = self.whole()
    process = self.begin(plan)
    process.join(180)
    if process.is_alive():
      process.kill()
      raise SystemExit(f"hung: {plan}: {self.text()}")
    text = self.text()
    assert "Traceback" not in text or "full disk" in plan.events, text
    self._check_start(text, before, damaged)
    return process.exitcode, text

  def _check_start(self, text: str, before: list[int], damaged: tuple[pathlib.Path, ...]) -> None:
    found = re.search(r"resuming from step (\d+)|starting from scratch", text)
    if found is None:
      raise SystemExit(f"did not start: {text}")
    began, expected = int(found[1] or 0), before[-1] if before else 0
    if not damaged:
      assert began == expected, f"resumed from {began}, but {expected} was whole"
      return
    # What Orbax notes for itself beside the items may change without harm.
    self.named = any(str(file) in text or str(file.parent) in text for file in damaged)
    assert began == expected or (began == before[-2] and self.named), (
      f"resumed from {began} of {before}: {text}"
    )

  def damage(self, kind: str, rng: random.Random, step: int, part: str = "") -> pathlib.Path:
    """Breaks a file of a checkpoint; returns it."""
    files = [path for path in (self.folder / "checkpoints" / str(step) / part).rglob("*") if path.is_file()]
    file = rng.choice(sorted(path for path in files if path.stat().st_size))
    data = bytearray(file.read_bytes())
    if kind == "cut short":
      del data[rng.randrange(len(data)) :]
    else:
      data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    return file
