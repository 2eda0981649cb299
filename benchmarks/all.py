"""Makes docs/benchmarks.md of benchmarks/results/*.json, which the scripts beside this one write.

usage: python benchmarks/all.py                     makes the page
       python benchmarks/all.py --run [NAME ...]    first runs the commands of these results, or of all
Each command runs by itself, so that nothing disturbs it; all of them take hours. Commands with a PATH in them are left
out. The page is what the JSON gives: nobody edits it, and other pages link to it instead of repeating its figures.
"""

import argparse
import json
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

SECTIONS = {
  "The quickstart": ("quickstart",),
  "Training": (
    "captions_per_image", "train_step", "tpu_step", "scan", "accelerator", "plan", "plan_lengths",
    "plan_captions_per_image", "plan_decode", "plan_gpus",
  ),
  "Decoding": ("decoding", "decoding_beam", "decoding_vit_g", "export"),
  "Serving": ("serve",),
  "Data": ("stream", "stream_cores", "data_wait", "bucket", "lengths", "lengths_k8", "parse_lines",
           "parse_lines_by_language", "disk"),
  "Scoring": ("scoring", "retrieval"),
  "A dual tower": ("emoji100", "ensembles", "contrastive", "contrastive_then_caption", "adapters"),
  "Start-up": ("startup",),
  "Robustness": ("faults", "pairs", "fuzz", "kills"),
}  # fmt: skip
"""The order of the page. A result that is named here need not be there; one that is there must be named."""

_HEAD = """# Benchmarks

<!-- Made by `python benchmarks/all.py` of benchmarks/results/*.json. Edit neither; run the script that is named. -->

Every figure of this project stands here, once, with the command that measures it, the date and the machine. Other
pages link here. Ratios come from one run in which both sides took turns. To measure again:

```
bash test.sh --co -q                             # sets up .venv with the versions of requirements.lock
.venv/bin/python benchmarks/data_wait.py         # writes benchmarks/results/data_wait.json
.venv/bin/python benchmarks/all.py               # writes this page
```
"""


def results() -> dict[str, dict[str, Any]]:
  """All results by name, in the order of the page.

  Raises:
    SystemExit: SECTIONS does not name one.
  """
  found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
  order = [name for names in SECTIONS.values() for name in names]
  if unknown := sorted(set(found) - set(order)):
    raise SystemExit(f"benchmarks/all.py: name {', '.join(unknown)} in SECTIONS")
  return {name: found[name] for name in order if name in found}


def page() -> str:
  """The text of docs/benchmarks.md."""
  found = results()
  parts = [_HEAD]
  for section, names in SECTIONS.items():
    here = [name for name in names if name in found]
    if here:
      parts += [f"## {section}\n", *(_part(found[name]) for name in here)]
  return "\n".join(parts)


def _part(result: Mapping[str, Any]) -> str:
  columns, machine = result["columns"], result["machine"]
  align = ["---", *["---:"] * (len(columns) - 1)]
  lines = [f"### {result['title']}", "", f"`{result['command']}`", ""]
  lines += [_row(columns), _row(align), *map(_row, result["rows"]), ""]
  lines += [line for note in result["notes"] for line in (note, "")]
  facts = [f"{machine['cores']} CPU cores", f"{machine['memory_gib']} GiB of memory"]
  facts += [f"{name} {machine[name]}" for name in ("python", "jax") if name in machine]
  lines += [f"Measured on {result['date']}: {', '.join(facts)}.", ""]
  return "\n".join(lines)


def _row(cells: list[str]) -> str:
  return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--run", nargs="*", metavar="NAME", help="run these first; without a name all")
  wanted = parser.parse_args().run
  if wanted is not None:
    commands = {name: result["command"] for name, result in results().items() if not wanted or name in wanted}
    if missing := set(wanted) - set(commands):
      raise SystemExit(f"no result {', '.join(sorted(missing))}; there are {', '.join(results())}")
    for name, command in commands.items():
      program, *arguments = shlex.split(command)
      if program != "python" or any("PATH" in argument for argument in arguments):
        print(f"{name}: not run here: {command}")
        continue
      print(f"{name}: {command}", flush=True)
      subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True)
  PAGE.write_text(page(), encoding="utf-8")
  print(f"written to {PAGE}")


if __name__ == "__main__":
  main()
