"""Benchmarks that compare xmcap with other software still run, at a small size, and both sides do the same work."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from benchmarks import all as benchmarks

pytestmark = [pytest.mark.slow, pytest.mark.full]
SMALL = ["--pictures=1", "--depth=1", "--vit_depth=1", "--vocabulary=1024", "--length=6", "--repeats=1"]


def run(folder: pathlib.Path, script: str, *options: str) -> str:
  """What a benchmark prints; it writes its results into a copy of the folder."""
  copy = shutil.copytree(benchmarks.ROOT / "benchmarks", folder / "benchmarks")
  command = [sys.executable, str(copy / script), *options]
  environment = {**os.environ, "PYTHONPATH": str(benchmarks.ROOT)}
  return subprocess.run(
    command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
  ).stdout


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_decoding_benchmark_captions_equal_transformers(tmp_path, search):
  pytest.importorskip("torch")
  pytest.importorskip("transformers")
  printed = run(tmp_path, "decoding.py", f"--search={search}", *SMALL)
  assert "100.0% of the captions are the same, token for token" in printed


def test_parse_lines_benchmark_compares_with_a_plain_loop(tmp_path):
  printed = run(tmp_path, "parse_lines.py", "--captions=200", "--repeats=1", "--lines=1000")
  assert "plain / ours" in printed and "memory at" in printed
