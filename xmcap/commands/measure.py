"""`xmcap train --measure`: milliseconds of a step with several sets of XLA's flags, each in a process of its own.

On many hosts each goes through the same sets in the same order, and the processes of a set find each other. No host
skips a set for its own clock's sake: each set has its share of the time that is left, and what it leaves goes to the
later ones.
"""

import sys
import time

from xmcap import xla_flags
from xmcap.commands import base, hosts
from xmcap.errors import UsageError, XmcapError

_SECONDS = 600.0
_WORTH = 0.01  # of a step's time: less is not a reason for a flag


def add(command) -> None:
  """Adds the options of `xmcap train`."""
  add_xla_flags(command)
  how = (
    "instead of training, measure a step on these devices with a made-up batch, in ten minutes at most: with each"
    " --xla_flags that is given (repeatable), or with all sets for the chip"
  )
  base.flag(command, "--measure", how)


def add_xla_flags(command) -> None:
  """Adds the option for XLA's flags; `use_xla_flags` sets them."""
  flags = "flags of XLA, each --NAME=VALUE, or the name of a set of them for the chip (docs/pods.md)"
  base.text(command, "--xla_flags", "NAME", flags, [], action="append")


def use_xla_flags(arguments, chip: str = "") -> None:
  """Sets XLA's flags in this process, before jax starts; `chip` is that of the run, "" for this host's."""
  if len(arguments.xla_flags) > 1:
    raise UsageError("--xla_flags is given twice: several sets are for xmcap train --measure")
  if arguments.xla_flags:
    xla_flags.use(arguments.xla_flags[0], chip or xla_flags.chip_here())


def several(arguments) -> bool:
  """Whether `compare` is asked for; a single set is measured in this process."""
  return arguments.measure and len(arguments.xla_flags) != 1


def here(arguments) -> None:
  """Prints the time of a step with the flags of this process; all processes of the run call it."""
  base.refuse(arguments, ("dry_run", "from_scratch", "other_data", "explain"), "goes without --measure")
  import jax

  from xmcap.planning import measure
  from xmcap.training.hosts import join

  with hosts.joined(arguments, training=False):
    # A host that is a set ahead of the others, or behind them, must not compute with them.
    flags = join.agree("XLA flags", arguments.xla_flags[0])
    if len(set(flags)) > 1:
      raise XmcapError(f"the hosts are at different --xla_flags: {', '.join(sorted(set(flags)))}")
    measured = measure.measure_step()
    if jax.process_index() == 0:
      print(f"--xla_flags={arguments.xla_flags[0]}: {measured}", flush=True)


def compare(arguments) -> None:
  """Measures each set and prints a table; of several hosts, the first does. XmcapError if none could be measured."""
  base.refuse(arguments, ("dry_run", "from_scratch", "other_data", "explain"), "goes without --measure")
  base.check_names(arguments)
  chip = xla_flags.chip_here()
  names = arguments.xla_flags or [xla_flags.NONE, *xla_flags.sets(chip)]
  if len(set(names)) < len(names):
    raise UsageError("--xla_flags: the same is given twice; give it once")
  from xmcap.grid import Grid
  from xmcap.launch import runner
  from xmcap.planning.measure import Measured

  end = time.monotonic() + _SECONDS
  results: dict[str, Measured] = {}
  failures: dict[str, str] = {}
  with runner.stoppable():
    for number, name in enumerate(names):
      limit = (end - time.monotonic()) / (len(names) - number)
      base.say(f"measuring --xla_flags={name}, {number + 1} of {len(names)}, for {limit:.0f} s at most")
      ended = runner.execute(_command(arguments, name), limit, captured=True)
      if ended.returncode:
        lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        failures[name] = lines[-1] if lines else f"exit code {ended.returncode}"
        base.say(f"--xla_flags={name}: {failures[name]}")
      elif measured := Measured.parse(ended.stdout.decode("utf-8", "replace")):
        results[name] = measured
  if len(failures) == len(names):
    raise XmcapError(f"no set of flags could be measured: {failures[names[0]]}")
  if not results:
    return  # not the first host
  first = next(iter(results.values())).milliseconds
  rows = [
    (name, f"{one.compile_seconds:.1f}", f"{one.milliseconds:.3f}", f"{one.milliseconds / first:.3f}")
    for name, one in results.items()
  ]
  rows += [(name, "", "failed", "") for name in failures]
  print(
    Grid((f"XLA flags of a {chip}", "compiled in s", "ms a step", "relative"), tuple(rows)).text(), end=""
  )
  best = min(results, key=lambda name: results[name].milliseconds)
  if best != next(iter(results)) and results[best].milliseconds < (1 - _WORTH) * first:
    print(f"The fastest: --xla_flags={best}")
  else:
    print(f"No set is {_WORTH:.0%} faster than --xla_flags={next(iter(results))}.")


def _command(arguments, name: str) -> list[str]:
  """The command that measures one set: this one, with it alone."""
  words = [f"--gin_file={file}" for file in arguments.gin_file]
  words += [f"--gin.{binding}" for binding in arguments.overrides]
  for option in ("gin_search_paths", "coordinator_address", "num_processes", "process_id"):
    if (value := getattr(arguments, option)) not in ("", None):
      words.append(f"--{option}={value}")
  if arguments.allow_import:
    words.append("--allow_import")
  # -P: not the folder of the user, which may be a clone beside the installed package.
  program = [sys.executable, "-P", "-m", "xmcap.cli"]
  return [*program, "train", *words, "--measure", f"--xla_flags={name}"]
