"""Peak memory of the commands that score embeddings, beside the size of the file.

Random embeddings, [rows, 768], as queries and as candidates, each against a thousand of the other kind. A command is a
process of its own; its memory is the largest resident set, with the interpreter and with pages of mapped files. More
than 200,000 rows are only classified, because rankings of a thousand captions for each picture take hours.

usage: python benchmarks/embedding_memory.py [ROWS ...]
"""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import report

_WIDTH, _FEW, _CLASSES, _MANY = 768, 1_000, 100, 200_000

# VmHWM is that of the program alone: the usage that a parent sees counts the parent's own pages too.
_PROGRAM = """
import os, pathlib, sys
from xmcap import cli

if cli.main(sys.argv[1:]):
  sys.exit("failed")
peak = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
print(int(peak.split()[1]) * 1024, sum(os.times()[:2]))
"""


def main() -> None:
  """Prints what the docstring says."""
  rows = []
  for count in [int(text) for text in sys.argv[1:]] or [100_000, 1_000_000]:
    with tempfile.TemporaryDirectory() as folder:
      rows += _of_size(pathlib.Path(folder), count)
  report.write(
    "embedding_memory",
    "Memory of the commands that score embeddings",
    rows,
    columns=("command, [rows, 768]", "file, MB", "peak, MB", "peak / file", "CPU seconds"),
    notes=["Peak: the largest resident set of the process, the interpreter with it."],
  )


def _of_size(folder: pathlib.Path, count: int) -> list[tuple[str, ...]]:
  large, half, few = folder / "large.npy", folder / "half.npy", folder / "few.npy"
  _write(large, count, "<f4")
  if count <= _MANY:
    _write(half, count, "<f2")
  _write(few, _FEW, "<f4")
  found = []
  for name, path, arguments in itertools.islice(
    _commands(folder, count, large, half, few), 1 if count > _MANY else None
  ):
    megabytes, seconds = _run(arguments)
    size = path.stat().st_size / 1e6
    found.append(
      (
        f"{name}, {count:,} rows",
        f"{size:,.0f}",
        f"{megabytes:,.0f}",
        f"{megabytes / size:.2f}",
        f"{seconds:.1f}",
      )
    )
    print(*found[-1], sep=" | ", flush=True)
    (folder / "matrix.npy").unlink(missing_ok=True)
  return found


def _commands(folder, count, large, half, few):
  """Yields name, the file that is measured, and arguments."""
  (folder / "labels").mkdir()
  (folder / "captions").mkdir()
  _write(folder / "labels/en.npy", _CLASSES, "<f4", seed=1)
  _write(folder / "labels/de.npy", _CLASSES, "<f4", seed=2)
  names = [list(range(_CLASSES)), [f"class {number}" for number in range(_CLASSES)]]
  (folder / "labels.json").write_text(json.dumps({"EN": names, "DE": names}))
  np.save(folder / "targets.npy", np.arange(count) % _CLASSES)
  of_picture = np.bincount(np.arange(count) % _FEW, minlength=_FEW).tolist()
  captions = {
    "images": list(range(_FEW)),
    "captions": {"en": [["a caption"] * number for number in of_picture]},
  }
  (folder / "captions.json").write_text(json.dumps(captions))
  (folder / "captions/en.npy").symlink_to(large)
  (folder / "pool.txt").write_text("".join(f"sentence {number}\n" for number in range(count)))
  (folder / "few").mkdir()
  (folder / "few/pictures.npy").symlink_to(few)
  (folder / "few/keys.txt").write_text("".join(f"{number}\n" for number in range(_FEW)))
  zero_shot = [
    f"--targets={folder}/targets.npy",
    f"--labels={folder}/labels.json",
    f"--texts={folder}/labels",
  ]
  out = f"--out={folder}/out"
  for name, file in (("float32", large), ("float16", half)):
    yield (
      f"score zero-shot, {name} pictures",
      file,
      ["score", "zero-shot", f"--pictures={file}", *zero_shot, out],
    )
  retrieval = [f"--captions={folder}/captions.json", f"--texts={folder}/captions"]
  yield "score retrieval, captions", large, ["score", "retrieval", f"--pictures={few}", *retrieval, out]
  scores = ["retrieval", "scores", f"--out={folder}/matrix.npy"]
  yield "retrieval scores, queries", large, [*scores, f"--queries={large}", f"--candidates={few}"]
  yield "retrieval scores, candidates", large, [*scores, f"--queries={few}", f"--candidates={large}"]
  top = [
    f"--queries={folder}/few",
    f"--candidates={large}",
    f"--sentences={folder}/pool.txt",
    "--language=en",
  ]
  yield "retrieval top, sentences", large, ["retrieval", "top", *top, f"--out={folder}/top.jsonl"]


def _write(path: pathlib.Path, count: int, dtype: str, seed: int = 0) -> None:
  rng = np.random.default_rng(seed)
  with path.open("wb") as file:
    np.lib.format.write_array_header_1_0(
      file, {"descr": dtype, "fortran_order": False, "shape": (count, _WIDTH)}
    )
    for start in range(0, count, 10_000):
      block = rng.standard_normal((min(10_000, count - start), _WIDTH), np.float32)
      file.write(block.astype(dtype).tobytes())


def _run(arguments: list[str]) -> tuple[float, float]:
  """Returns the largest resident set of a command in MB, and its CPU seconds."""
  command = [sys.executable, "-c", _PROGRAM, *arguments]
  output = subprocess.run(
    command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
  ).stdout
  peak, seconds = output.splitlines()[-1].split()
  return int(peak) / 1e6, float(seconds)


if __name__ == "__main__":
  main()
