"""The commands that build corpora and look at them."""

import sys

from xmcap.commands import base, data_build, data_check, data_index, data_stats
from xmcap.storage import outputs


def add(commands) -> None:
  """Declares the commands."""
  data = commands.add_parser("data", help="build corpora and look at them", allow_abbrev=False)
  actions = data.add_subparsers(metavar="ACTION", required=True, parser_class=base.Parser)
  build = actions.add_parser("build", help="build a corpus", allow_abbrev=False)
  corpora = build.add_subparsers(metavar="CORPUS", required=True, parser_class=base.Parser)
  _add_emoji36(corpora)
  data_build.add(corpora)
  data_check.add(actions)
  data_index.add(actions)
  data_stats.add(actions)


def _add_emoji36(corpora) -> None:
  command = base.add_command(
    corpora,
    "emoji36",
    _build_emoji36,
    "pictures of emoji with captions in 36 languages, made on this machine",
    "Names come from Unicode CLDR, pictures from Noto Color Emoji.",
  )
  command.add_argument("--out", required=True, metavar="DIR", help="folder of the corpus")
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
  base.add_processes(command)
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
  command.add_argument("--cache", metavar="DIR", help="folder for fetched packages")


def _build_emoji36(arguments) -> None:
  import pathlib

  from xmcap.data import vocabulary
  from xmcap.data.corpora.emoji import emoji36

  options = {
    name: value
    for name, value in vars(arguments).items()
    if name not in ("run", "options", "overrides", "prog", "hands_words_on", "vocabulary_size")
  }
  outputs.keep_apart({"--out": arguments.out}, {"--cache": arguments.cache})
  with outputs.held(arguments.out, arguments.prog):
    out = emoji36.build(**options, progress=base.say)
    model = pathlib.Path(out, "vocabulary.model")
    if not model.exists():
      # Pieces may span words: the names of emoji recur whole, and targets become half as long.
      trained = vocabulary.train_vocabulary(
        out / "vocabulary_text.txt", model, arguments.vocabulary_size, span_words=True
      )
      print(f"vocabulary: {trained.size:,} pieces", file=sys.stderr)
    data_index.write_absent(out, vocabulary.Vocabulary(model), ("train", "validation"), arguments.processes)
  print(f"{out}: emoji36 is ready")
