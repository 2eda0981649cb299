"""Sharing work. Processes are forked in a fresh one: other tests may have loaded what forbids to fork."""

import os
import subprocess
import sys

import pytest

from xmcap.scoring.workers import Workers, available

_SCRIPT = """
import os
from xmcap.errors import UsageError
from xmcap.scoring.workers import Workers

def square(number):
  return number * number, os.getpid()

def length(data):
  return len(data)

def fail(number):
  raise UsageError(f"no {number}")

with Workers(2) as workers:
"""


def _run(*lines):
  script = _SCRIPT + "".join(f"  {line}\n" for line in lines)
  done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
  assert done.returncode == 0, done.stderr
  return done.stdout.split()


def _square(number):
  return number * number, os.getpid()


def test_one_process_is_this_one():
  with Workers(1) as workers:
    assert not workers.several and workers.start(_square, 2)() == (4, os.getpid())
    assert [value for value, _ in workers.map(_square, [3, 1, 2], float, int)] == [9, 1, 4]


def test_results_are_in_the_order_of_the_items():
  printed = _run("print(*[value for value, _ in workers.map(square, [3, 1, 2, 5], float, int)])")
  assert printed == ["9", "1", "4", "25"]


def test_the_costliest_items_go_to_different_workers_in_turn():
  pids = _run(
    "pids = [pid for _, pid in workers.map(square, [1, 9, 8, 2], float, int)]",
    "print(pids[1] != pids[2], os.getpid() in pids)",
  )
  assert pids == ["True", "False"]


def test_a_worker_is_told_before_it_works():
  lines = _run(
    "workers.tell(0, os.write, 1, b'told\\n')",
    "workers.map(square, [1, 9], float, int)",
    "print('done')",
  )
  assert sorted(lines) == ["done", "told"]


@pytest.mark.parametrize("call", ["workers.map(fail, [7], float, int)", "workers.start(fail, 7)()"])
def test_errors_keep_their_kind_and_words(call):
  printed = _run(f"try: {call}", "except UsageError as error: print(str(error).replace(' ', '_'))")
  assert printed == ["no_7"]


def test_a_process_with_threads_of_jax_is_not_forked(monkeypatch):
  monkeypatch.setitem(sys.modules, "jax", sys)
  with Workers(2) as workers:
    assert not workers.several and workers.map(_square, [2], float, int) == [(4, os.getpid())]


def test_there_is_a_core():
  assert available() >= 1


@pytest.mark.parametrize("processes", [0, 1])
def test_fewer_than_two_processes_are_this_one(processes):
  with Workers(processes) as workers:
    assert not workers.several


def test_jobs_of_any_size_arrive():
  lines = _run(
    "sizes = [10, 3 << 20, 9 << 20, 0, 5 << 20, 1 << 20]",
    "print(*workers.map(length, sizes, float, bytes))",
  )
  assert lines == [str(size) for size in (10, 3 << 20, 9 << 20, 0, 5 << 20, 1 << 20)]
