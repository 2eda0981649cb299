"""A run on a mixture of two corpora that is killed, and goes on in another process."""

import re
import shutil
import signal

import jax
import numpy as np
import pytest

from tests.make import small_corpus
from tests.make.command import forked
from tests.training import mixed


@pytest.mark.slow
def test_killed_run_on_a_mixture_resumes_bit_for_bit(tmp_path):
  for name, pictures in (("toy_one", 11), ("toy_two", 5)):
    small_corpus.write(tmp_path / name, name, train=pictures, validation=0, languages=("de", "en"))
  shutil.copy(tmp_path / "toy_one/vocabulary.model", tmp_path / "toy_two")
  killed = forked(mixed.run, tmp_path, tmp_path / "killed", 10)
  assert killed.code == -signal.SIGKILL, killed.err
  resumed, lines = mixed.run(tmp_path, tmp_path / "killed")
  # At 4 or 8: batches are made ahead of the steps, and checkpoints are written in the background.
  assert re.search("resuming from step [48] ", lines[0])
  undisturbed, _ = mixed.run(tmp_path, tmp_path / "undisturbed")
  jax.tree.map(np.testing.assert_array_equal, resumed.state, undisturbed.state)
