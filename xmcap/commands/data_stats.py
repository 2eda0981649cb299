"""`xmcap data stats`: captions, images, words, characters, replication and lengths of each language."""

from xmcap.commands import base


def add(actions) -> None:
  """Declares the command."""
  command = base.add_command(
    actions,
    "stats",
    _stats,
    "print captions, images, words, characters and replication for each language",
    "XM3600, COCO-35L and CC3M-35L are compared with their published figures.",
  )
  command.add_argument("dir", metavar="DIR", help="a built corpus, or a folder with captions.jsonl")
  command.add_argument(
    "--vocabulary", default="", metavar="PATH", help="a SentencePiece model: print lengths in its pieces, too"
  )
  command.add_argument(
    "--target_length",
    type=int,
    default=64,
    metavar="T",
    help="pieces at which a target is cut, with --vocabulary",
  )
  command.add_argument(
    "--published",
    default="",
    metavar="NAME",
    help="compare with xm3600, coco35l or cc3m35l, also where the folder does not name itself so",
  )
  base.add_processes(command)


def _stats(arguments) -> None:
  from xmcap.data import progress
  from xmcap.data.checking import statistics, statistics_tables

  found = statistics.statistics(
    arguments.dir,
    vocabulary=arguments.vocabulary,
    target_length=arguments.target_length,
    corpus=arguments.published,
    processes=arguments.processes,
    progress=progress.by_split(base.say, "images counted"),
  )
  print(statistics_tables.text(found))
