"""Fuzzing in brief: a few cases of each command (--all) and of each parser in doors.py.

`python -m tests.fuzz --minutes=20` runs all.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.fuzz import commands, doors

pytestmark = pytest.mark.slow

# Two processes, of which each calls each of its commands once or more.
_COMMANDS = {command.name for command in (*commands.LIGHT, *commands.HEAVY)}
_CASES = 2 * len({command.name for command in commands.HEAVY})


@pytest.mark.parametrize(
  ("options", "cases", "names"),
  [
    pytest.param([], _CASES, _COMMANDS, marks=pytest.mark.full, id="commands"),
    pytest.param(["--doors"], 60, {command.name for command in doors.DOORS}, id="doors"),
  ],
)
def test_fuzz_cases_of_damaged_inputs_have_no_failures(tmp_path, options, cases, names):
  counts = tmp_path / "counts.json"
  # A process of its own: its forks must not have the threads that jax has started in this one.
  done = subprocess.run(
    [sys.executable, "-m", "tests.fuzz", *options, f"--cases={cases}", "--processes=2", "--minutes=30", "--seed=1",
     "--patience=10", f"--json={counts}"],
    cwd=pathlib.Path(__file__).parents[2], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True,
  )  # fmt: skip
  wrong = [line for line in done.stdout.splitlines() if line.startswith("case ")]
  assert done.returncode == 0, "\n".join(wrong) or done.stderr[-2000:]
  found = json.loads(counts.read_text())
  assert sum(of["cases"] for of in found.values()) == cases
  assert found.keys() == names
