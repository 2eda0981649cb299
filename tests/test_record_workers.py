"""Worker processes end with the process that started them, however that ended."""

import signal
import subprocess
import sys
import time
import types

from tests.sessions import alive, needs_proc
from xmcap import processes

PROGRAM = """
import os, time
from xmcap import processes

def task(_):
  print(os.getpid(), flush=True)
  time.sleep(60)

if __name__ == "__main__":
  with processes.pool(2) as pool:
    list(pool.map(task, range(2)))
"""

# Its workers need a second to start, and it is killed in that second; what they would do waits for them.
KILLED_EARLY = """
import os, pathlib, signal, sys, threading, time
from xmcap import processes

started = pathlib.Path(sys.argv[1] + ".started")

def end_when_a_worker_starts():
  while not started.exists():
    time.sleep(0.01)
  os.kill(os.getpid(), signal.SIGKILL)

def task(_):
  pathlib.Path(sys.argv[1]).touch()

if __name__ == "__main__":
  os.environ["PARENT"] = str(os.getpid())
  threading.Thread(target=end_when_a_worker_starts, daemon=True).start()
  with processes.pool(2) as pool:
    list(pool.map(task, range(2)))
else:
  started.touch()
  while os.getppid() == int(os.environ["PARENT"]):  # on a busy machine it may live for seconds, or be gone already
    time.sleep(0.01)
"""


@needs_proc
def test_workers_end_when_their_parent_is_killed(tmp_path):
  path = tmp_path / "program.py"
  path.write_text(PROGRAM)
  process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
  pids = [int(process.stdout.readline()) for _ in range(2)]
  assert all(map(alive, pids))
  process.send_signal(signal.SIGKILL)
  process.wait()
  process.stdout.close()
  end = time.monotonic() + 10
  while any(map(alive, pids)) and time.monotonic() < end:
    time.sleep(0.05)
  assert not any(map(alive, pids))


def test_workers_started_after_their_parents_death_do_nothing(tmp_path):
  path, done = tmp_path / "program.py", tmp_path / "done"
  path.write_text(KILLED_EARLY)
  # Its standard output stays open as long as any of them lives.
  ended = subprocess.run([sys.executable, str(path), str(done)], stdout=subprocess.PIPE, check=False)
  assert ended.returncode == -signal.SIGKILL
  assert not done.exists()


def test_no_more_processes_are_started_than_the_limit(monkeypatch):
  started = []

  def start(*_):
    started.append(types.SimpleNamespace(begin_end=lambda at_once: None, join=lambda: None))
    return started[-1]

  monkeypatch.setattr(processes, "Worker", start)
  with processes.pool(257):
    assert len(started) == 256
