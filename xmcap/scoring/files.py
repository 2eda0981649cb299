"""Input and output files of scoring: reads JSONL, writes files atomically."""

import contextlib
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from xmcap import languages
from xmcap.errors import UsageError, XmcapError
from xmcap.scoring.inputs import MAX_LINE, Input
from xmcap.storage import files as storage_files
from xmcap.storage import outputs, whole_files
from xmcap.terminal import shown


def read_jsonl(path: str | os.PathLike, max_line: int = MAX_LINE) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields (line number from 1, object) of a JSONL file; UsageError as `Input` and `Input.rows`."""
  with Input(path, max_line) as source:
    yield from source.rows()


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a UTF-8 file atomically; within `outputs.together` it appears with the others.

  Raises:
    UsageError: the folder cannot be made.
    XmcapError: the file cannot be written, or the disk is full.
  """
  write_lines(path, (text,))


def write_forms(folder: str | os.PathLike, stem: str, **texts: str) -> None:
  """Writes several forms of a text together: `STEM.csv` for `csv=...` and so on. Raises as `write_text`."""
  with outputs.together(folder):
    for suffix, text in texts.items():
      write_text(pathlib.Path(folder, f"{stem}.{suffix}"), text)


def write_lines(path: str | os.PathLike, lines: Iterable[str]) -> None:
  """Writes pieces of text, which bring their own line ends, one by one; otherwise as `write_text`."""
  with whole(path) as file:
    file.writelines(line.encode("utf-8") for line in lines)


@contextlib.contextmanager
def whole(path: str | os.PathLike) -> Iterator[BinaryIO]:
  """Opens a file to write bytes to; otherwise as `write_text`."""
  path = pathlib.Path(path)
  storage_files.make_folder(path.parent)
  with storage_files.whole(path) as file:
    yield file


def remove(path: str | os.PathLike) -> None:
  """Removes a file if it exists, within `outputs.together` at its end; XmcapError if it cannot be removed."""
  try:
    whole_files.remove(path)
  except OSError as error:
    raise XmcapError(
      f"{path}: cannot be removed ({error.strerror or error}); remove it or choose another folder"
    ) from error


def first_few(items: Sequence[str]) -> str:
  """Returns the first three items, separated by commas, for a message."""
  return ", ".join(map(shown, items[:3])) + (", ..." if len(items) > 3 else "")


def count(number: int, noun: str) -> str:
  """Returns a count with its noun, such as `1 prediction` or `2,000 predictions`."""
  return f"{number:,} {noun}{'' if number == 1 else 's'}"


def check_language(code: str, where: str) -> None:
  """Raises UsageError, with the place and the nearest code, if a code in a file is not a language."""
  if not languages.is_known(code):
    raise UsageError(f"{where}: {unknown_language(code)}")


def unknown_language(code: str) -> str:
  """Returns the message about an unknown language code; it suggests the nearest one."""
  try:
    languages.get(shown(code, limit=20))
  except UsageError as error:
    return str(error)
  return f"unknown language '{shown(code)}'"
