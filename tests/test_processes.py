"""Worker processes: results, errors, and that they end with their parent."""

import os
import signal
import subprocess
import sys
import types

import pytest

from tests import sessions
from xmcap import processes

_PROGRAM = """
import os, signal, sys, time
import multiprocessing
from xmcap import processes
from xmcap.errors import UsageError, XmcapError

def wait(_):
  sys.stdout.write(f"{os.getpid()}\\n")  # in one piece, however it is buffered
  sys.stdout.flush()
  time.sleep(600)

def loop(_):
  sys.stdout.write(f"{os.getpid()}\\n")  # in one piece, however it is buffered
  sys.stdout.flush()
  while True:
    pass

def large(size):
  return b"x" * size

def die(number):
  os.kill(os.getpid(), number)

def die_while_sending(_):
  import threading
  # The result is too large for what a connection holds, and nobody reads it until it is asked for.
  threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
  return b"x" * (64 << 20)

def apply(function, argument):
  return function(argument)

def leave(status):
  os._exit(status)

def no_memory(_):
  raise MemoryError

def fail(_):
  raise UsageError("no such thing")

def odd(_):
  class Odd(Exception):
    pass
  raise Odd("cannot be sent")

def start(method, count=2):
  workers = []
  for _ in range(count):
    workers.append(processes.Worker(multiprocessing.get_context(method), others=workers))
  return workers

def answer(function, argument):
  workers = start("fork", 1)
  try:
    workers[0].send(function, argument)
    return workers[0].receive()
  except Exception as error:
    print(type(error).__name__, error)

if __name__ == "__main__":
"""


def _program(tmp_path, *lines) -> str:
  path = tmp_path / "program.py"
  path.write_text(_PROGRAM + "".join(f"  {line}\n" for line in lines))
  return str(path)


def _said(tmp_path, *lines) -> str:
  process = sessions.start(_program(tmp_path, *lines))
  out, error = process.communicate(timeout=120)
  assert process.returncode == 0, error
  return out


@sessions.needs_proc
@pytest.mark.parametrize(
  "method, number, call",
  [
    ("fork", signal.SIGTERM, "loop"),
    ("fork", signal.SIGKILL, "wait"),
    ("fork", signal.SIGHUP, "wait"),
    ("spawn", signal.SIGTERM, "wait"),
    ("spawn", signal.SIGKILL, "loop"),
    ("spawn", signal.SIGHUP, "loop"),
  ],
)
def test_busy_workers_end_with_their_parent(tmp_path, method, number, call):
  process = sessions.start(
    _program(
      tmp_path,
      f"workers = start('{method}')",
      f"for worker in workers: worker.send({call}, 0)",
      "workers[0].receive()",
    )
  )
  pids = [int(process.stdout.readline()) for _ in range(2)]
  assert set(pids) <= set(sessions.members(process.pid))
  assert [sessions.semaphores(pid) for pid in (process.pid, *pids)] == [[], [], []]
  process.send_signal(number)
  # All that hold the output must have ended for it to end.
  process.communicate(timeout=120)
  assert sessions.wait(lambda: not sessions.members(process.pid))


def test_every_lane_names_the_process_that_died(tmp_path):
  said = _said(
    tmp_path,
    "import concurrent.futures",
    "worker = processes.Worker(multiprocessing.get_context('fork'), lanes=3)",
    "worker.lanes[2].send(large, 3)",
    "print(worker.lanes[2].receive())",
    "for lane, call in zip(worker.lanes, (wait, wait, die)): lane.send(call, 9)",
    "with concurrent.futures.ThreadPoolExecutor(3) as pool:",
    "  died = [call.exception() for call in [pool.submit(lane.receive) for lane in worker.lanes]]",
    "print(*{type(error).__name__ + str(error)[:41] for error in died})",
  )
  assert said.splitlines()[0] == "b'xxx'"
  assert said.splitlines()[-1] == "Killeda worker process was killed (signal 9; out"


@sessions.needs_proc
def test_idle_workers_end_with_their_parent(tmp_path):
  process = sessions.start(
    _program(tmp_path, "workers = start('fork', 4)", "print('begun', flush=True)", "time.sleep(600)")
  )
  assert process.stdout.readline() == "begun\n" and len(sessions.members(process.pid)) == 5
  process.kill()
  process.communicate(timeout=120)
  assert sessions.wait(lambda: not sessions.members(process.pid))


@pytest.mark.parametrize(
  "call, message",
  [
    (
      "die, signal.SIGKILL",
      "Killed a worker process was killed (signal 9; out of memory?): use fewer processes",
    ),
    ("die, signal.SIGTERM", "Killed a worker process was killed (signal 15): use fewer processes"),
    ("leave, 3", "Killed a worker process ended with status 3: use fewer processes"),
    ("no_memory, 0", "Killed a worker process ran out of memory: use fewer processes"),
    ("fail, 0", "UsageError no such thing"),
    ("odd, 0", "RuntimeError Odd: cannot be sent"),
  ],
)
def test_exit_status_of_a_worker_is_reported(tmp_path, call, message):
  assert _said(tmp_path, f"answer({call})").startswith(message)


def test_worker_killed_while_sending_is_not_waited_for(tmp_path):
  lines = "worker = start('fork', 1)[0]", "worker.send(die_while_sending, 0)"
  said = _said(
    tmp_path, *lines, "time.sleep(1)", "try: worker.receive()", "except processes.Killed: print('killed')"
  )
  assert said == "killed\n"


def test_workers_share_calls_with_large_arguments(tmp_path):
  calls = "[(large, 9 << 20), (len, b'x' * (9 << 20)), (abs, -3)]"
  said = _said(
    tmp_path,
    "workers = start('fork')",
    f"results = dict(processes.share(workers, apply, {calls}))",
    "print(len(results[0]), results[1], results[2])",
  )
  assert said.split() == [str(9 << 20), str(9 << 20), "3"]


def test_keyboard_interrupt_stops_the_parent_alone(tmp_path):
  process = sessions.start(
    _program(tmp_path, "worker = start('fork')[0]", "worker.send(wait, 0)", "worker.receive()")
  )
  process.stdout.readline()
  os.killpg(process.pid, signal.SIGINT)
  _, error = process.communicate(timeout=120)
  assert error.count("Traceback") == 1 and error.endswith("KeyboardInterrupt\n")


def test_worker_that_cannot_be_started_is_one_line(monkeypatch):
  import multiprocessing

  def refuse(self):
    raise BlockingIOError(11, "Resource temporarily unavailable")

  context = multiprocessing.get_context("spawn")
  monkeypatch.setattr(context.Process, "start", refuse)
  with pytest.raises(processes.XmcapError, match=r"cannot be started \(Resource .*\): use fewer processes"):
    processes.Worker(context)


def test_an_interpreter_with_workers_ends(tmp_path):
  # Nobody ended them: they are of a program that forgot to.
  assert _said(tmp_path, "start('fork')", "start('spawn')", "print('done')") == "done\n"


def test_first_spawned_worker_blocks_sigint(tmp_path):
  """Python starts a process of its own before it, and lets the keyboard through after that."""
  call = "worker.send(signal.pthread_sigmask, signal.SIG_BLOCK, [])"
  said = _said(tmp_path, "worker, = start('spawn', 1)", call, "print(signal.SIGINT in worker.receive())")
  assert said == "True\n"


# ---- a pool ---------------------------------------------------------------------------------------

# Its workers need a second to start, and it is killed in that second; what they would do waits for them.
_KILLED_EARLY = """
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


def test_workers_started_after_their_parents_death_do_nothing(tmp_path):
  path, done = tmp_path / "program.py", tmp_path / "done"
  path.write_text(_KILLED_EARLY)
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


def test_workers_import_nothing_of_the_working_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
  (tmp_path / "multiprocessing.py").write_text("open('ran', 'w')")
  with processes.pool(2) as pool:
    assert list(pool.map(abs, [-1, 2])) == [1, 2]
  assert not (tmp_path / "ran").exists() and "PYTHONSAFEPATH" not in os.environ
