"""The command that scores captions."""

from xmcap.commands import base


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands,
    "score",
    _score,
    "score predictions against references: CIDEr for each language",
    "Writes table.csv, table.json, table.md, table.tex and report.html.",
  )
  command.add_argument(
    "--references", required=True, metavar="FILE", help="captions.jsonl in the XM3600 layout"
  )
  command.add_argument(
    "--predictions", required=True, metavar="FILE", help='JSONL of {"image/key", "language", "caption"}'
  )
  command.add_argument("--out", required=True, metavar="DIR", help="where the tables and the report go")
  command.add_argument(
    "--languages", default="", metavar="CODES", help="only these; default: all in the files"
  )
  command.add_argument(
    "--images", default="", metavar="DIR", help="KEY.jpg or KEY.png for the report's gallery"
  )


def _score(arguments) -> None:
  from xmcap import languages, scoring

  codes = languages.parse(arguments.languages) if arguments.languages else None
  table = scoring.score_files(
    arguments.references,
    arguments.predictions,
    arguments.out,
    languages=codes,
    images_dir=arguments.images or None,
  )
  print(table.terminal())
