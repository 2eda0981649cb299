"""Chooses cases, runs them in a few processes, counts what was wrong."""

import argparse
import collections
import contextlib
import functools
import importlib
import json
import multiprocessing
import os
import pathlib
import queue
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence

from tests.fuzz import commands, kills, materials, sandbox, strangers
from xmcap.scoring.health import identifier

_OF_LIGHT = (
  "xmcap.training.reporting.summary", "xmcap.human.rating_page", "xmcap.pages.output", "xmcap.pages.report",
)  # fmt: skip
_OF_HEAVY = (
  "tensorflow", "xmcap.convert.exporting", "xmcap.convert.importing", "xmcap.corpora.checking.check",
  "xmcap.corpora.checking.show", "xmcap.corpora.building.build", "xmcap.data.registry", "xmcap.evaluation.evaluators",
  "xmcap.evaluation.model_dir", "xmcap.planning.parameters", "xmcap.dry_run.run", "xmcap.training.loop",
)  # fmt: skip


def _arguments(argv):
  parser = argparse.ArgumentParser(
    prog="python -m tests.fuzz",
    description="Calls every command with damaged inputs and odd options, and counts what was wrong.",
  )
  parser.add_argument("--minutes", type=float, default=20.0, help="to go on for")
  parser.add_argument("--cases", type=int, default=0, help="to stop after; 0: as many as there is time for")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument(
    "--processes", type=int, default=4,
    help="of which the first calls the commands that need jax or tensorflow, and the others all else",
  )  # fmt: skip
  parser.add_argument("--only", default="", help="commands whose names begin so")
  parser.add_argument("--kills", action="store_true", help="whole inputs, and a signal at a random moment")
  parser.add_argument(
    "--doors", action="store_true", help="readers of tables and tokenizers and the server, called directly"
  )
  parser.add_argument("--case", type=int, help="this one alone")
  parser.add_argument(
    "--patience", type=float, default=1.0, help="times the limits, on a machine that does more"
  )
  parser.add_argument("--keep", type=pathlib.Path, help="where the folders of wrong cases go")
  parser.add_argument("--json", type=pathlib.Path, help="write the counts there")
  return parser.parse_args(argv)


def _commands(options, number: int) -> Sequence[commands.Command]:
  """Of which a case calls one."""
  if options.doors:
    return importlib.import_module("tests.fuzz.doors").DOORS
  return commands.LIGHT if number % options.processes else commands.HEAVY


def _warm(heavy: bool, made: pathlib.Path, out: pathlib.Path) -> None:
  """Imports and loads what commands need when they are called, so that a fork has it already."""
  for name in (*_OF_LIGHT, *(_OF_HEAVY if heavy else ())):
    importlib.import_module(name)
  if not heavy:
    # Each once, whole: what it loads when it is called is there from then on.
    for number, command in enumerate(commands.LIGHT):
      folder = out / str(number)
      folder.mkdir(parents=True)
      case = commands.prepare(command, made, folder, random.Random(1))
      with contextlib.chdir(folder), contextlib.suppress(RuntimeError):
        materials.call(*case.arguments)
    identifier.log_likelihoods(["a"], ["en"])


def _case(
  options, number: int, made: pathlib.Path, folder: pathlib.Path
) -> tuple[sandbox.Case, sandbox.Outcome]:
  rng = random.Random(f"{options.seed}:{number}")
  of = _commands(options, number)
  command = commands.choose(of, rng, options.only, options.kills)
  each = list({command.name: command for command in reversed(of)}.values())
  if number // options.processes < len(each) and not (options.only or options.kills):
    command = each[number // options.processes]  # the first cases are of each name, so that few are of all
  if options.kills:
    return kills.run(command, made, folder, rng, options.patience)
  commands.clear(folder)
  case = commands.damage(command, commands.prepare(command, made, folder, rng), folder, rng)
  return case, sandbox.run(case, folder, command.call, options.patience)


def _work(options, first: int, made: pathlib.Path, place: pathlib.Path, until: float, results) -> None:
  """Runs every `options.processes`th case from `first` on, in one folder."""
  if not options.doors:
    _warm(first == 0, made, place / str(first) / "warm")
  folder = place / str(first) / "case"
  number = first
  while time.monotonic() < until and (not options.cases or number < options.cases):
    case, outcome = _case(options, number, made, folder)
    if outcome.wrong and options.keep:
      left_out = shutil.ignore_patterns("*.socket")
      shutil.copytree(
        folder, options.keep / str(number), True, left_out, ignore_dangling_symlinks=True, dirs_exist_ok=True
      )
    results.put((number, case, outcome))
    number += options.processes
  results.put(None)


def main(argv=None) -> int:
  """Returns 1 if a case was wrong."""
  options = _arguments(argv)
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  firsts = [
    first for first in range(options.processes)
    if any(command.name.startswith(options.only) for command in _commands(options, first))
  ]  # fmt: skip
  if options.case is not None:
    firsts = [options.case % options.processes]
  if not firsts:
    print(f"python -m tests.fuzz: --only={options.only}: no command's name begins so", file=sys.stderr)
    return 2
  with tempfile.TemporaryDirectory(prefix="xmcap-fuzz-") as temporary:
    place = pathlib.Path(temporary).resolve()
    # What one case has compiled the next need not.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(place / "compiled"))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    context = multiprocessing.get_context("spawn")
    make = strangers.make if options.doors else functools.partial(materials.make, models=0 in firsts)
    maker = context.Process(target=make, args=(place / "materials",))
    maker.start()
    maker.join()
    if maker.exitcode:
      return 1
    if options.case is not None:
      if not options.doors:
        _warm(firsts == [0], place / "materials", place / "warm")
      case, outcome = _case(options, options.case, place / "materials", options.keep)
      print(
        f"xmcap {' '.join(map(repr, case.arguments))}\n{case.damage}\n{outcome.output}\n{outcome.code} {outcome.wrong}"
      )
      return int(bool(outcome.wrong))
    results = context.Queue()
    until = time.monotonic() + 60 * options.minutes
    workers = [
      context.Process(target=_work, args=(options, first, place / "materials", place, until, results))
      for first in firsts
    ]
    for worker in workers:
      worker.start()
    counts = _collect(results, workers)
  _report(counts, options)
  return int(any(count["wrong"] for count in counts.values()))


def _collect(results, workers: Sequence) -> dict[str, collections.Counter]:
  counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
  ended = 0
  while ended < len(workers):
    try:
      said = results.get(timeout=5)
    except queue.Empty:
      if any(worker.exitcode for worker in workers):
        raise RuntimeError("a process that calls the commands has died") from None
      continue
    if said is None:
      ended += 1
      continue
    number, case, outcome = said
    kind = {0: "done", 1: "failed", 2: "refused"}.get(outcome.code, "other")
    counts[case.command].update({"cases": 1, kind: 1, "wrong": bool(outcome.wrong)})
    counts[case.command]["slowest"] = max(counts[case.command]["slowest"], round(outcome.seconds, 1))
    for line in outcome.wrong:
      print(f"case {number}: {case.command} ({case.damage!a}): {line!a}", flush=True)
  return counts


def _report(counts, options) -> None:
  headings = ("cases", "done", "failed", "refused", "other", "wrong", "slowest")
  print(
    "| command | cases | exit 0 | exit 1 | exit 2 | other | wrong | slowest, s |\n|---|"
    + "---:|" * len(headings)
  )
  total = collections.Counter()
  for name, count in sorted(counts.items()):
    print(f"| {name} | " + " | ".join(str(count[heading]) for heading in headings) + " |")
    total.update({heading: count[heading] for heading in headings[:-1]})
  print("| all | " + " | ".join(str(total[heading]) for heading in headings[:-1]) + " | |")
  if options.json:
    options.json.write_text(
      json.dumps({name: dict(count) for name, count in sorted(counts.items())}, indent=1)
    )
