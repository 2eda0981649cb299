"""Seconds from a command's start to its answer, its memory, and what it imports on the way.

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
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

_LIBRARY = """
from xmcap import load_captioner
captioner = load_captioner({model!r})
captions = captioner.caption([{picture!r}], languages=["en", "th"])
assert set(captions[0]) == {{"en", "th"}}
"""
_OWN = (
  "--gin_file=models/tiny.gin", "--gin_file=data/folder.gin", "--gin_file=runs/folder.gin", "--gin.TOTAL_STEPS=1",
  "--gin.BATCH_SIZE=8", "--gin.TARGET_LENGTH=16", "--gin.CaptionStream.target_lengths=(16,)",
  "--gin.hooks.evaluators=[]",
)  # fmt: skip
_RUN = ("--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin")
# Says at the end whether TensorFlow was imported, on a line of its own.
_WATCHED = """
import atexit, sys
atexit.register(lambda: print("tensorflow:", "tensorflow" in sys.modules, file=sys.stderr, flush=True))
"""
_COMMAND = _WATCHED + "from xmcap import cli\nsys.exit(cli.main(sys.argv[1:]))"
# The last option names a folder, in which each call has one of its own.
_ANEW = "import sys, tempfile\nsys.argv[-1] = tempfile.mkdtemp(prefix=sys.argv[-1] + '/')\n"
_BUILD = _ANEW + "sys.argv[-1] = '--out=' + sys.argv[-1]\n" + _COMMAND
_TRAIN = _ANEW + "sys.argv[-1] = '--gin.MODEL_DIR=' + sys.argv[-1]\n" + _COMMAND


def _photos(folder: pathlib.Path) -> list[str]:
  """Writes 40 pictures with captions; returns the arguments that build a corpus of them."""
  import numpy as np
  from PIL import Image

  (folder / "photos").mkdir()
  lines = ["file,en,th"]
  for number in range(40):
    pixels = np.full((24, 24, 3), 6 * number, np.uint8)
    Image.fromarray(pixels).save(folder / "photos" / f"{number}.png")
    lines.append(f"{number}.png,a picture of the grey {number},ภาพสีที่ {number}")
  (folder / "captions.csv").write_text("\n".join(lines), encoding="utf-8")
  return [
    "data", "build", "folder", f"--captions={folder / 'captions.csv'}", f"--images={folder / 'photos'}",
    "--vocabulary=train:400",
  ]  # fmt: skip


def commands(
  model: str, picture: str, build: list[str], train: list[str], out: str
) -> dict[str, tuple[list[str], int]]:
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
    "`xmcap data build` of 40 pictures": (["-c", _BUILD, *build, out], 0),
    "`xmcap train` of one step": (
      ["-c", _TRAIN, "train", *_OWN, *train, out], 0,
    ),
    "a misspelled macro": (["-c", _COMMAND, "train", *_RUN, "--gin.TOTAL_STEP=9"], 2),
    "a misspelled option": (["-c", _COMMAND, "caption", f"--model_dir={model}", "--langages=en", picture], 2),
  }  # fmt: skip


class Measured(NamedTuple):
  """A process: seconds by the clock and of CPU, the most memory in MB, and whether it imported TensorFlow."""

  seconds: float
  cpu: float
  memory: float
  tensorflow: bool


def measure(arguments: list[str], code: int) -> Measured:
  """Runs Python."""
  with tempfile.TemporaryFile("w+") as said:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=said)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    said.seek(0)
    text = said.read()
  assert process.returncode == code, text
  # ru_maxrss is in kB on Linux.
  return Measured(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3, "tensorflow: True" in text)


def main() -> None:
  """Prints the table and keeps it."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--model_dir")
  parser.add_argument("--repeats", type=int, default=5)
  arguments = parser.parse_args()
  from benchmarks import report
  from tests.make import models, small_corpus

  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    model = arguments.model_dir or str(models.captioner(folder / "model"))
    build = _photos(folder)
    corpus, out = folder / "corpus", folder / "out"
    out.mkdir()
    measure(["-c", _COMMAND, *build, f"--out={corpus}"], 0)
    train = [*small_corpus.SMALLER, f"--gin.DATA_DIR={corpus}"]
    ways = commands(os.path.abspath(model), str(models.image(folder)), build, train, str(out))
    for way in ways.values():
      measure(*way)
    found: dict[str, list[Measured]] = {name: [] for name in ways}
    for _ in range(arguments.repeats):
      for name, way in ways.items():
        found[name].append(measure(*way))
  rows = []
  for name, each in found.items():
    seconds, cpu, memory = (statistics.median(column) for column in list(zip(*each, strict=True))[:3])
    tensorflow = "yes" if any(one.tensorflow for one in each) else "no"
    fastest = min(one.seconds for one in each)
    rows.append((name, f"{seconds:.2f}", f"{fastest:.2f}", f"{cpu:.2f}", f"{memory:.0f}", tensorflow))
    print(f"{name:50s} {seconds:6.2f} s  {cpu:6.2f} s of CPU  {memory:5.0f} MB  TensorFlow: {tensorflow}")
  report.write(
    "startup",
    "Commands and imports",
    rows,
    columns=("command", "median seconds", "fastest", "seconds of CPU", "MB at most", "imports TensorFlow"),
    notes=[f"Medians of {arguments.repeats} processes, with compiled programs in the cache."],
  )


if __name__ == "__main__":
  main()
