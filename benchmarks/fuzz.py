"""Every command called with damaged inputs and odd options: how the calls ended, and how many were wrong.

usage: python benchmarks/fuzz.py [options of tests.fuzz, such as --minutes=20 --seed=2 --kills]
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import report

_ENDS = ("cases", "done", "failed", "refused", "wrong")


def main() -> None:
  with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder, "counts.json")
    command = [sys.executable, "-m", "tests.fuzz", *sys.argv[1:], f"--json={out}"]
    code = subprocess.run(command, cwd=pathlib.Path(__file__).parents[1]).returncode
    counts = json.loads(out.read_text(encoding="utf-8"))
  kills = "--kills" in sys.argv
  total = {end: sum(count.get(end, 0) for count in counts.values()) for end in _ENDS}
  columns = ("command", "cases", "exit 0", "exit 1", "exit 2", "wrong")
  rows = [
    (name, *(f"{count.get(end, 0):,}" for end in _ENDS)) for name, count in (*counts.items(), ("all", total))
  ]
  if kills:
    columns = ("command", "killed calls", "results that differ from an undisturbed call")
    rows = [(row[0], row[1], row[-1]) for row in rows]
  report.write(
    "kills" if kills else "fuzz",
    "Commands killed at a random moment" if kills else "Commands called with damaged inputs",
    rows,
    columns,
    notes=["docs/security.md defines when a case counts as wrong."],
  )
  sys.exit(code)


if __name__ == "__main__":
  main()
