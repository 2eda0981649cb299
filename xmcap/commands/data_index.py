"""`xmcap data index`: counts the pieces of every caption, which batches of several target lengths need."""

import contextlib
import os
import time

from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.storage import outputs

_WHAT = "lengths counted of records"


def add(actions) -> None:
  """Declares the command."""
  command = base.add_command(
    actions,
    "index",
    _index,
    "write the index of caption lengths, which CaptionStream.target_lengths needs",
    "Reads every record once. `xmcap data build` with a vocabulary writes it too.",
  )
  command.add_argument("dir", metavar="DIR", help="a built corpus")
  command.add_argument(
    "--vocabulary",
    default="",
    metavar="PATH",
    help="the SentencePiece model of the runs; default: vocabulary.model in DIR",
  )
  command.add_argument(
    "--splits", default="", metavar="NAME,...", help="splits of DIR, with commas between; default: all"
  )
  base.add_processes(command)


def _index(arguments) -> None:
  from xmcap.data import lengths, progress, records
  from xmcap.data.vocabulary import Vocabulary
  from xmcap.storage import addresses

  path = arguments.vocabulary or addresses.join(arguments.dir, "vocabulary.model")
  if not arguments.vocabulary and not addresses.is_file(path):
    raise UsageError(f"{arguments.dir} holds no vocabulary.model: name one with --vocabulary=PATH")
  splits = arguments.splits.split(",") if arguments.splits else records.splits(arguments.dir)
  if not splits:
    raise UsageError(f"{arguments.dir} is no corpus (dataset_info.json is absent): build one")
  began = time.monotonic()
  with contextlib.ExitStack() as stack:
    if os.path.isdir(arguments.dir):
      stack.enter_context(outputs.held(arguments.dir, arguments.prog, "DIR"))
    said = progress.by_split(base.say, _WHAT)
    captions = lengths.write(
      arguments.dir, Vocabulary(path), splits, processes=arguments.processes, progress=said
    )
  rate = sum(captions.values()) / (time.monotonic() - began)
  counts = ", ".join(f"{count:,} in {split}" for split, count in captions.items())
  print(f"{arguments.dir}/lengths: pieces of the captions, {counts} ({rate:,.0f} a second), for {path}")


def write_absent(directory, vocabulary, splits, processes) -> None:
  """Writes the index of those of the splits of a corpus that have none."""
  from xmcap.data import lengths, progress

  said = progress.by_split(base.say, _WHAT)
  lengths.write_absent(directory, vocabulary, splits, processes=processes, progress=said)
