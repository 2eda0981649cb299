"""Every command called with damaged inputs and odd options: how the calls ended, and how many were wrong.

With --doors, the readers of tables and tokenizers and the server; with --kills, commands that are killed.

usage: python benchmarks/fuzz.py [options of tests.fuzz, such as --minutes=20 --seed=2 --kills]
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import report

_ENDS = ("cases", "done", "failed", "refused", "wrong")
_TITLES = {
  "fuzz": "Commands called with damaged inputs",
  "doors": "Readers and the server called with damage that knows the format",
  "kills": "Commands killed at a random moment",
}


def main() -> None:
  with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder, "counts.json")
    command = [sys.executable, "-m", "tests.fuzz", *sys.argv[1:], f"--json={out}"]
    code = subprocess.run(command, cwd=pathlib.Path(__file__).parents[1]).returncode
    counts = json.loads(out.read_text(encoding="utf-8"))
  name = next((name for name in _TITLES if f"--{name}" in sys.argv), "fuzz")
  total = {end: sum(count.get(end, 0) for count in counts.values()) for end in _ENDS}
  columns = ("command", "cases", "exit 0", "exit 1", "exit 2", "wrong")
  rows = [
    (what, *(f"{count.get(end, 0):,}" for end in _ENDS)) for what, count in (*counts.items(), ("all", total))
  ]
  if name == "doors":
    columns = ("door", "cases", "read", "failed", "refused", "wrong")
  if name == "kills":
    columns = ("command", "killed calls", "results that differ from an undisturbed call")
    rows = [(row[0], row[1], row[-1]) for row in rows]
  report.write(
    name,
    _TITLES[name],
    rows,
    columns,
    notes=["docs/security.md defines when a case counts as wrong."],
  )
  sys.exit(code)


if __name__ == "__main__":
  main()
