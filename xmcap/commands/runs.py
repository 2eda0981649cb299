"""`xmcap runs`: shows the metrics of runs."""

from xmcap import terminal
from xmcap.commands import base


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "runs", _runs, "compare runs in a table",
    "Reads MODEL_DIR/metrics.jsonl, also while a run is in progress. TensorBoard shows the curves.",
  )  # fmt: skip
  base.text(command, "dirs", "DIR", "a MODEL_DIR, or a folder of them", nargs="+", type=base.address)


def _runs(arguments) -> None:
  from xmcap.training.reporting import history, summary

  runs, left_out = history.read_runs(arguments.dirs)
  for line in left_out:
    base.say(f"xmcap: left out: {line}")
  print(summary.table(runs).text(), end="")
  if (goodput := summary.goodput(runs)) is not None:
    print("\n" + goodput.text(), end="")
  for run in runs:
    if run.xla_flags:
      print(terminal.shown(f"{run.name} has the XLA flags {run.xla_flags}", limit=None))
    if run.torn:
      base.say(f"xmcap: {run.folder}: {run.torn} lines of metrics.jsonl could not be read")
    if run.state == "failed":
      print(terminal.shown(f"{run.name} failed: {run.reason}", limit=None))
