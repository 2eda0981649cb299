"""`map_forked`, in a fresh process: other tests may have imported what forbids to fork."""

import os
import subprocess
import sys

import pytest

from xmcap import processes as processes_lib
from xmcap.scoring.language import Captions

_SCRIPT = """
import os
from xmcap.errors import UsageError
from xmcap import processes

def square(number):
  return number * number, os.getpid()

def fail(number):
  raise UsageError(f"no {number}")

def die(number):
  os.kill(os.getpid(), 9)

"""


def _run(*lines):
  done = subprocess.run([sys.executable, "-c", _SCRIPT + "\n".join(lines)], capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  return done.stdout.split()


def _square(number):
  return number * number, os.getpid()


@pytest.mark.parametrize("processes", [0, 1])
def test_map_forked_with_one_process_runs_here(processes):
  assert processes_lib.map_forked(_square, [3, 1], processes) == [(9, os.getpid()), (1, os.getpid())]


def test_map_forked_keeps_the_order_of_items():
  printed = _run(
    "found = processes.map_forked(square, [3, 1, 2, 5], 2)",
    "print(*[value for value, _ in found], len({pid for _, pid in found} - {os.getpid()}))",
  )
  assert printed == ["9", "1", "4", "25", "2"]


def test_map_forked_takes_functions_that_cannot_be_pickled():
  assert _run("held = lambda: 7", "print(*processes.map_forked(lambda n: n + held(), [1, 2], 2))") == [
    "8",
    "9",
  ]


@pytest.mark.parametrize(
  "function, said", [("fail", "no_7"), ("die", "a_worker_process_was_killed_(signal_9")]
)
def test_map_forked_keeps_type_and_message_of_errors(function, said):
  (printed,) = _run(
    f"try: processes.map_forked({function}, [7, 7], 2)",
    "except Exception as error: print(str(error).replace(' ', '_'))",
  )
  assert printed.startswith(said)


def test_map_forked_does_not_fork_once_jax_is_imported(monkeypatch):
  monkeypatch.setitem(sys.modules, "jax", sys)
  assert processes_lib.map_forked(_square, [2, 3], 2) == [(4, os.getpid()), (9, os.getpid())]


def test_unshared_gives_an_equal_value_to_several_processes():
  captions = Captions(["7", "8"], ["a dog", ""], [["half \ud83d", "ein Hund"], ["猫"]], [], [1, 0])
  again = processes_lib.unshared(captions, 2)()
  assert again == captions and again is not captions
  assert processes_lib.unshared(captions, 1)() is captions
