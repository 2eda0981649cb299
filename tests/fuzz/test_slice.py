"""Fuzzing in brief: a few cases of each command (--all) and of each parser in doors.py.

`python -m tests.fuzz --minutes=20` runs all.
"""

import json

import pytest

from tests.fuzz import commands, doors, runner
from tests.make.command import forked

pytestmark = pytest.mark.slow

# Two processes, of which each calls each of its commands once or more.
_COMMANDS = {command.name for command in (*commands.LIGHT, *commands.HEAVY)}
_CASES = 2 * len({command.name for command in commands.HEAVY})


@pytest.mark.parametrize(
  ("options", "cases", "names"),
  [
    pytest.param(["--processes=2"], _CASES, _COMMANDS, marks=pytest.mark.full, id="commands"),
    pytest.param(["--doors", "--processes=1"], 60, {command.name for command in doors.DOORS}, id="doors"),
  ],
)
def test_fuzz_cases_of_damaged_inputs_have_no_failures(tmp_path, options, cases, names):
  counts = tmp_path / "counts.json"
  common = [f"--cases={cases}", "--minutes=30", "--seed=1", "--patience=10", f"--json={counts}"]
  forked(runner.main, [*common, *options], environment={"TMPDIR": str(tmp_path)}).succeeded()
  by_command = json.loads(counts.read_text())
  assert sum(count["cases"] for count in by_command.values()) == cases
  assert by_command.keys() == names
