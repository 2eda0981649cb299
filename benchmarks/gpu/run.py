"""Everything that one GPU can show, by one command, on a machine that reaches no network.

usage: python benchmarks/gpu/run.py OUT [--carried=FOLDER] [--only PART ...] [--seconds=560] [--compiled=FOLDER]
                                        [--archive=FOLDER] [--tiny]
       python benchmarks/gpu/run.py OUT --plans=h200
FOLDER of --carried is what carry.py has collected: its wheels are installed into a temporary folder, so that nothing of
the machine is changed. The parts run in the order of `GROUPS`, the most valuable first, each in its own process and
within its own time; those of one group run side by side, compile beside each other and measure alone (recipe.turn).
None begins when --seconds are over. Each writes OUT/PART.json as it goes and OUT/PART.log, so whoever stops it keeps
what was measured. At the end the tables are printed; --archive packs OUT into one file, and beside it in pieces the
programs that were compiled, which a second call takes with --compiled. `python benchmarks/gpu/tables.py OUT`, at home,
puts the tables into docs/benchmarks.md.
--plans asks `xmcap plan` what it expects of the same steps; it needs no GPU, but jax's CUDA compiler, and is for home.
--tiny rehearses every part on a CPU; its figures mean nothing.
"""

import argparse
import concurrent.futures
import os
import pathlib
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
_SHARES = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_CLIENT_MEM_FRACTION": "0.6"}
_TAKES = {"XLA_CLIENT_MEM_FRACTION": "0.95"}
_PIECE, _PIECES = "15m", 6  # of the archive of compiled programs, and the most of them
# Compiled as fast as can be, instead of well.
_REHEARSAL = {
  "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
  "JAX_PLATFORMS": "cpu",
  "OMP_NUM_THREADS": "1",
}


class Part(NamedTuple):
  """One process: the most seconds it may take, and what Python runs, at full size and in a rehearsal.

  Without the latter the part is left out of a rehearsal. `shares`: the process takes memory of the GPU as it needs it,
  since torch or another process needs some too; else it takes 95% of it at once, and has it in one piece.
  """

  seconds: int
  full: str
  tiny: str | None
  shares: bool = False


_ONE = "--tiny --captions=8 --ks=4 --steps=1"
_TINY = "--tiny --steps=1 --cases default:8:4"
_ABLATIONS = "--cases no_graphs:512:1 plain_attention:512:1 whole_loss:512:1 default:128:8 default:128:1"
_FEW_ABLATIONS = "--tiny --steps=1 --cases no_graphs:8:4 plain_attention+whole_loss:8:4"
_TRAINING = "gpu/training.py --device={out}/device.json"
_DECODING = "decoding.py --pictures=32 --length=32 --repeats=3 --dtype=bfloat16"
_FEW = "decoding.py --pictures=1 --depth=1 --vit_depth=1 --vocabulary=512 --length=4 --repeats=1 --usual_languages=1"
_WAIT = "data_wait.py --data={data} --model=bb"
# As many rows as the vocabulary of a corpus may have.
_SMALLER = recipe.TINY | {"BATCH_SIZE": 8, "T5Config.vocab_size": 5_000}
_QUICKSTART = "gpu/quickstart.py --data={data}"
PARTS = {
  "device": Part(60, "gpu/device.py", "gpu/device.py --tiny"),
  "compile": Part(240, "gpu/training.py --compile", f"gpu/training.py --compile {_TINY}", shares=True),
  "peer_1": Part(260, "gpu/peer.py --captions=512 --ks=1", f"gpu/peer.py {_ONE}"),
  "peer_8": Part(260, "gpu/peer.py --captions=512 --ks=8", None),
  "training": Part(80, _TRAINING, f"{_TRAINING} {_TINY}"),
  "decoding": Part(100, f"{_DECODING} --usual_languages=2", f"{_FEW} --dtype=bfloat16", shares=True),
  "quickstart": Part(100, _QUICKSTART, f"{_QUICKSTART} --tiny --steps=2", shares=True),
  "ablations": Part(240, f"{_TRAINING} {_ABLATIONS}", f"{_TRAINING} {_FEW_ABLATIONS}"),
  "peer_128": Part(260, "gpu/peer.py --captions=128 --ks 1 8", None),
  "decoding_float32": Part(70, "decoding.py --pictures=2 --repeats=1 --usual_languages=1", None, shares=True),
  "data_wait": Part(
    120,
    f"{_WAIT} --steps=60 --ks 1 8",
    f"{_WAIT} --steps=3 --ks 2 --gin " + " ".join(f"{name}={value}" for name, value in _SMALLER.items()),
  ),
  "decoding_static": Part(
    120, f"{_DECODING} --usual_languages=1 --static_cache", f"{_FEW} --static_cache", shares=True
  ),
}
_BESIDE = ("compile", "peer_1", "peer_8")
GROUPS = (("device",), _BESIDE, *((name,) for name in PARTS if name not in (*_BESIDE, "device")))
_PLAN = "-m xmcap.cli plan --topology={topology}" + "".join(f" --gin_file={file}" for file in recipe.FILES)
PLANS = {
  f"plan_k{k}_{captions}": Part(
    1200, " ".join([_PLAN, *(f"--gin.{binding}" for binding in recipe.bindings(captions, k))]), None
  )
  for captions in (512, 128)
  for k in (1, 8)
}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("out", type=pathlib.Path, help="folder for the figures")
  parser.add_argument("--carried", type=pathlib.Path, help="folder of carry.py")
  parser.add_argument(
    "--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS)
  )
  parser.add_argument("--seconds", type=float, default=560, help="for all parts together")
  parser.add_argument("--compiled", type=pathlib.Path, help="folder of compiled programs, of an earlier call")
  parser.add_argument("--archive", type=pathlib.Path, help="folder for OUT and the compiled programs, packed")
  parser.add_argument(
    "--plans", metavar="TOPOLOGY", help="what `xmcap plan` says of the steps, and nothing else"
  )
  parser.add_argument("--tiny", action="store_true", help="a rehearsal at a size for CPUs")
  arguments = parser.parse_args()
  out = arguments.out.resolve()
  out.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory() as folder:
    environment = prepared(arguments, pathlib.Path(folder))
    if arguments.plans:
      groups, parts = [(name,) for name in PLANS], PLANS
    else:
      groups = [[name for name in group if name in arguments.only] for group in GROUPS]
      parts = PARTS
      machine(out)
    end = time.monotonic() + (
      sum(part.seconds for part in parts.values()) if arguments.plans else arguments.seconds
    )
    for group in filter(None, groups):
      with concurrent.futures.ThreadPoolExecutor() as pool:
        print(", ".join(f"{name}: at most {parts[name].seconds} s" for name in group), flush=True)
        left = end - time.monotonic()
        ends = [pool.submit(run, name, parts[name], arguments, out, environment, left) for name in group]
        for name, ended in zip(group, ends, strict=True):
          print(f"{name}: {ended.result()}", flush=True)
    if arguments.archive:
      pack(out, pathlib.Path(environment["JAX_COMPILATION_CACHE_DIR"]), arguments.archive)
  print("\n".join(tables.lines(tables.collected(out))))


def machine(out: pathlib.Path) -> None:
  """Writes which GPU, driver and packages these are, before anything can fail."""
  with open(out / "machine.txt", "w", encoding="utf-8") as file:
    for command in (["nvidia-smi"], [sys.executable, "-m", "pip", "list", "--format=freeze"]):
      try:
        subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False, timeout=30)
      except (OSError, subprocess.TimeoutExpired) as error:
        file.write(f"{command[0]}: {error}\n")
      file.flush()


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
    **(_REHEARSAL if arguments.tiny else {}),
    "PYTHONPATH": os.pathsep.join(paths),
    "PYTHONUNBUFFERED": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    recipe.TURN: str(folder / "turn"),
    # A program that one part has compiled is there for the next.
    "JAX_COMPILATION_CACHE_DIR": str((arguments.compiled or folder / "compiled").resolve()),
  }


def pack(out: pathlib.Path, compiled: pathlib.Path, archive: pathlib.Path) -> None:
  """Packs `out` into ARCHIVE/gpu.tgz, and compiled programs into ARCHIVE/compiled.tgz.aa, ab and so on."""
  archive.mkdir(parents=True, exist_ok=True)
  subprocess.run(["tar", "-czf", archive / "gpu.tgz", "-C", out, "."], check=True)
  if compiled.is_dir():
    with subprocess.Popen(["tar", "-cz", "-C", compiled, "."], stdout=subprocess.PIPE) as packed:
      subprocess.run(
        ["split", f"--bytes={_PIECE}", "-", archive / "compiled.tgz."], stdin=packed.stdout, check=True
      )
    pieces = list(archive.glob("compiled.tgz.*"))
    if len(pieces) > _PIECES:
      print(f"the compiled programs are left out: {len(pieces)} pieces of {_PIECE}")
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
  values = {
    "out": out,
    "data": arguments.carried and arguments.carried.resolve() / "emoji36",
    "topology": arguments.plans,
  }
  words = [word.format(**values) for word in command.split()] + [f"--json={out / name}.json"]
  if words[0] != "-m":
    words[0] = str(BENCHMARKS / words[0])
  began, seconds = time.monotonic(), left if arguments.tiny else min(part.seconds, left)
  with open(out / f"{name}.log", "w", encoding="utf-8") as log:
    process = subprocess.Popen(
      [sys.executable, *words], stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
      env=environment | (_SHARES if part.shares else _TAKES), cwd=out,
    )  # fmt: skip
    try:
      ended = f"exit {process.wait(seconds)}"
    except subprocess.TimeoutExpired:
      ended = "stopped"
    finally:
      # Its own processes too, which a part may have started.
      if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
  last = (out / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
  return f"{ended} after {time.monotonic() - began:.0f} s" + (f": {last[:200]}" if ended != "exit 0" else "")


if __name__ == "__main__":
  main()
