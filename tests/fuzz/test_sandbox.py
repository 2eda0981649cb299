"""The sandbox of the fuzzer: which outcomes of a command are failures."""

import faulthandler
import os
import pathlib
import subprocess
import sys
import time

import pytest

from tests.fuzz.sandbox import Case, run


def _run(tmp_path, call, **case):
  folder = tmp_path / "case"
  folder.mkdir()
  (folder / "input.txt").write_text("whole")
  return run(Case("x", ["--option"], **case), folder, call)


def _fails(line, code=1):
  def call(arguments):
    print(line, file=sys.stderr)
    return code

  return call


def _raises(arguments):
  raise ValueError("bad")


def _writes_beside(arguments):
  pathlib.Path("../beside").write_text("")
  return 0


def _changes_its_input(arguments):
  pathlib.Path("input.txt").write_text("other")
  return 0


def _starts_a_program(arguments):
  subprocess.run(["true"])
  return 0


def _leaves_a_process(arguments):
  if os.fork() == 0:
    time.sleep(60)
  return 0


def _ends_by_a_signal(arguments):
  faulthandler.disable()  # pytest's would print a traceback into the output of the tests
  os.kill(os.getpid(), 11)


def _takes_memory(arguments):
  bytearray(1 << 28)[::4096] = b"x" * (1 << 16)
  return 0


def _sends_control_characters(arguments):
  os.write(2, b"xmcap: error: \x1b[31m\n")  # past what guards the streams
  return 1


@pytest.mark.parametrize(
  "call, said",
  [
    (_raises, "traceback: ValueError: bad"),
    (_writes_beside, "opened for writing outside its folder"),
    (_changes_its_input, "wrote outside its output: input.txt"),
    (_starts_a_program, "subprocess.Popen"),
    (_leaves_a_process, "left processes behind"),
    (_ends_by_a_signal, "died of SIGSEGV"),
    (_takes_memory, "of memory"),
    (_fails("oh"), "exit code 1 with 0 lines of error"),
    (_fails("xmcap: error: a\nxmcap: error: b"), "exit code 1 with 2 lines of error"),
    (_fails("xmcap: error: a", code=0), "exit code 0 with an error"),
    (_fails("xmcap: error: a", code=3), "exit code 3"),
    (_sends_control_characters, "control character"),
    (lambda arguments: time.sleep(60), "took longer than 1 s"),
  ],
)
def test_sandbox_reports_failures(tmp_path, call, said):
  outcome = _run(tmp_path, call, limit=1.0 if "longer" in said else 30.0, memory=1 << 27)
  assert len(outcome.wrong) == 1 and said in outcome.wrong[0], outcome


def test_sandbox_accepts_a_usage_error_with_output_files(tmp_path):
  def call(arguments):
    assert arguments == ["--option"]
    pathlib.Path("out").mkdir()
    pathlib.Path("out/table.csv").write_text("a")
    print("xmcap: error: input.txt, line 1: no JSON", file=sys.stderr)
    return 2

  outcome = _run(tmp_path, call)
  assert not outcome.wrong and outcome.code == 2 and "no JSON" in outcome.output
