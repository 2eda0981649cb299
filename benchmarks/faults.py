"""Breaks runs at random moments, starts them again, and compares their last bits with those of an undisturbed run.

usage: python benchmarks/faults.py [--faults=56] [--seed=0] [--steps=400]
A small network is trained for 400 steps with a checkpoint every 20; two of its batches hold an infinity. Each start is
a process of its own. Faults: SIGKILL, SIGTERM, a disk that is full (no file may grow beyond 100 kB), a data source that
stalls, a file of the newest checkpoint cut short, and one with a bit flipped. After each fault the run is started
again. It must resume from its newest whole checkpoint, name the file that was damaged or the folder that is full, and
end with the undisturbed run's bits: parameters, optimizer state and counters.
"""

import argparse
import hashlib
import multiprocessing
import os
import pathlib
import random
import re
import resource
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

EVERY = 20
BAD_STEPS = (57, 311)
FULL = 100_000
STALL_SECONDS = 1.0
KINDS = ("SIGKILL", "SIGTERM", "full disk", "stalled source", "cut short", "bit flip")
DAMAGE = ("cut short", "bit flip")


def attempt(model_dir: str, log: str, total_steps: int, full_after: float, stall_at: int | None) -> None:
  """One start of the run, in a process of its own; ends it as the command would."""
  out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
  os.dup2(out, 1)
  os.dup2(out, 2)
  import jax
  import numpy as np

  from tests.training.toy import ToyObjective, ToyStream
  from xmcap.errors import XmcapError
  from xmcap.training.checkpoints import CheckpointPolicy
  from xmcap.training.loop import train
  from xmcap.training.optimizer import Optimizer, adam
  from xmcap.training.schedule import ConstantThenRsqrt

  def on_batch(step):
    time.sleep(0.004)
    if step == stall_at:
      threading.Event().wait()

  def say(line):
    print(line, flush=True)
    if full_after and "parameters on" in line:
      threading.Timer(full_after, resource.setrlimit, (resource.RLIMIT_FSIZE, (FULL, FULL))).start()

  code = 0
  try:
    result = train(
      model_dir, ToyObjective(4096), ToyStream(bad_steps=BAD_STEPS, on_batch=on_batch), total_steps,
      Optimizer(adam, ConstantThenRsqrt(learning_rate=1e-2, constant_steps=None)), log_every=50,
      checkpoint=CheckpointPolicy(every=EVERY), tensorboard=False, data_timeout=STALL_SECONDS, say=say,
    )  # fmt: skip
    if result.finished:
      digest = hashlib.sha256()
      for leaf in jax.tree.leaves(jax.device_get(result.state)):
        digest.update(np.asarray(leaf).tobytes())
      print("digest", digest.hexdigest(), "skipped", int(result.state.skipped))
    else:
      code = 75
  except XmcapError as error:
    print("ERROR", error)
    code = error.exit_code
  sys.stdout.flush()
  os._exit(code)


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
    self.damaged: pathlib.Path | None = None

  def whole(self) -> list[int]:
    """Steps of the checkpoints that are finished."""
    folder = self.folder / "checkpoints"
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())

  def start(self, kind: str = "", rng: random.Random | None = None) -> tuple[int, str]:
    """Starts it, with a fault on the way if asked for; returns the exit code and the log; checks where it resumed."""
    before = self.whole()
    expected = before[-1] if before else 0
    limits = {"full_after": 0.0, "stall_at": None}
    if kind == "full disk":
      limits["full_after"] = rng.uniform(0.01, 1.0)
    if kind == "stalled source":
      limits["stall_at"] = min(expected + rng.randrange(1, 150), self.steps - 1)
    self.log.unlink(missing_ok=True)
    process = self.context.Process(
      target=attempt, args=(str(self.folder), str(self.log), self.steps), kwargs=limits
    )
    process.start()
    if kind in ("SIGKILL", "SIGTERM"):
      while process.is_alive() and "parameters on" not in self.text():
        time.sleep(0.01)
      process.join(rng.uniform(0.0, 1.2))
      if process.is_alive():
        os.kill(process.pid, getattr(signal, kind))
    process.join(120)
    if process.is_alive():
      process.kill()
      raise SystemExit(f"hung: {kind}: {self.text()}")
    text = self.text()
    self._check_start(text, expected, before)
    return process.exitcode, text

  def text(self) -> str:
    """What the newest start said."""
    return self.log.read_text(errors="replace") if self.log.exists() else ""

  def _check_start(self, text: str, expected: int, before: list[int]) -> None:
    found = re.search(r"resuming from step (\d+)|starting from scratch", text)
    if found is None:
      raise SystemExit(f"did not start: {text}")
    began = int(found[1] or 0)
    if self.damaged is None:
      assert began == expected, f"resumed from {began}, but {expected} was whole"
      return
    named, self.damaged = str(self.damaged) in text or str(self.damaged.parent) in text, None
    # What Orbax notes for itself beside the items may change without harm.
    assert began == expected or (began == before[-2] and named), f"resumed from {began} of {before}: {text}"
    self.named = named

  def damage(self, kind: str, rng: random.Random) -> pathlib.Path:
    """Breaks a file of the newest checkpoint; returns it."""
    files = [
      path for path in (self.folder / "checkpoints" / str(self.whole()[-1])).rglob("*") if path.is_file()
    ]
    file = rng.choice(sorted(path for path in files if path.stat().st_size))
    data = bytearray(file.read_bytes())
    if kind == "cut short":
      del data[rng.randrange(len(data)) :]
    else:
      data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    self.damaged = file
    return file


def main() -> None:
  """See the head of the file."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--faults", type=int, default=56)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--steps", type=int, default=400)
  options = parser.parse_args()
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  rng = random.Random(options.seed)
  # Libraries are imported once; no start initialises jax in the process that the others come from.
  context = multiprocessing.get_context("forkserver")
  context.set_forkserver_preload(["xmcap.training.loop", "tests.training.toy"])
  with tempfile.TemporaryDirectory() as place:
    root = pathlib.Path(place)
    code, text = Run(root / "undisturbed", options.steps, context).start()
    assert code == 0, text
    wanted = re.search(r"digest .*", text)[0]
    print(f"undisturbed: {wanted}", flush=True)
    rows = {kind: {"faults": 0, "codes": {}, "named": 0} for kind in KINDS}
    total = runs = 0
    while total < options.faults:
      runs += 1
      run = Run(root / f"run{runs}", options.steps, context)
      ended = False
      while not ended:
        # A checkpoint is damaged only where there is another one to go on from.
        possible = [kind for kind in KINDS if kind not in DAMAGE or len(run.whole()) > 1]
        fewest = min(rows[kind]["faults"] for kind in possible)
        kind = rng.choice([kind for kind in possible if rows[kind]["faults"] <= fewest + 1])
        if total >= options.faults:
          kind = ""
        began = time.monotonic()
        if kind in DAMAGE:
          file = run.damage(kind, rng)
          code, text = run.start("SIGKILL", rng)
          rows[kind]["named"] += run.named
          note = f"{file.relative_to(run.folder)}: {'named' if run.named else 'harmless'}"
        else:
          code, text = run.start(kind, rng)
          note = ""
        seconds = time.monotonic() - began
        ended = "digest" in text
        happened = kind and (kind in DAMAGE or not ended)
        if happened:
          row = rows[kind]
          row["faults"] += 1
          row["codes"][code] = row["codes"].get(code, 0) + 1
          total += 1
          print(
            f"{total}: run {runs}, {kind}, exit code {code}, {seconds:.1f} s, {run.whole()} {note}",
            flush=True,
          )
          wants = {"SIGKILL": (-9,), "SIGTERM": (75, -15), "full disk": (1,), "stalled source": (75,)}
          assert code in wants.get(kind, (code,)), f"{kind}: exit code {code}: {text}"
          if kind == "full disk":
            assert re.search(rf"ERROR .*{run.folder}.*writing failed", text), text
            row["named"] += 1
          if kind == "stalled source":
            assert "data from ToyStream" in text, text
            row["named"] += 1
      found = re.search(r"digest .*", text)[0]
      assert found == wanted, f"run {runs}: {found}, undisturbed {wanted}"
    print(f"\n{total} faults in {runs} runs; each run ended with the undisturbed run's bits\n")
    print("| fault | times | exit codes (times) | file, folder or source named |\n| --- | --- | --- | --- |")
    for kind, row in rows.items():
      codes = ", ".join(f"{code} ({count})" for code, count in sorted(row["codes"].items()))
      named = "" if kind.startswith("SIG") else row["named"]
      print(f"| {kind} | {row['faults']} | {codes} | {named} |")


if __name__ == "__main__":
  main()
