"""A call that a signal stops at a random moment, and the same call again: the output of one that nobody stopped."""

import dataclasses
import functools
import hashlib
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Mapping

from tests.fuzz import commands, sandbox

_SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_LEFT = (".incomplete", ".lock", ".tmp", ".results")


@dataclasses.dataclass(frozen=True)
class _Whole:
  """What an undisturbed call takes, and leaves: name -> hash, or "" of a file that differs from call to call."""

  seconds: float
  files: Mapping[str, str]


def run(
  command: commands.Command, made: pathlib.Path, folder: pathlib.Path, rng: random.Random, patience: float
) -> tuple[sandbox.Case, sandbox.Outcome]:
  """Makes a call, stops it, makes it again; what was wrong with either is in the outcome of the second.

  Args:
    command: what to call, with whole inputs.
    made: the inputs of all commands.
    folder: to work in.
    rng: of the moment, the signal, and the way to call the command.
    patience: see `sandbox.run`.
  """
  way = rng.randrange(3)
  whole = _whole(command, made, folder, way, patience)
  commands.clear(folder)
  case = commands.prepare(command, made, folder, random.Random(way))
  stop = rng.choice(_SIGNALS), rng.uniform(0.0, 1.1 * whole.seconds)
  case = dataclasses.replace(case, damage=f"{stop[0].name} after {stop[1]:.2f} of {whole.seconds:.2f} s")
  stopped = sandbox.run(case, folder, patience=patience, stop=stop)
  again = sandbox.run(case, folder, patience=patience)
  wrong = [f"stopped: {line}" for line in stopped.wrong] + [f"again: {line}" for line in again.wrong]
  if again.code in (1, 2) and "out" in again.output:
    # Refused by the name of the output: whoever removes it can go on.
    shutil.rmtree(folder / "out", ignore_errors=True)
    again = sandbox.run(case, folder, patience=patience)
  if again.code:
    wrong.append(f"ends with {again.code} when it is called again")
  else:
    wrong += _differences(_files(folder), whole.files)
  output = stopped.output + again.output
  return case, dataclasses.replace(again, wrong=wrong, output=output)


@functools.cache
def _whole(
  command: commands.Command, made: pathlib.Path, folder: pathlib.Path, way: int, patience: float
) -> _Whole:
  calls = []
  for turn in range(2):
    time.sleep(1.1 * turn)  # so that what holds the time differs
    commands.clear(folder)
    case = commands.prepare(command, made, folder, random.Random(way))
    outcome = sandbox.run(case, folder, patience=patience)
    if outcome.code or outcome.wrong:
      raise RuntimeError(f"xmcap {' '.join(case.arguments)}: {outcome}")
    calls.append((outcome.seconds, _files(folder)))
  (_, first), (seconds, second) = calls
  return _Whole(
    seconds, {name: digest if first.get(name) == digest else "" for name, digest in second.items()}
  )


def _files(folder: pathlib.Path) -> dict[str, str]:
  """name -> hash of all that lies in the output."""
  out = folder / "out"
  return {
    path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
    for path in sorted(out.rglob("*"))
    if path.is_file()
  }


def _differences(found: Mapping[str, str], whole: Mapping[str, str]) -> list[str]:
  differences = [f"{name} was left behind" for name in found if name.endswith(_LEFT)]
  differences += [f"{name} is missing" for name in whole if name not in found and whole[name]]
  differences += [
    f"{name} is another than after one call"
    for name, digest in found.items()
    if whole.get(name) not in ("", None, digest)
  ]
  return differences[:5]
