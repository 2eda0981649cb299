"""Everything that one GPU can show, by one command, on a machine that reaches no network.

usage: python benchmarks/gpu/run.py OUT [--carried=FOLDER] [--only PART ...] [--seconds=560] [--tiny]
FOLDER is what carry.py has collected: its wheels are installed into a temporary folder, so that nothing of the machine
is changed. The parts run one after the other, the most valuable first, each in its own process and within its own
time; none begins when --seconds are over. Each writes OUT/PART.json as it goes and OUT/PART.log, so whoever stops it
keeps what was measured. At the end the tables are printed; `python benchmarks/gpu/tables.py OUT`, at home, puts them
into docs/benchmarks.md. The parts plan_* need no GPU, but jax's CUDA compiler: what had no time can be done at home.
--tiny rehearses every part on a CPU; its figures mean nothing.
"""

import argparse
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
# Compiled as fast as can be, instead of well.
_REHEARSAL = {
  "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
  "JAX_PLATFORMS": "cpu",
  "OMP_NUM_THREADS": "1",
}


class Part(NamedTuple):
  """One process: the most seconds it may take, and what Python runs, at full size and in a rehearsal (None: left out).

  `memory` is the share of the GPU's memory that jax may use; torch takes what is left.
  """

  seconds: int
  full: str
  tiny: str | None
  memory: float = 0.9


_TRAINING = "gpu/training.py --device={out}/device.json"
_DECODING = "decoding.py --pictures=32 --length=32 --dtype=bfloat16"
_FEW = "decoding.py --pictures=1 --depth=1 --vit_depth=1 --vocabulary=512 --length=4 --repeats=1 --usual_languages=1"
_WAIT = "data_wait.py --data={data} --model=bb"
# As many rows as the vocabulary of a corpus may have.
_SMALLER = recipe.TINY | {"BATCH_SIZE": 8, "T5Config.vocab_size": 5_000}
_ONE = "--tiny --captions=8 --ks=4 --steps=1"
_PLAN = "-m xmcap.cli plan --topology={topology}" + "".join(f" --gin_file={file}" for file in recipe.FILES)
_VARIANTS = "--variants plain cudnn_attention bfloat16_logits microbatches"
_QUICKSTART = "gpu/quickstart.py --data={data}"
PARTS = {
  "device": Part(40, "gpu/device.py", "gpu/device.py --tiny"),
  "training": Part(180, _TRAINING, f"{_TRAINING} {_ONE}"),
  "peer": Part(180, "gpu/peer.py", f"gpu/peer.py {_ONE}"),
  "decoding": Part(90, f"{_DECODING} --usual_languages=2", f"{_FEW} --dtype=bfloat16", 0.5),
  "variants": Part(120, f"{_TRAINING} --captions=512 --ks=1 {_VARIANTS}", f"{_TRAINING} {_ONE} {_VARIANTS}"),
  "quickstart": Part(100, _QUICKSTART, f"{_QUICKSTART} --tiny --steps=2"),
  "decoding_float32": Part(70, "decoding.py --pictures=2 --repeats=1 --usual_languages=1", None, 0.5),
  "data_wait": Part(
    120,
    f"{_WAIT} --steps=60 --ks 1 8",
    f"{_WAIT} --steps=3 --ks 2 --gin " + " ".join(f"{name}={value}" for name, value in _SMALLER.items()),
  ),
  "decoding_static": Part(
    120, f"{_DECODING} --usual_languages=1 --static_cache", f"{_FEW} --static_cache", 0.5
  ),
  **{
    f"plan_k{k}_{captions}": Part(
      120, " ".join([_PLAN, *(f"--gin.{binding}" for binding in recipe.bindings(captions, k))]), None
    )
    for captions in (512, 128)
    for k in (1, 8)
  },
}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("out", type=pathlib.Path, help="folder for the figures")
  parser.add_argument("--carried", type=pathlib.Path, help="folder of carry.py")
  parser.add_argument(
    "--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS)
  )
  parser.add_argument("--seconds", type=float, default=560, help="for all parts together")
  parser.add_argument("--tiny", action="store_true", help="a rehearsal at a size for CPUs")
  arguments = parser.parse_args()
  end = time.monotonic() + arguments.seconds
  out = arguments.out.resolve()
  out.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory() as folder:
    environment = prepared(arguments.carried, pathlib.Path(folder), arguments.tiny)
    for name, part in PARTS.items():
      if name in arguments.only:
        left = end - time.monotonic()
        print(f"{name}: {run(name, part, arguments, out, environment, left)}", flush=True)
  print("\n".join(tables.lines(tables.collected(out))))


def prepared(carried: pathlib.Path | None, folder: pathlib.Path, tiny: bool) -> dict[str, str]:
  """Installs the carried wheels into `folder`; returns the environment of the parts."""
  paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
  wheels = sorted((carried / "wheels").glob("*.whl")) if carried else []
  if wheels:
    site = folder / "site"
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--target", site]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *wheels], check=True)
    paths.insert(0, str(site))
  return os.environ | {
    **(_REHEARSAL if tiny else {}),
    "PYTHONPATH": os.pathsep.join(paths),
    "PYTHONUNBUFFERED": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    # A program that one part has compiled is there for the next.
    "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
  }


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
    "topology": recipe.read(out / "device.json").get("topology", "h100"),
  }
  words = [word.format(**values) for word in command.split()] + [f"--json={out / name}.json"]
  if words[0] != "-m":
    words[0] = str(BENCHMARKS / words[0])
  began, seconds = time.monotonic(), left if arguments.tiny else min(part.seconds, left)
  with open(out / f"{name}.log", "w", encoding="utf-8") as log:
    process = subprocess.Popen(
      [sys.executable, *words], stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
      env=environment | {"XLA_CLIENT_MEM_FRACTION": str(part.memory)}, cwd=out,
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
