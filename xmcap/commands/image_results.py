"""What `xmcap caption` and `xmcap tag` share: pictures go in, and texts in each language come out."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from xmcap import languages, terminal
from xmcap.commands import base
from xmcap.errors import XmcapError
from xmcap.files import outputs

Results = Iterator[tuple[str, Mapping[str, Any]]]
"""(key of a picture, {language: its caption or tags})."""


def add(command, noun: str, forms: Mapping[str, str]) -> None:
  """Adds the options for where the results, such as `the tags`, go, and for the keys of pictures in them.

  `forms` has the endings of --out, and what each means.
  """
  listed = ", ".join(f"{ending} {what}" for ending, what in forms.items())
  base.text(command, "--out", "FILE", f"write {noun}: {listed}", "", short="-o", endings=tuple(forms))
  base.flag(command, "--json", f"print {noun} as JSONL")
  kinds = (
    "keys of the pictures: as in data build folder (key), the name without suffix (stem), or the path (path)"
  )
  base.text(command, "--keys", "KIND", kinds, "key", choices=("key", "stem", "path"))


def deliver(
  arguments, results: Results, forms: Mapping[str, Callable[[Results], Iterator[str]]], text: Callable[[Any], str],
  label: str, count: int,
) -> None:  # fmt: skip
  """Writes results to --out in the form of its ending or, for --json, prints JSONL; else prints them for people.

  Args:
    forms: ending -> function that makes the pieces of text of the results.
    text: of a picture's results in a language, for people.
    label: what is done with the `count` pictures, such as `pictures tagged`.
  """
  if arguments.out:
    from xmcap.files import files  # imports numpy

    lines = next(form for ending, form in forms.items() if arguments.out.lower().endswith(ending))
    with outputs.held(arguments.out, arguments.prog, folder=False):
      files.write_lines(arguments.out, lines(base.reporting(results, label, count)))
  elif arguments.json:
    for line in forms[".jsonl"](results):
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
