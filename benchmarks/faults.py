"""Breaks runs at random moments, starts them again, and compares their last bits with those of an undisturbed run.

usage: python benchmarks/faults.py [--faults=100] [--seed=0] [--steps=400]
A small network is trained for 400 steps with a checkpoint every 20; two of its batches hold an infinity. Each start is
a process of its own (`fault_runs.py`). Faults: SIGKILL, SIGTERM, SIGHUP, SIGINT; a disk that is full (no file may grow
beyond 100 kB); a data source that stalls; a checkpoint whose writing hangs; a file of the newest checkpoint cut short,
or with a bit flipped; any two of these at once; a second run in the same folder; and damage to every checkpoint. After
each fault the run is started again. It must resume from its newest whole checkpoint, name what was wrong, and end with
the undisturbed run's bits: parameters, optimizer state and counters. A second run is refused while the first goes on,
and a run with nothing but damage until its user says --from_scratch.
"""

import argparse
import collections
import dataclasses
import multiprocessing
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks import report
from benchmarks.fault_runs import CODES, DAMAGE, ONE, SIGNALS, Run

TWO, SECOND, ALL = "two at once", "second run in the folder", "all checkpoints damaged"
KINDS = (*ONE, TWO, SECOND, ALL)
NAMED = {
  "full disk": r"ERROR .*{folder}.*writing failed",
  "stalled source": r"ERROR .*data from ToyStream",
  "hanging write": r"has been in '.*checkpoint.*HangLimits.checkpoint",
}
"""What a start says that came to it; SIGTERM and SIGINT are said in the loop's own line."""


@dataclasses.dataclass
class Row:
  """How often a fault came, what the start exited with, and how often what was wrong was named."""

  faults: int = 0
  named: int = 0
  codes: collections.Counter = dataclasses.field(default_factory=collections.Counter)


def possible(run: Run) -> list[str]:
  """A checkpoint is damaged only where there is another one to go on from."""
  two = len(run.whole()) > 1
  return [kind for kind in KINDS if two or kind not in (*DAMAGE, ALL)]


def fault(run: Run, kind: str, rng: random.Random) -> tuple[int, str, bool, str]:
  """One start with a fault: its exit code, what it said, whether that named what was wrong, and a note."""
  if kind == SECOND:
    return second(run, rng)
  if kind == ALL:
    return all_damaged(run, rng)
  kinds = (kind,)
  if kind == TWO:
    known = ONE if len(run.whole()) > 1 else [one for one in ONE if one not in DAMAGE]
    kinds = tuple(rng.sample(known, 2))
  damaged = tuple(run.damage(one, rng, run.whole()[-1]) for one in kinds if one in DAMAGE)
  if damaged and not set(kinds) - set(DAMAGE):
    kinds += ("SIGKILL",)
  code, text = run.start(run.plan(kinds, rng), damaged)
  note = " + ".join(kinds) if kind == TWO else ""
  named = bool(damaged) and run.named
  if damaged:
    files = ", ".join(str(file.relative_to(run.folder)) for file in damaged)
    note += f" {files}: {'named' if named else 'harmless'}"
  if "digest" in text:
    return code, text, named, note
  wanted = {code for one in kinds for code in CODES.get(one, ())}
  assert code in wanted, f"{kinds}: exit code {code}: {text}"
  # What ended the start: one of those that it exits so with.
  causes = [one for one in kinds if one in NAMED and code in CODES[one] and "stopped by SIG" not in text]
  if causes:
    said = [one for one in causes if re.search(NAMED[one].format(folder=run.folder), text)]
    assert said, f"{kinds}: exit code {code}, and none of {causes} is named: {text}"
    named = True
  return code, text, named, note


def second(run: Run, rng: random.Random) -> tuple[int, str, bool, str]:
  """A second run in the folder while the first goes on, which is then killed: the lock goes with it."""
  plan = run.plan((), rng)
  first = run.begin(plan)
  run.await_state(first)
  log = run.log.with_suffix(".second")
  other = run.begin(plan, log)
  other.join(120)
  text = log.read_text()
  alive = first.is_alive()
  if alive:
    os.kill(first.pid, getattr(signal, rng.choice(SIGNALS)))
  first.join(120)
  # The first may have ended before the second came to the lock.
  if not alive:
    return 0, run.text(), False, ""
  assert other.exitcode == 1 and f"process {first.pid} on" in text, (other.exitcode, text)
  assert "parameters on" not in text and "Traceback" not in text, text
  return other.exitcode, "", True, ""


def all_damaged(run: Run, rng: random.Random) -> tuple[int, str, bool, str]:
  """Every checkpoint is damaged: refused, again refused, and begun anew when that is asked for."""
  steps = run.whole()
  for step in steps:
    # Arrays: of the other files, Orbax's own markers may change without harm.
    run.damage(rng.choice(DAMAGE), rng, step, "params/ocdbt.process_0")
  for _ in range(2):
    process = run.begin(run.plan((), rng))
    process.join(120)
    text = run.text()
    assert process.exitcode == 1 and "parameters on" not in text, text
    assert re.search(
      rf"ERROR .*none of the checkpoints .* can be read; .*{run.folder}/damaged.*--from_scratch", text
    ), text
  assert not run.whole()
  code, text = run.start(dataclasses.replace(run.plan(("SIGKILL",), rng), from_scratch=True))
  if not run.whole():
    # Killed before its first checkpoint: there is still nothing but what is damaged.
    (run.folder / "damaged").rename(run.folder / f"damaged-{time.time_ns()}")
  return 1, text, True, f"{steps}, then begun anew: {code}"


def main() -> None:
  """See the head of the file."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--faults", type=int, default=100)
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
    first = Run(root / "undisturbed", options.steps, context)
    code, text = first.start(first.plan((), rng))
    assert code == 0, text
    wanted = re.search(r"digest .*", text)[0]
    print(f"undisturbed: {wanted}", flush=True)
    rows = {kind: Row() for kind in KINDS}
    total = runs = 0
    while total < options.faults:
      runs += 1
      run = Run(root / f"run{runs}", options.steps, context)
      text = ""
      while "digest" not in text:
        if total >= options.faults:
          code, text = run.start(run.plan((), rng))
          continue
        known = possible(run)
        fewest = min(rows[kind].faults for kind in known)
        kind = rng.choice([kind for kind in known if rows[kind].faults <= fewest + 1])
        began = time.monotonic()
        code, text, named, note = fault(run, kind, rng)
        if "digest" in text and kind not in (*DAMAGE, ALL):
          continue  # it ended before anything could happen to it
        total += 1
        rows[kind].faults += 1
        rows[kind].named += named
        rows[kind].codes[code] += 1
        seconds = time.monotonic() - began
        print(
          f"{total}: run {runs}, {kind}, exit code {code}, {seconds:.1f} s, {run.whole()} {note}", flush=True
        )
      found = re.search(r"digest .*", text)[0]
      assert found == wanted, f"run {runs}: {found}, undisturbed {wanted}"
    print(f"\n{total} faults in {runs} runs; each run ended with the undisturbed run's bits\n")
    report.write(
      "faults",
      "Training runs interrupted at random moments",
      [
        (
          kind,
          str(row.faults),
          ", ".join(f"{code} ({count})" for code, count in sorted(row.codes.items())),
          "" if kind in SIGNALS else str(row.named),
        )
        for kind, row in rows.items()
      ],
      columns=("fault", "times", "exit codes (times)", "fault reported"),
      notes=[
        f"{total} faults in {runs} runs of a small network. Each run ended with the bits of an undisturbed run."
      ],
    )
    print("| fault | times | exit codes (times) | what was wrong is named |\n| --- | --- | --- | --- |")
    for kind, row in rows.items():
      codes = ", ".join(f"{code} ({count})" for code, count in sorted(row.codes.items()))
      print(f"| {kind} | {row.faults} | {codes} | {'' if kind in SIGNALS else row.named} |")


if __name__ == "__main__":
  main()
