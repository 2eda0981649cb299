"""`xmcap score` killed, or with a killed worker: no process is left."""

import contextlib
import os
import random
import signal

import pytest

from tests import sessions
from tests.scoring import release

pytestmark = sessions.needs_proc
_SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  return release.write(tmp_path_factory.mktemp("files"), 3000)


def _score(references, predictions, out):
  arguments = [f"--references={references}", f"--predictions={predictions}", f"--out={out}", "--processes=3"]
  return sessions.start("-m", "xmcap.cli", "score", *arguments, "--only_tables")


def _gone(process) -> bool:
  """Whether all that a command had started ends soon after it, so that its output ends too."""
  out, error = process.communicate(timeout=120)
  del out
  assert "BrokenProcessPool" not in error
  return sessions.wait(lambda: not sessions.members(process.pid), 120)


@pytest.mark.parametrize("signals", [_SIGNALS[:1], pytest.param(_SIGNALS * 3, marks=pytest.mark.full)])
def test_killed_score_leaves_no_process(files, tmp_path, signals):
  draw = random.Random(len(signals))
  for number in signals:
    _kill(_score(*files, tmp_path / "out"), number, draw.uniform(0, 2))


def _kill(process, number, seconds: float) -> None:
  """Kills a command some seconds after its workers have begun; nothing of it may be left."""
  assert sessions.wait(lambda: len(sessions.members(process.pid)) >= 4 or process.poll() is not None)
  assert not any(map(sessions.semaphores, sessions.members(process.pid)))
  if not sessions.wait(lambda: process.poll() is not None, seconds):
    process.send_signal(number)
  assert _gone(process), number


def test_score_with_a_killed_worker_is_one_line(files, tmp_path):
  process = _score(*files, tmp_path / "out")
  assert sessions.wait(lambda: len(sessions.members(process.pid)) == 4)
  for worker in sessions.members(process.pid)[1:]:
    # The command ends the others as soon as it sees that one was killed.
    with contextlib.suppress(ProcessLookupError):
      os.kill(worker, signal.SIGKILL)
  _, error = process.communicate(timeout=120)
  assert process.returncode == 1
  assert error == (
    "xmcap: error: a worker process was killed (signal 9; out of memory?): use fewer processes (--processes)\n"
  )
