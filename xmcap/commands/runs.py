"""`xmcap runs`: shows the metrics of runs."""

import os

from xmcap import terminal
from xmcap.commands import base
from xmcap.storage import outputs

_MOST_METRICS = 3  # that fit into a terminal


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "runs", _runs, "compare runs in a table, or on a page of their curves",
    "Reads MODEL_DIR/metrics.jsonl, also while a run is in progress.",
  )  # fmt: skip
  base.text(command, "dirs", "DIR", "a MODEL_DIR, or a folder of them", nargs="+", type=base.address)
  page = "write the curves to an HTML page, which needs neither server nor network"
  base.text(command, "--out", "FILE", page, "")


def _runs(arguments) -> None:
  from xmcap.runs import history, summary

  runs, left_out = history.read_runs(arguments.dirs)
  if arguments.out:
    read = [os.path.join(run.folder, history.FILE) for run in runs]
    outputs.keep_apart({"--out": arguments.out}, {"DIR": read})
  metrics = summary.metrics_of(runs)
  for line in left_out:
    base.say(f"xmcap: left out: {line}")
  print(summary.table(runs, metrics[:_MOST_METRICS]).text(arguments.out), end="")
  if (goodput := summary.goodput(runs)) is not None:
    print("\n" + goodput.text(arguments.out), end="")
  for run in runs:
    if run.torn:
      base.say(f"xmcap: {run.folder}: {run.torn} lines of metrics.jsonl could not be read")
    if run.state == "failed":
      print(terminal.shown(f"{run.name} failed: {run.reason}", limit=None))
  if metrics[_MOST_METRICS:]:
    others = ", ".join(metrics[_MOST_METRICS:])
    print(terminal.shown(f"also measured: {others} (see --out=FILE.html)", limit=None))
  if arguments.out:
    from xmcap.runs import page

    with outputs.held(arguments.out, arguments.prog, folder=False):
      page.write(arguments.out, runs, metrics, left_out)
    base.say(f"xmcap: wrote {arguments.out}")
