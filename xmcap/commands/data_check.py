"""The commands that look at a built corpus: data check, data show."""

import contextlib
import os

from xmcap.commands import base
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import outputs

_SHOW_DEFAULTS = {"captions_per_image": 4, "image_size": 224, "target_length": 64, "seed": 0}
_STREAM_OPTIONS = ("split", "languages", "vocabulary", *_SHOW_DEFAULTS)


def add(actions) -> None:
  """Declares the commands under `xmcap data`."""
  _add_check(actions)
  _add_show(actions)


def _add_check(actions) -> None:
  command = base.add_command(
    actions,
    "check",
    _check,
    "read every record, decode every picture, look at every caption",
    "Exits 1 if a record cannot be used.",
  )
  command.add_argument("dir", metavar="DIR", help="a built corpus")
  command.add_argument(
    "--split",
    action="append",
    default=[],
    metavar="NAME",
    help="a split, or a part such as train[:1000] (repeatable); default: all",
  )
  command.add_argument(
    "--out",
    metavar="DIR",
    help="folder for check.json and check.jsonl, the list; default: the corpus's folder",
  )
  command.add_argument(
    "--max_characters", type=int, default=500, metavar="N", help="longer captions are counted"
  )
  base.add_processes(command)


def _check(arguments) -> None:
  import pathlib

  from xmcap.data import progress
  from xmcap.data.checking import check

  with contextlib.ExitStack() as stack:
    if arguments.out or os.path.isdir(arguments.dir):
      stack.enter_context(outputs.held(arguments.out or arguments.dir, arguments.prog))
    found = check.check(
      arguments.dir,
      out=arguments.out,
      splits=arguments.split,
      max_characters=arguments.max_characters,
      processes=arguments.processes,
      progress=progress.by_split(base.say, "records checked"),
    )
  listed = pathlib.Path(arguments.out or arguments.dir, "check.jsonl")
  pictures, bad = sum(split.pictures for split in found), sum(split.bad for split in found)
  print(*found, f"{pictures:,} records checked; each find is in {listed}", sep="\n\n")
  if bad:
    raise XmcapError(
      f"{arguments.dir}: {bad:,} of {pictures:,} records cannot be used ({listed} names them): build it again"
    )


def _add_show(actions) -> None:
  command = base.add_command(
    actions,
    "show",
    _show,
    "write a contact sheet: examples as the model sees them",
    "Of a built corpus, or of the stream that the gin files of a run configure.",
  )
  command.add_argument("dir", metavar="DIR", nargs="?", help="a built corpus; none with --gin_file")
  command.add_argument("--out", required=True, metavar="FILE", help="the sheet, an HTML file")
  command.add_argument("--count", type=int, default=24, metavar="N", help="pictures on it")
  command.add_argument(
    "--step", type=int, default=0, metavar="N", help="which batch, where a batch is the pictures of a sheet"
  )
  group = command.add_argument_group("the stream", "With --gin_file the configuration gives these.")
  group.add_argument("--split", metavar="NAME", help="default: train, or the first that there is")
  group.add_argument("--captions_per_image", type=base.positive, metavar="K", help="default: 4")
  group.add_argument("--image_size", type=base.positive, metavar="N", help="pixels; default: 224")
  group.add_argument("--target_length", type=base.positive, metavar="T", help="pieces; default: 64")
  group.add_argument("--languages", metavar="CODES", help="such as en,th,ar; default: all that it has")
  group.add_argument("--vocabulary", metavar="PATH", help="default: vocabulary.model in DIR")
  group.add_argument("--seed", type=int, metavar="N", help="default: 0")
  base.add_gin(command)


def _show(arguments) -> None:
  if arguments.dir and arguments.dir.startswith("--gin."):
    # argparse takes a word that holds a space for the folder.
    arguments.overrides.append(arguments.dir.removeprefix("--gin."))
    arguments.dir = None
  given = {name: getattr(arguments, name) for name in _STREAM_OPTIONS if getattr(arguments, name) is not None}
  if bool(arguments.gin_file) == bool(arguments.dir):
    raise UsageError("xmcap data show needs either a corpus, DIR, or the gin files of a run, --gin_file=FILE")
  if arguments.gin_file and given:
    name = next(iter(given))
    raise UsageError(f"--{name} goes with DIR; with --gin_file write --gin.CaptionStream.{name}=VALUE")
  if arguments.overrides and not arguments.gin_file:
    raise UsageError(f"--gin.{arguments.overrides[0]} goes with --gin_file")
  if arguments.step < 0:
    raise UsageError(f"--step={arguments.step}: steps count from 0")
  if arguments.gin_file:
    from xmcap import configuration

    configuration.parse(base.gin_files(arguments), arguments.overrides, base.search_paths(arguments))
    if base.explained(arguments):
      return
  from xmcap.data.checking import show, show_page

  outputs.keep_apart(
    {"--out": arguments.out}, {"--gin_file": arguments.gin_file, "--vocabulary": arguments.vocabulary}
  )
  if arguments.gin_file:
    stream = show.configured_stream()
  else:
    stream = show.stream_of(arguments.dir, count=arguments.count, **{**_SHOW_DEFAULTS, **given})
  directory = stream.source.directory
  of_corpus = [entry.path for entry in os.scandir(directory)] if os.path.isdir(directory) else []
  outputs.keep_apart({"--out": arguments.out}, {"DIR": of_corpus})
  shown = show.examples(stream, arguments.step, arguments.count)
  title = f"{os.path.basename(os.path.abspath(directory))}, split {stream.source.split}"
  with outputs.held(arguments.out, arguments.prog, folder=False):
    show_page.write_sheet(
      arguments.out, shown, title, show.facts(stream, arguments.step), stream.target_lengths[-1]
    )
  print(f"{arguments.out}: {len(shown):,} pictures")
