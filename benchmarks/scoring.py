"""Scoring XM3600's size, from files to a written table, against pycocoevalcap's PTBTokenizer and Cider.

36 languages x 3,600 images x (1 prediction + 2 references). Each side runs as a process of its own, which reads
the files, finds words, scores and writes the table; pycocoevalcap needs Java. Prints the ratio of the median
times, the memory that xmcap and its workers hold at most, and what 1,000 bootstrap resamples add.

usage: python benchmarks/scoring.py [repeats]
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import captions
import report

_PEER = """
import csv, json, sys
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

references, hypotheses = {}, {}
for line in open(sys.argv[1], encoding="utf-8"):
  row = json.loads(line)
  for code, value in row.items():
    if not code.startswith("image/"):
      texts = [{"caption": text} for text in value["caption"]]
      references.setdefault(code, {})[row["image/key"]] = texts
for line in open(sys.argv[2], encoding="utf-8"):
  row = json.loads(line)
  hypotheses.setdefault(row["language"], {})[row["image/key"]] = [{"caption": row["caption"]}]
with open(sys.argv[3], "w") as file:
  for code in references:
    tokenizer = PTBTokenizer()
    words = tokenizer.tokenize(references[code]), tokenizer.tokenize(hypotheses[code])
    csv.writer(file).writerow([code, Cider().compute_score(*words)[0]])
"""


def main() -> None:
  """Prints what the docstring says."""
  repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
  files = [str(path) for path in captions.release()]
  with tempfile.TemporaryDirectory() as folder:
    ours, java = table(files, folder), peer(files, folder)
    runs = {
      "pycocoevalcap (PTBTokenizer + Cider)": java,
      "xmcap score --metrics=cider_d --only_tables --no_health": ours,
      "same, --processes=1": [*ours, "--processes=1"],
      "same, --bootstrap=1000": [*ours, "--bootstrap=1000"],
      "xmcap score, everything (CIDEr, CIDEr-D, health, slices, report)": everything(files, folder),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    # In turns, so that a slow minute of the machine is everybody's.
    for _ in range(repeats):
      for name, command in runs.items():
        times[name].append(_seconds(command))
    # Apart from the timed runs, which looking at memory would slow down.
    memory = {name: megabytes(command) for name, command in runs.items()}
  medians = {name: statistics.median(of_name) for name, of_name in times.items()}
  base = next(iter(medians.values()))
  print(f"medians of {repeats}, in turns; {os.cpu_count()} cores; memory of all processes of a run together")
  for name, median in medians.items():
    print(f"{median:8.2f} s  {base / median:6.1f} x  {memory[name]:8.0f} MB  {name}")
  report.write(
    "scoring",
    "xmcap score compared with pycocoevalcap, from files to tables",
    [
      (name, f"{median:.1f}", f"{base / median:.1f}", f"{memory[name]:,.0f}")
      for name, median in medians.items()
    ],
    columns=("36 languages x 3,600 images x (1 prediction + 2 references)", "seconds", "speed-up", "MB"),
    notes=[f"Medians of {repeats} alternating runs; memory of all processes of a run."],
  )


def table(files: list[str], folder: str) -> list[str]:
  """The command that scores references and predictions by CIDEr-D alone."""
  return [*_score(files), f"--out={folder}/table", "--metrics=cider_d", "--only_tables", "--no_health"]


def everything(files: list[str], folder: str) -> list[str]:
  """The command with all that it does by default."""
  return [*_score(files), f"--out={folder}/all"]


def peer(files: list[str], folder: str) -> list[str]:
  """The same with pycocoevalcap, which needs Java."""
  return [sys.executable, "-c", _PEER, *files, f"{folder}/peer.csv"]


def _score(files: list[str]) -> list[str]:
  references, predictions = files
  return [
    sys.executable,
    "-m",
    "xmcap.cli",
    "score",
    f"--references={references}",
    f"--predictions={predictions}",
  ]


def start(command: list[str]) -> subprocess.Popen:
  """Starts a command that says nothing."""
  # A new environment may not have compiled its modules yet; the second run of anything has.
  environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
  return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def _seconds(command: list[str]) -> float:
  began = time.perf_counter()
  if start(command).wait() != 0:
    raise SystemExit(f"failed: {' '.join(command[:4])} ...")
  return time.perf_counter() - began


def megabytes(command: list[str]) -> float:
  """Returns the most memory that the processes of a command hold, shared pages counted once."""
  process, peak = start(command), 0.0
  while process.poll() is None:
    peak = max(peak, sum(_proportional(pid) for pid in _family(process.pid)))
    time.sleep(0.05)
  return peak


def _family(pid: int) -> list[int]:
  try:
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    children = [child for task in tasks for child in (task / "children").read_text().split()]
  except OSError:
    return []
  return [pid, *(member for child in children for member in _family(int(child)))]


def _proportional(pid: int) -> float:
  try:
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
      if line.startswith("Pss:"):
        return int(line.split()[1]) / 1024
  except OSError:
    pass
  return 0.0


if __name__ == "__main__":
  main()
