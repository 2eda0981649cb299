"""A build of a corpus that is killed at any moment resumes to the same bytes."""

import pytest

from tests.corpora import kills
from tests.make.command import forked

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
  ("source", "first", "step"), [("coco35l", 3, 18), ("table", 24, 12)]
)  # its vocabulary is last
def test_killed_build_resumes_after_a_rename(tmp_path, source, first, step):
  forked(kills.sweep, source, tmp_path, False, first, step).succeeded()


@pytest.mark.full
@pytest.mark.parametrize("source", kills.SOURCES)
def test_killed_build_resumes_within_files(tmp_path, source):
  forked(kills.sweep, source, tmp_path, True).succeeded()
