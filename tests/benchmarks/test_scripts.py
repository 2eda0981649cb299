"""Every benchmark imports; those that need no model, no corpus and no Java, and compile little, run at a small size."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from benchmarks import all as benchmarks

FOLDER = benchmarks.ROOT / "benchmarks"
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - set(benchmarks._SHARED))
DECODING = ["--pictures=1", "--depth=1", "--vit_depth=1", "--vocabulary=1024", "--length=6", "--repeats=1"]
TEXT = ["--batch=2", "--targets=4", "--real_targets=4", "--encoder_layers=1", "--decoder_layers=1", "--width=64",
        "--heads=1", "--mlp=64", "--vocabulary=64"]  # fmt: skip


def test_every_benchmark_imports():
  code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), str(benchmarks.ROOT)])}
  subprocess.run([sys.executable, "-c", code, *SCRIPTS], check=True, env=environment)


def run(folder: pathlib.Path, script: str, *options: str) -> str:
  """What a benchmark prints; it writes its results into a copy of the folder."""
  copy = shutil.copytree(FOLDER, folder / "benchmarks")
  command = [sys.executable, str(copy / f"{script}.py"), *options]
  environment = {**os.environ, "PYTHONPATH": str(benchmarks.ROOT)}
  done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
  assert done.returncode == 0, done.stderr[-2000:]
  return done.stdout


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(
  ("script", "options"),
  [
    ("conversions", []),
    ("data_wait", ["--steps=6"]),
    ("embedding_memory", ["2000"]),
    ("lengths", ["--pictures=3000"]),
    ("stream", ["--pictures=64", "--turns=1", "--seconds=0.2"]),
    ("train_step", [*TEXT, "--turns=1", "--steps=1"]),
  ],
)
def test_small_benchmark_writes_its_result(tmp_path, script, options):
  if script in ("conversions", "train_step"):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
  assert f"{script}.json; `python benchmarks/all.py`" in run(tmp_path, script, *options)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_decoding_benchmark_captions_equal_transformers(tmp_path, search):
  pytest.importorskip("torch")
  pytest.importorskip("transformers")
  printed = run(tmp_path, "decoding", f"--search={search}", *DECODING)
  assert "100.0% of the captions are the same, token for token" in printed
