"""Everything that one GPU can show, by one command, on a machine that reaches no network.

usage: python benchmarks/gpu/run.py OUT [--carried=FOLDER] [--only PART ...] [--seconds=560] [--compiled=FOLDER]
                                        [--archive=FOLDER] [--tiny]
The parts run in the order of `GROUPS`, the headline first, each in its own process, which is stopped after twice the
time that is expected; those of one group compile beside each other and measure alone (recipe.turn). None begins when
--seconds, of the whole command, are over. Each writes OUT/PART.json as it goes and OUT/PART.log. --archive packs them
anew after each group, so whoever stops it keeps what was measured: gpu.tgz, at the end profiles.tgz.aa and, in pieces,
the compiled programs, which --compiled keeps for another call. --tiny rehearses on a CPU; its figures mean nothing.

A lease of 15 minutes, of which a command may take 10; $OUT comes back, 8 files of 16 MiB and 64 MiB at most:
  at home   python benchmarks/gpu/carry.py .carried         (with the tree, under 64 MiB; both folders are ignored)
  there     python3 benchmarks/gpu/run.py /tmp/out --carried=.carried --compiled=.compiled --archive=$OUT --seconds=430
  again     the same with --seconds=240 --only ablations peer_128 data_wait decoding_float32 decoding_static, or with
            what failed; if on another machine, first: cat compiled.tgz.* | tar -xzC .compiled, which travels too
  at home   tar -xzf gpu.tgz -C PATH, of both calls; python benchmarks/gpu/tables.py PATH
"""

import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import recipe
import tables

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
_LEAST = 15  # seconds, in which a process starts and measures something
_PACKING = 10  # seconds
_MEMORY = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_CLIENT_MEM_FRACTION": "0.95"}
_PIECE = "15m"  # of an archive
_LARGE = {"profiles": 1, "compiled": 3}  # what is packed at the end, and in how many pieces at the most
_PRINTED = ("flax==", "jax", "numpy==", "nvidia-cudnn", "torch==", "transformers==", "triton==")
# Compiled as fast as can be, instead of well.
_REHEARSAL = {
  "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
  "JAX_PLATFORMS": "cpu",
  "OMP_NUM_THREADS": "1",
}


class Part(NamedTuple):
  """One process: the seconds that it is expected to take, and what Python runs, at full size and in a rehearsal.

  Without the latter the part is left out of a rehearsal.
  """

  expected: int
  full: str
  tiny: str | None


_ONE = "--tiny --captions=8 --ks=4 --steps=1"
_TINY = "--tiny --steps=1 --cases"
_ABLATIONS = "default:128:8 default:128:1 two_passes:512:1 whole_loss:512:1 plain_attention:512:1"
_TRAINING = "gpu/training.py"
_DECODING = "decoding.py --pictures=32 --length=32 --repeats=3 --dtype=bfloat16"
_FEW = "decoding.py --pictures=1 --depth=1 --vit_depth=1 --vocabulary=512 --length=4 --repeats=1 --usual_languages=1"
_WAIT = "data_wait.py --data={data} --model=bb"
# As many rows as the vocabulary of a corpus may have.
_SMALLER = recipe.TINY | {"BATCH_SIZE": 8, "T5Config.vocab_size": 5_000}
_QUICKSTART = "gpu/quickstart.py --data={data}"
PARTS = {
  "training_1": Part(
    180, f"{_TRAINING} --profile --cases default:512:1", f"{_TRAINING} --profile {_TINY} default:8:1"
  ),
  "peer_1": Part(180, "gpu/peer.py --captions=512 --ks=1", f"gpu/peer.py {_ONE}"),
  "training_8": Part(180, f"{_TRAINING} --profile --cases default:512:8", f"{_TRAINING} {_TINY} default:8:4"),
  "peer_8": Part(180, "gpu/peer.py --captions=512 --ks=8", None),
  "device": Part(30, "gpu/device.py", "gpu/device.py --tiny"),
  "decoding": Part(60, f"{_DECODING} --usual_languages=2", f"{_FEW} --dtype=bfloat16"),
  "quickstart": Part(60, _QUICKSTART, f"{_QUICKSTART} --tiny --steps=2"),
  "ablations": Part(
    180, f"{_TRAINING} --cases {_ABLATIONS}", f"{_TRAINING} {_TINY} plain_attention+two_passes+whole_loss:8:4"
  ),
  "peer_128": Part(180, "gpu/peer.py --captions=128 --ks 1 8", None),
  "data_wait": Part(
    90,
    f"{_WAIT} --steps=60 --ks 1 8",
    f"{_WAIT} --steps=3 --ks 2 --gin " + " ".join(f"{name}={value}" for name, value in _SMALLER.items()),
  ),
  "decoding_float32": Part(40, "decoding.py --pictures=2 --repeats=1 --usual_languages=1", None),
  "decoding_static": Part(90, f"{_DECODING} --usual_languages=1 --static_cache", f"{_FEW} --static_cache"),
}
_HEADLINE = ("training_1", "peer_1", "training_8", "peer_8")
_LATER = ("ablations", "peer_128")
GROUPS = (_HEADLINE, ("device",), ("decoding",), ("quickstart",), _LATER, *(
  (name,) for name in ("data_wait", "decoding_float32", "decoding_static")
))  # fmt: skip


def main() -> None:
  began = time.monotonic()
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("out", type=pathlib.Path, help="folder for the figures")
  parser.add_argument("--carried", type=pathlib.Path, help="folder of carry.py")
  parser.add_argument(
    "--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS)
  )
  parser.add_argument("--seconds", type=float, default=560, help="for the whole command")
  parser.add_argument("--compiled", type=pathlib.Path, help="folder of compiled programs")
  parser.add_argument("--archive", type=pathlib.Path, help="folder for OUT and the compiled programs, packed")
  parser.add_argument("--tiny", action="store_true", help="a rehearsal at a size for CPUs")
  arguments = parser.parse_args()
  out = arguments.out.resolve()
  out.mkdir(parents=True, exist_ok=True)
  machine(out)
  groups = [chosen for group in GROUPS if (chosen := [name for name in group if name in arguments.only])]
  expected = [max(PARTS[name].expected for name in group) for group in groups]
  for names, seconds in zip(groups, expected, strict=True):
    print(f"{' and '.join(names)}: {seconds / 60:.1f} minutes expected", flush=True)
  print(f"in all: {sum(expected) / 60:.1f} minutes expected", flush=True)
  end = began + arguments.seconds - _PACKING * bool(arguments.archive)
  with tempfile.TemporaryDirectory() as folder:
    environment = prepared(arguments, pathlib.Path(folder))
    compiled = pathlib.Path(environment["JAX_COMPILATION_CACHE_DIR"])
    print(f"compiled before: {programs(compiled)} programs", flush=True)
    for group in groups:
      with concurrent.futures.ThreadPoolExecutor() as pool:
        left = end - time.monotonic()
        ends = [pool.submit(run, name, PARTS[name], arguments, out, environment, left) for name in group]
        for name, ended in zip(group, ends, strict=True):
          print(f"{name}: {ended.result()}", flush=True)
      if arguments.archive:
        pack(out, arguments.archive)
    print(f"compiled in all: {programs(compiled)} programs", flush=True)
    if arguments.archive:
      pack_large(out / "profiles", "profiles", arguments.archive)
      pack_large(compiled, "compiled", arguments.archive)
  print("\n".join(tables.lines(tables.collected(out))))


def machine(out: pathlib.Path) -> None:
  """Says which GPU, driver and packages these are, before anything can fail; writes all packages."""
  commands = (
    ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"],
    [sys.executable, "-m", "pip", "list", "--format=freeze"],
  )
  said = [f"Python {platform.python_version()}, {len(os.sched_getaffinity(0))} cores"]
  for command in commands:
    try:
      done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
      said += (done.stdout + done.stderr).splitlines()
    except (OSError, subprocess.TimeoutExpired) as error:
      said.append(f"{command[0]}: {error}")
  (out / "machine.txt").write_text("\n".join(said) + "\n", encoding="utf-8")
  print("\n".join(line for line in said if "==" not in line or line.startswith(_PRINTED)), flush=True)


def programs(compiled: pathlib.Path) -> int:
  """How many programs jax's cache has: a call that finds all of its own adds none."""
  return len(list(compiled.glob("*-cache")))


def prepared(arguments: argparse.Namespace, folder: pathlib.Path) -> dict[str, str]:
  """Installs the carried wheels into `folder`; returns the environment of the parts."""
  paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
  wheels = sorted((arguments.carried / "wheels").glob("*.whl")) if arguments.carried else []
  if wheels:
    site = folder / "site"
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--target", site]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *wheels], check=True)
    paths.insert(0, str(site))
  return os.environ | {
    **_MEMORY,
    **(_REHEARSAL if arguments.tiny else {}),
    "PYTHONPATH": os.pathsep.join(paths),
    "PYTHONUNBUFFERED": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    recipe.TURN: str(folder / "turn"),
    # What one part has compiled is there for the next, and for another call.
    "JAX_COMPILATION_CACHE_DIR": str((arguments.compiled or folder / "compiled").resolve()),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
  }


def pack(out: pathlib.Path, archive: pathlib.Path) -> None:
  """Packs the figures and logs of `out` into ARCHIVE/gpu.tgz."""
  archive.mkdir(parents=True, exist_ok=True)
  partial = out.with_suffix(".tgz")
  # A failure to pack, such as a log that grows, ends nothing.
  subprocess.run(["tar", "-czf", partial, "--exclude=./profiles", "-C", out, "."], check=False)
  shutil.move(partial, archive / "gpu.tgz")


def pack_large(folder: pathlib.Path, name: str, archive: pathlib.Path) -> None:
  """Packs a folder, if it is there, into ARCHIVE/NAME.tgz.aa, ab and so on; too many pieces are left out."""
  if not folder.is_dir():
    return
  with subprocess.Popen(["tar", "-cz", "-C", folder, "."], stdout=subprocess.PIPE) as packed:
    subprocess.run(
      ["split", f"--bytes={_PIECE}", "-", archive / f"{name}.tgz."], stdin=packed.stdout, check=True
    )
  pieces = list(archive.glob(f"{name}.tgz.*"))
  print(f"{name}: {sum(piece.stat().st_size for piece in pieces) / 2**20:.1f} MiB")
  if len(pieces) > _LARGE[name]:
    print(f"{name} are left out: {len(pieces)} pieces of {_PIECE}")
    for piece in pieces:
      piece.unlink()


def run(
  name: str,
  part: Part,
  arguments: argparse.Namespace,
  out: pathlib.Path,
  environment: dict[str, str],
  left: float,
) -> str:
  """Runs a part within its time and that which is left; says in a word how it ended."""
  command = part.tiny if arguments.tiny else part.full
  if command is None:
    return "left out of a rehearsal"
  if "{data}" in command and not arguments.carried:
    return "left out: it needs --carried"
  if left < _LEAST:
    return "no time left"
  data = arguments.carried and arguments.carried.resolve() / "emoji36"
  script, *options = command.format(data=data).split()
  began, seconds = time.monotonic(), left if arguments.tiny else min(2 * part.expected, left)
  with open(out / f"{name}.log", "w", encoding="utf-8") as log:
    process = subprocess.Popen(
      [sys.executable, BENCHMARKS / script, *options, f"--json={out / name}.json"], stdout=log,
      stderr=subprocess.STDOUT, start_new_session=True, env=environment, cwd=out,
    )  # fmt: skip
    try:
      ended = f"exit {process.wait(seconds)}"
    except subprocess.TimeoutExpired:
      ended = "stopped"
    finally:
      # Its own processes too, which a part may have started.
      with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
      with contextlib.suppress(subprocess.TimeoutExpired):  # the driver may keep it
        process.wait(_LEAST)
  last = (out / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
  return f"{ended} after {time.monotonic() - began:.0f} s" + (f": {last[:200]}" if ended != "exit 0" else "")


if __name__ == "__main__":
  main()
