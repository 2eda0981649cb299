"""A run on a mixture of two corpora that is killed, and goes on in another process."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

from tests.make import small_corpus
from tests.training import mixed

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
def test_killed_run_on_a_mixture_resumes_bit_for_bit(tmp_path):
  for name, pictures in (("toy_one", 11), ("toy_two", 5)):
    small_corpus.write(tmp_path / name, name, train=pictures, validation=0, languages=("de", "en"))
  shutil.copy(tmp_path / "toy_one/vocabulary.model", tmp_path / "toy_two")
  killed = subprocess.run(
    [sys.executable, "-m", "tests.training.mixed", str(tmp_path), str(tmp_path / "killed"), "10"],
    cwd=ROOT,
    env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
    check=False,
    capture_output=True,
    text=True,
  )
  assert killed.returncode == -9, killed.stderr
  resumed, lines = mixed.run(tmp_path, tmp_path / "killed")
  # At 4 or 8: batches are made ahead of the steps, and checkpoints are written in the background.
  assert re.search("resuming from step [48] ", lines[0])
  undisturbed, _ = mixed.run(tmp_path, tmp_path / "undisturbed")
  jax.tree.map(np.testing.assert_array_equal, resumed.state, undisturbed.state)
