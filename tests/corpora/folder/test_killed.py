"""A folder build that is killed at any moment resumes to the same bytes."""

import pathlib
import subprocess
import sys

import pytest

from tests.corpora.folder import kills

ROOT = pathlib.Path(__file__).parents[3]


def swept(tmp_path, touches, sources):
  command = [sys.executable, "-m", "tests.corpora.folder.kills", str(tmp_path), touches, *sources]
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr[-3000:]
  assert len(done.stdout.splitlines()) == len(sources)


@pytest.mark.slow
def test_killed_build_resumes_after_each_rename(tmp_path):
  swept(
    tmp_path, "names", ["parquet:1:2", "table:24:3"]
  )  # the table's vocabulary comes last, and takes longest


@pytest.mark.full
@pytest.mark.slow
def test_killed_build_resumes_within_files(tmp_path):
  swept(tmp_path, "all", list(kills.SOURCES))
