"""CPU time and memory of scoring against the number of captions in 36 languages: `xmcap score` and pycocoevalcap.

Both sides as in scoring.py. CPU time of all processes (user and system), since it hardly depends on what else runs;
memory of all processes together, with health and the report.

usage: python benchmarks/scoring_growth.py [IMAGES ...]     default: 225 900 3600; more are of xmcap alone
"""

import os
import sys
import tempfile

import captions
import report
import scoring

_MOST_OF_PEER = 3_600
"""Images. More take it many minutes."""


def main() -> None:
  sizes = [int(size) for size in sys.argv[1:]] or [225, 900, 3_600]
  rows = []
  for images in sizes:
    files = [str(path) for path in captions.release(images)]
    with tempfile.TemporaryDirectory() as folder:
      ours = _cpu_seconds(scoring.table(files, folder))
      peer = _cpu_seconds(scoring.peer(files, folder)) if images <= _MOST_OF_PEER else None
      memory = scoring.megabytes(scoring.everything(files, folder))
    ratio = f"{peer / ours:.1f}" if peer else "-"
    rows.append((f"{36 * images:,}", f"{ours:.1f}", f"{peer:.1f}" if peer else "-", ratio, f"{memory:,.0f}"))
    print(*rows[-1], flush=True)
  report.write(
    "scoring_growth",
    "CPU time and memory of scoring by number of captions",
    rows,
    columns=(
      "captions",
      "xmcap score: CPU seconds",
      "pycocoevalcap: CPU seconds",
      "ratio",
      "xmcap score, everything: MB",
    ),
    notes=[
      "36 languages, 2 references a caption, CIDEr-D, from files to a table; one run each. `-`: not run. Everything: "
      "also CIDEr, health, slices and the report; the memory of all processes, shared pages counted once. A score "
      "of 100,000 captions has a start of some seconds in it: imports, dictionaries of words, for pycocoevalcap Java."
    ],
  )


def _cpu_seconds(command: list[str]) -> float:
  """User and system time of a command and of all processes that it waited for."""
  process = scoring.start(command)
  _, status, used = os.wait4(process.pid, 0)
  process.returncode = os.waitstatus_to_exitcode(status)
  if process.returncode:
    raise SystemExit(f"failed: {' '.join(command[:4])} ...")
  return used.ru_utime + used.ru_stime


if __name__ == "__main__":
  main()
