"""The command `xmcap`: parses arguments, calls one function a subcommand, and words the errors.

Nothing heavy is imported here: each subcommand imports what it needs when it is called, so that
`xmcap --help` answers at once and `xmcap score` needs neither jax nor tensorflow.
Exit codes: 0 done, 1 a run that failed, 2 bad usage.
"""

import argparse
import difflib
import errno
import os
import sys

from xmcap import __version__
from xmcap.errors import UsageError, XmcapError


class _Parser(argparse.ArgumentParser):
  """argparse, but a wrong call is one line that says what to do."""

  def error(self, message):
    raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: list[str] | None = None) -> int:
  """Runs the command; returns its exit code."""
  argv = sys.argv[1:] if argv is None else argv
  try:
    arguments, rest = _parser().parse_known_args(argv)
    arguments.overrides = _overrides(arguments, rest, argv)
    arguments.run(arguments)
  except XmcapError as error:
    # Gin adds the chain of configurables that called; what is wrong stands before it.
    line = str(error).split("\n  In call to configurable")[0]
    print(f"xmcap: error: {line}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1
  except BrokenPipeError:
    # The reader of the output (head, less) has gone; there is nobody left to tell.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
  except OSError as error:
    if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EPERM):
      raise
    place = error.filename or "the output folder"
    print(
      f"xmcap: error: {place}: {error.strerror}: free or change the place and start again", file=sys.stderr
    )
    return 1
  except KeyboardInterrupt:
    print("xmcap: stopped by the keyboard", file=sys.stderr)
    return 130
  return 0


def _overrides(arguments, rest: list[str], argv: list[str]) -> list[str]:
  """Returns the `NAME=VALUE` of `--gin.NAME=VALUE`; anything else left over is an error."""
  takes_gin = hasattr(arguments, "gin_file")
  overrides = []
  for word in rest:
    if takes_gin and word.startswith("--gin."):
      overrides.append(word.removeprefix("--gin."))
      continue
    command = " ".join(part for part in argv[:2] if not part.startswith("-"))
    nearest = difflib.get_close_matches(word.split("=")[0], arguments.options, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise UsageError(f"xmcap {command}: unknown argument {word}{hint} (see xmcap {command} --help)")
  return overrides


def _parser() -> argparse.ArgumentParser:
  parser = _Parser(
    prog="xmcap",
    description="Image captioning in 36 languages: trains captioners and measures them.",
    epilog="Each command has its own --help. Documentation: README.md and docs/.",
    allow_abbrev=False,
  )
  parser.add_argument("--version", action="version", version=f"xmcap {__version__}")
  commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
  _add_train(commands)
  _add_eval(commands)
  _add_caption(commands)
  _add_score(commands)
  _add_data(commands)
  return parser


def _add_command(commands, name: str, run, summary: str, details: str = "") -> argparse.ArgumentParser:
  command = commands.add_parser(
    name,
    help=summary,
    description=f"{summary[0].upper()}{summary[1:]}. {details}".strip(),
    allow_abbrev=False,
    formatter_class=argparse.ArgumentDefaultsHelpFormatter,
  )
  command.set_defaults(run=run, options=command._option_string_actions)
  return command


def _add_gin(command) -> None:
  group = command.add_argument_group("configuration")
  group.add_argument(
    "--gin_file", action="append", default=[], metavar="FILE", help="a gin file; later ones win (repeatable)"
  )
  group.add_argument(
    "--gin_search_paths", default="", metavar="DIRS", help="folders to look gin files up in, comma separated"
  )
  group.add_argument("--gin.NAME", metavar="VALUE", dest="_", help="override one binding (repeatable)")
  group.add_argument("--explain", action="store_true", help="print the resolved configuration and exit")


def _explained(arguments) -> bool:
  """Prints the resolved configuration if that is all that was asked for; returns whether it was."""
  if arguments.explain:
    from xmcap import configuration

    print(configuration.explain())
  return arguments.explain


def _search_paths(arguments) -> list[str]:
  return [path for path in arguments.gin_search_paths.split(",") if path]


def _add_train(commands) -> None:
  command = _add_command(
    commands, "train", _train, "train a model as gin files say", "Started again, a run goes on where it was."
  )
  _add_gin(command)


def _train(arguments) -> None:
  if not arguments.gin_file:
    raise UsageError(
      "xmcap train needs gin files, such as --gin_file=models/tiny.gin --gin_file=data/emoji36.gin"
      " --gin_file=runs/train.gin"
    )
  from xmcap import configuration

  configuration.parse(arguments.gin_file, arguments.overrides, _search_paths(arguments))
  if _explained(arguments):
    return
  from xmcap import model_dir
  from xmcap.training import loop

  model_dir.prepare_model_dir()
  loop.train()


def _add_eval(commands) -> None:
  command = _add_command(
    commands, "eval", _eval, "decode a split with a trained model and score it in each language"
  )
  command.add_argument(
    "--model_dir", required=True, metavar="DIR", help="the folder that a training run wrote"
  )
  _add_gin(command)


def _eval(arguments) -> None:
  from xmcap import model_dir

  files = arguments.gin_file or ["runs/eval.gin"]
  model_dir.parse(arguments.model_dir, files, arguments.overrides, _search_paths(arguments))
  if _explained(arguments):
    return
  model_dir.evaluate()


def _add_caption(commands) -> None:
  command = _add_command(commands, "caption", _caption, "caption pictures in the languages asked for")
  command.add_argument(
    "--model_dir", required=True, metavar="DIR", help="the folder that a training run wrote"
  )
  command.add_argument(
    "--languages", default="en", metavar="CODES", help="codes such as en,th,ar; all; trained"
  )
  command.add_argument("--json", action="store_true", help="print predictions as JSONL")
  command.add_argument(
    "--step", type=int, metavar="N", help="the checkpoint to use; default: the best or newest"
  )
  command.add_argument("images", nargs="+", metavar="IMAGE", help="JPEG or PNG files")


def _caption(arguments) -> None:
  from xmcap import languages

  codes = languages.parse(arguments.languages)
  from xmcap import model_dir

  model_dir.caption_files(arguments.model_dir, arguments.images, codes, arguments.json, arguments.step)


def _add_score(commands) -> None:
  command = _add_command(
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


def _add_data(commands) -> None:
  data = commands.add_parser("data", help="build corpora and look at them", allow_abbrev=False)
  actions = data.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
  build = actions.add_parser("build", help="build a corpus", allow_abbrev=False)
  corpora = build.add_subparsers(metavar="CORPUS", required=True, parser_class=_Parser)
  _add_emoji36(corpora)
  stats = _add_command(
    actions, "stats", _data_stats, "print captions, words and characters for each language"
  )
  stats.add_argument("dir", metavar="DIR", help="a built corpus")


def _data_stats(arguments) -> None:
  from xmcap.data import statistics

  print(statistics.statistics(arguments.dir))


def _add_emoji36(corpora) -> None:
  command = _add_command(
    corpora,
    "emoji36",
    _build_emoji36,
    "pictures of emoji with captions in 36 languages, made on this machine",
    "Names come from Unicode CLDR, pictures from Noto Color Emoji.",
  )
  command.add_argument("--out", required=True, metavar="DIR", help="where the corpus goes")
  for name, default, text in (
    ("num_emoji", 60, "classes"),
    ("num_train", 120_000, "training pictures"),
    ("num_validation", 600, "validation pictures"),
    ("num_test", 3_600, "test pictures"),
    ("image_size", 64, "side of the pictures in pixels"),
    ("seed", 0, "of everything that is drawn by chance"),
    ("vocabulary_size", 4_500, "pieces of the SentencePiece model trained on the captions"),
  ):
    command.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)
  command.add_argument("--processes", type=int, metavar="N", help="processes that draw; default: one a core")
  command.add_argument(
    "--difficulty",
    default="medium",
    metavar="NAME",
    help="easy, medium or hard: a preset of the options below",
  )
  for name, text in (
    ("min_size", "smallest emoji, as a share of the picture's side"),
    ("max_size", "largest emoji"),
    ("jitter", "0: in their places; 1: anywhere"),
    ("overlap", "how far emoji may cover one another"),
    ("contrast", "of the background's colours"),
  ):
    command.add_argument(f"--{name}", type=float, metavar="X", help=text)
  command.add_argument("--background", metavar="NAME", help="plain, gradient, noise or mixed")
  command.add_argument(
    "--source", default="auto", metavar="WAY", help="of names and pictures: installed, debian, npm, or auto"
  )
  command.add_argument("--cache", metavar="DIR", help="where fetched packages are kept")


def _build_emoji36(arguments) -> None:
  import pathlib

  from xmcap.data import vocabulary
  from xmcap.data.corpora import emoji36

  options = {
    name: value
    for name, value in vars(arguments).items()
    if name not in ("run", "options", "overrides", "vocabulary_size")
  }
  out = emoji36.build(**options, progress=lambda line: print(line, file=sys.stderr))
  model = pathlib.Path(out, "vocabulary.model")
  if not model.exists():
    # Pieces may span words: the names of emoji recur whole, and targets become half as long.
    trained = vocabulary.train_vocabulary(
      out / "vocabulary_text.txt", model, arguments.vocabulary_size, span_words=True
    )
    print(f"vocabulary: {trained.size:,} pieces", file=sys.stderr)
  print(f"{out}: emoji36 is ready")


if __name__ == "__main__":
  sys.exit(main())
