"""What `xmcap caption` and `xmcap tag` share: pictures go in, and texts in each language come out."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from xmcap import languages, terminal
from xmcap.commands import base
from xmcap.errors import XmcapError
from xmcap.files import outputs

Results = Iterator[tuple[str, Mapping[str, Any]]]
"""(key of a picture, {language: its caption or tags})."""


def add(command, noun: str) -> None:
  """Adds the options for where the results, such as `the tags`, go, and for the keys of pictures in them."""
  base.text(command, "--out", "FILE", f"write {noun} as JSONL", "", short="-o")
  base.flag(command, "--json", f"print {noun} as JSONL")
  kinds = "keys in the JSONL: as in data build folder (key), the file's name without suffix (stem), or its path (path)"
  base.text(command, "--keys", "KIND", kinds, "key", choices=("key", "stem", "path"))


def deliver(
  arguments, results: Results, lines: Callable[[Results], Iterator[str]], text: Callable[[Any], str], label: str,
  count: int,
) -> None:  # fmt: skip
  """Writes results to --out or, for --json, prints them, as `lines` makes them; else prints them by `text` for people.

  `label` says what is done with the `count` pictures, such as `pictures tagged`.
  """
  if arguments.out:
    from xmcap.files import files  # imports numpy

    with outputs.held(arguments.out, arguments.prog, folder=False):
      files.write_lines(arguments.out, lines(base.reporting(results, label, count)))
  elif arguments.json:
    for line in lines(results):
      terminal.check_reader()
      print(line, end="")
  else:
    for key, of_image in results:
      terminal.check_reader()
      print(terminal.shown(key, limit=None))
      for language, value in of_image.items():
        print(
          f"  {language:<4} {languages.get(language).english_name:<14} {terminal.shown(text(value), limit=None)}"
        )


def check_whole(broken: int, count: int) -> None:
  """Raises XmcapError if some of the pictures were left out."""
  if broken:
    raise XmcapError(f"{broken:,} of {count:,} pictures left out, see above: replace or remove them")
