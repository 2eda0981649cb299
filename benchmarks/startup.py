"""Seconds from a command's start to its answer, and what it imports on the way.

usage: python benchmarks/startup.py [--model_dir=DIR] [--repeats=5]
Each command runs in a process of its own, in turns, with compiled programs kept between them (as on a machine where the
command ran before), and once before it is counted. DIR is a folder that `xmcap train` wrote; by default a tiny model
with random parameters.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

_LIBRARY = """
from xmcap import load_captioner
captioner = load_captioner({model!r})
captions = captioner.caption([{picture!r}], languages=["en", "th"])
assert set(captions[0]) == {{"en", "th"}}
"""
_RUN = ("--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin")
# Says at the end whether TensorFlow was imported, on a line of its own.
_WATCHED = """
import atexit, sys
atexit.register(lambda: print("tensorflow:", "tensorflow" in sys.modules, file=sys.stderr, flush=True))
"""
_COMMAND = _WATCHED + "from xmcap import cli\nsys.exit(cli.main(sys.argv[1:]))"


def commands(model: str, picture: str) -> dict[str, tuple[list[str], int]]:
  """What people wait for: name -> arguments of Python, and the exit code."""
  return {
    "`import xmcap`": (["-c", _WATCHED + "import xmcap"], 0),
    "`xmcap --help`": (["-c", _COMMAND, "--help"], 0),
    "`import jax, flax` alone": (["-c", _WATCHED + "import jax, flax.linen"], 0),
    "`import tensorflow` alone": (["-c", _WATCHED + "import tensorflow"], 0),
    "`load_captioner` and a caption in two languages": (
      ["-c", _WATCHED + _LIBRARY.format(model=model, picture=picture)], 0,
    ),
    "`xmcap caption`": (["-c", _COMMAND, "caption", f"--model_dir={model}", "--languages=en,th", picture], 0),
    "`xmcap train --explain`": (["-c", _COMMAND, "train", *_RUN, "--explain"], 0),
    "a misspelled macro": (["-c", _COMMAND, "train", *_RUN, "--gin.TOTAL_STEP=9"], 2),
    "a misspelled option": (["-c", _COMMAND, "caption", f"--model_dir={model}", "--langages=en", picture], 2),
  }  # fmt: skip


def measure(arguments: list[str], code: int) -> tuple[float, bool]:
  """Runs Python; returns the seconds and whether it imported TensorFlow."""
  began = time.perf_counter()
  done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
  seconds = time.perf_counter() - began
  assert done.returncode == code, done.stderr
  return seconds, "tensorflow: True" in done.stderr


def main() -> None:
  """Prints the table and keeps it."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--model_dir")
  parser.add_argument("--repeats", type=int, default=5)
  arguments = parser.parse_args()
  from benchmarks import report
  from tests import model_folders

  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    model = arguments.model_dir or str(model_folders.write(folder / "model"))
    ways = commands(os.path.abspath(model), str(model_folders.picture(folder)))
    for way in ways.values():
      measure(*way)
    found: dict[str, list[tuple[float, bool]]] = {name: [] for name in ways}
    for _ in range(arguments.repeats):
      for name, way in ways.items():
        found[name].append(measure(*way))
  rows = []
  for name, times in found.items():
    middle, tensorflow = statistics.median(seconds for seconds, _ in times), any(was for _, was in times)
    rows.append((name, f"{middle:.2f}", f"{min(times)[0]:.2f}", "yes" if tensorflow else "no"))
    print(f"{name:50s} {middle:6.2f} s  TensorFlow: {rows[-1][-1]}")
  report.write(
    "startup",
    "Commands and imports",
    rows,
    columns=("command", "median seconds", "fastest", "imports TensorFlow"),
    notes=[f"Medians of {arguments.repeats} processes, with compiled programs in the cache."],
  )


if __name__ == "__main__":
  main()
