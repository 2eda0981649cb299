"""Runs that hang, and runs that are stopped within an evaluation: one process and two of tests/training/hanging.py."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.training.hosts.test_join import free_port
from xmcap.training.checkpoints.read import load_params, steps_in

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def start(folder, where, count, who=0):
  """The processes, going; number `who` hangs."""
  environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
  if count > 1:
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)  # see test_processes.py
  port = free_port()
  places = [()] if count == 1 else [(str(port), str(index)) for index in range(count)]
  return [
    subprocess.Popen([sys.executable, "-m", "tests.training.hanging", str(folder), where, str(who), *place], cwd=ROOT,
                     env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    for place in places
  ]  # fmt: skip


def end(processes, code):
  """What each has said: (standard output, log)."""
  try:
    said = [process.communicate(timeout=400) for process in processes]
  finally:
    for process in processes:
      process.kill()
  assert [process.returncode for process in processes] == [code] * len(processes), said
  return said


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
  """Number of processes -> the parameters that their run ends with."""
  found = {}

  def params(count):
    if count not in found:
      folder = tmp_path_factory.mktemp(f"of{count}")
      end(start(folder, "nowhere", count), 0)
      found[count] = load_params(folder)
    return found[count]

  return params


@pytest.mark.parametrize(
  "where, who, place",
  # `test_hang_of_a_single_process` has a step in which it hangs.
  [
    ("evaluator", 1, "batch 3 of the slow evaluator"),
    pytest.param("step", 0, "step 5", marks=pytest.mark.full),
  ],
)
def test_two_processes_name_the_one_that_hangs(tmp_path, where, who, place):
  said = end(start(tmp_path, where, 2, who), 75)
  for _, log in said:
    (line,) = re.findall(r"^xmcap: restart needed: .*", log, re.MULTILINE)[:1]
    assert re.search(
      rf"process {who} \(\S+\) has been in '{place}' for \d+ s \(HangLimits.\w+ is 8\)", line
    ), log
    assert "at hanging.py:" in line and "in hang;" in line
  # Its stack, and no other's, says where.
  assert re.search(r'hanging.py", line \d+ in hang\b', said[who][1]) and "in hang\n" not in said[1 - who][1]
  assert steps_in(tmp_path / "checkpoints")[0] == 3


@pytest.mark.full
def test_stalled_data_of_one_of_two_processes(tmp_path):
  said = end(start(tmp_path, "data", 2, who=1), 75)
  assert "step 5: waited 8 s for data from ToyStream" in said[1][1]
  assert re.search(r"process 1 \(\S+\) failed: step 5: waited 8 s", said[0][1]), said[0][1]
  assert re.search(r'hanging.py", line \d+ in hang\b', said[1][1])


@pytest.mark.parametrize(
  "where, place",
  [("step", "step 5"), pytest.param("evaluator", "batch 3 of the slow evaluator", marks=pytest.mark.full)],
)
def test_hang_of_a_single_process(tmp_path, where, place):
  ((_, log),) = end(start(tmp_path, where, 1), 75)
  line = rf"restart needed: this process has been in '{place}' for \d+ s .*at hanging.py:\d+ in hang;"
  assert re.search(line, log), log
  assert re.search(r'hanging.py", line \d+ in hang\b', log)


@pytest.mark.full
@pytest.mark.parametrize("count", [1, 2])
def test_stop_during_an_evaluation_resumes_bit_for_bit(tmp_path, undisturbed, count):
  processes = start(tmp_path, "slow", count)
  for line in processes[0].stdout:
    if "evaluated batch 3 of step 4" in line:
      break
  processes[-1].send_signal(signal.SIGTERM)
  said = end(processes, 75)
  assert "evaluated batch 100 " not in said[0][0], "of 1000"
  assert "stopped by SIGTERM at step 4 of 6, everything is saved" in said[0][0]
  assert 4 in steps_in(tmp_path / "checkpoints")

  said = end(start(tmp_path, "nowhere", count), 0)[0][0]
  places = [said.index(line) for line in ("resuming from step 4", "evaluated batch 4 of step 4", "step 5/6")]
  assert places == sorted(places), said
  jax.tree.map(np.testing.assert_array_equal, load_params(tmp_path), undisturbed(count))
