"""`xmcap published`: recomputes published tables from the result files that their authors released."""

from xmcap.commands import base
from xmcap.storage import outputs


def add(commands) -> None:
  """Declares the command."""
  tables = base.add_group(commands, "published", "TABLES", "recompute published tables, and list deviations")
  command = base.add_command(
    tables, "babel-imagenet", _babel_imagenet, "Tables 2 and 8 to 12 of Babel-ImageNet, and its correlations",
    "Each cell that has a result file is recomputed and compared with the paper.",
  )  # fmt: skip
  results = "the folder 'results' of the paper's repository, with babel-imagenet/ and retrieval/"
  base.text(command, "--results", "DIR", results, required=True)
  base.text(
    command, "--out", "DIR", "folder for published.csv, with a row per cell, and published.md", short="-o"
  )


def _babel_imagenet(arguments) -> None:
  from xmcap.scoring.published import babel_imagenet

  found = babel_imagenet.recompute(arguments.results)
  if arguments.out:
    with outputs.held(arguments.out, arguments.prog):
      found.write(arguments.out)
  print(found.terminal(), end="")
