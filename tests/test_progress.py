"""`Progress`: lines of long work and their estimates."""

import pytest

from xmcap import progress as progress_lib


@pytest.fixture
def told(monkeypatch):
  """A clock, `told.now`, and the lines that were said."""

  class Told(list):
    now = 0.0

  told = Told()
  monkeypatch.setattr(progress_lib.time, "monotonic", lambda: told.now)
  return told


@pytest.mark.parametrize("unit", ["", "bytes"])
def test_progress_time_left_leaves_out_the_first_batch(told, unit):
  """The first batch compiles: 60 s for 1 of 101, and 0.5 s for each of the others."""
  shown = progress_lib.Progress(told.append, "pictures", 101, unit)
  for told.now, done in ((60.0, 1), (63.0, 7), (110.0, 101)):
    shown(done)
  assert "left" not in told[0] and "a second" not in told[0]
  assert told[1].endswith("2.0 a second, 47 s left" if not unit else "0.0 MB a second, 47 s left")
  assert "left" not in told[2] and len(told) == 3
