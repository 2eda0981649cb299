"""Megabytes and time of each size of install, in a fresh environment each, and a score in the smallest.

usage: python benchmarks/install.py [--installer=pip] [SIZE ...]    (SIZE: scoring, train, seqio, all; default: all)
Each installs this checkout with the versions of requirements.lock, and is removed again. pip installs from
an empty cache and compiles bytecode, uv does neither, which is a quicker look at the sizes. Needs a package index and 8
GB of disk. The time depends on the connection: see the CPU seconds too.
"""

import argparse
import json
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

SIZES = {"scoring": ".", "train": "'.[train]'", "seqio": "'.[seqio]'", "all": "'.[all]'"}
_HOW = {
  "pip": "With pip, from an empty cache.",
  "uv": "With uv, which had the files already and compiles no bytecode.",
}
_COPIED = (
  "setup.py",
  "pyproject.toml",
  "README.md",
  "LICENSE",
  "requirements.lock",
  "xmcap",
  "tasks",
  "gin",
  "launch",
)
_CAPTIONS = {
  "en": "a dog runs on the sand",
  "ja": "犬が砂浜を走っている",
  "th": "สุนัขวิ่งบนหาดทราย",
  "zh": "一只狗在沙滩上奔跑",
}


def clocked(command: list[str], folder: pathlib.Path) -> tuple[float, float]:
  """Runs a command; returns its seconds, and those of the CPU."""
  before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
  done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
  if done.returncode:
    raise SystemExit(f"{' '.join(command)}: {done.stderr[-2000:]}")
  seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
  return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def megabytes(venv: pathlib.Path) -> tuple[float, int]:
  """The size of an environment's packages in 10^6 bytes, without pip, and their number."""
  (packages,) = venv.glob("lib/python*/site-packages")
  files = (path for path in packages.rglob("*") if path.is_file() and not path.is_symlink())
  size = sum(
    path.stat().st_size for path in files if not path.relative_to(packages).parts[0].startswith("pip")
  )
  return size / 1e6, len([path for path in packages.glob("*.dist-info") if not path.name.startswith("pip-")])


def scored(venv: pathlib.Path, folder: pathlib.Path) -> tuple[float, float]:
  """Scores a caption a language with what is installed; returns the seconds, and those of the CPU."""
  with open(folder / "references.jsonl", "w", encoding="utf-8") as references:
    for key in ("1", "2"):
      row = {code: {"caption": [text, text[:-1]]} for code, text in _CAPTIONS.items()}
      references.write(json.dumps({"image/key": key, **row}) + "\n")
  with open(folder / "predictions.jsonl", "w", encoding="utf-8") as predictions:
    for key in ("1", "2"):
      for code, text in _CAPTIONS.items():
        predictions.write(json.dumps({"image/key": key, "language": code, "caption": text}) + "\n")
  options = ["--references=references.jsonl", "--predictions=predictions.jsonl", "--out=scores"]
  found = clocked([str(venv / "bin/xmcap"), "score", *options], folder)
  languages = json.loads((folder / "scores/table.json").read_text(encoding="utf-8"))["languages"]
  assert set(languages) == set(_CAPTIONS), languages
  return found


def main() -> None:
  """Prints the figures and keeps them."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("sizes", nargs="*", default=[], metavar="SIZE")
  parser.add_argument("--installer", default="pip", choices=("pip", "uv"))
  arguments = parser.parse_args()
  sizes = arguments.sizes or list(SIZES)
  from benchmarks import report

  rows, notes = [], []
  with tempfile.TemporaryDirectory() as temporary:
    work = pathlib.Path(temporary)
    source = work / "clone"  # pip builds in the folder of the source
    source.mkdir()
    for name in _COPIED:
      copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
      copy(ROOT / name, source / name)
    # pip takes no folder beside hashes.
    lock = source / "requirements.lock"
    lock.write_text(re.sub(r" \\\n +--hash=\S+", "", lock.read_text(encoding="utf-8")), encoding="utf-8")
    for size in sizes:
      venv = work / size
      bare = ["--without-pip"] if arguments.installer == "uv" else []
      subprocess.run([sys.executable, "-m", "venv", *bare, venv], check=True)
      python = str(venv / "bin/python")
      if arguments.installer == "pip":
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
      else:
        install = [
          str(pathlib.Path(sys.executable).parent / "uv"),
          "pip",
          "install",
          "--quiet",
          "--python",
          python,
        ]
      install += ["--constraint", "requirements.lock", SIZES[size].strip("'")]
      seconds, cpu = clocked(install, source)
      held, packages = megabytes(venv)
      rows.append(
        (f"`pip install {SIZES[size]}`", f"{packages}", f"{held:,.0f}", f"{seconds / 60:.1f}", f"{cpu:.0f}")
      )
      print(*rows[-1], sep="   ", flush=True)
      if size == "scoring":
        first, (second, cpu) = scored(venv, work), scored(venv, work)
        notes.append(
          f"`xmcap score` of a few captions in en, ja, th and zh there: {second:.1f} s ({cpu:.1f} s of the CPU), the "
          f"first time {first[0]:.1f} s."
        )
        print(notes[-1], flush=True)
      shutil.rmtree(venv)
  report.write(
    "install",
    "Sizes of install",
    rows,
    columns=("install", "packages", "MB", "minutes", "CPU seconds"),
    notes=[f"{_HOW[arguments.installer]} Minutes depend on the connection.", *notes],
  )


if __name__ == "__main__":
  main()
