"""Input and output files of scoring: reads JSONL, writes files atomically."""

import contextlib
import difflib
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, TypeVar

import msgspec

from xmcap import languages
from xmcap.errors import UsageError, XmcapError
from xmcap.files import files as storage_files
from xmcap.files import outputs, whole_files
from xmcap.scoring.reading.inputs import MAX_LINE, Input
from xmcap.terminal import shown

T = TypeVar("T")


def read_jsonl(path: str | os.PathLike, max_line: int = MAX_LINE) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields (line number from 1, object) of a JSONL file; UsageError as `Input` and `Input.rows`."""
  with Input(path, max_line) as source:
    yield from source.rows()


def read_document(path: str | os.PathLike, kind: type[T], problem: str, hint: str) -> T:
  """Returns the JSON value of a file as `kind`; UsageError with problem and hint if it has another structure."""
  with Input(path) as source:
    return convert(source.document(), kind, path, problem, hint)


def convert(content: Any, kind: type[T], path: str | os.PathLike, problem: str, hint: str) -> T:
  """Does the same as `read_document` for a value that was read from a file."""
  try:
    return msgspec.convert(content, kind)
  except msgspec.ValidationError as error:
    raise UsageError(f"{path}: {problem} ({shown(error)}); {hint}") from None


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
    file.writelines(encoded(line, str(path)) for line in lines)


def encoded(text: str, where: str) -> bytes:
  """Encodes a text that is written; UsageError for a lone surrogate, which a caller may pass and UTF-8 cannot hold."""
  try:
    return text.encode("utf-8")
  except UnicodeEncodeError as error:
    around = shown(error.object[max(0, error.start - 20) : error.end + 20])
    raise UsageError(f"{where}: a text holds a lone surrogate ('{around}'): give whole characters") from None


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
    raise XmcapError(f"{path}: cannot be removed ({error.strerror or error}); remove it yourself") from error


def first_few(items: Sequence[str]) -> str:
  """Returns the first three items, separated by commas, for a message."""
  return ", ".join(map(shown, items[:3])) + (", ..." if len(items) > 3 else "")


def count(number: int, noun: str) -> str:
  """Returns a count with its noun, such as `1 prediction` or `2,000 predictions`."""
  return f"{number:,} {noun}{'' if number == 1 else 's'}"


def check_counts(number: int, noun: str, wanted: int, of: str) -> None:
  """Raises UsageError if there is not one `noun` for each `of`."""
  if number != wanted:
    raise UsageError(f"{count(number, noun)} for {count(wanted, of)}; give one for each")


def unknown_name(noun: str, name: str, known: Collection[str]) -> UsageError:
  """Returns the error about a name that is not known; it suggests the nearest one."""
  nearest = difflib.get_close_matches(name.lower(), known, n=1)
  hint = f"did you mean '{nearest[0]}'? There are" if nearest else "there are"
  return UsageError(f"unknown {noun} '{shown(name)}'; {hint}: {', '.join(known)}")


def check_language(code: str, where: str) -> None:
  """Raises UsageError, with the place and the nearest code, if a code in a file is not a language."""
  if not languages.is_known(code):
    raise UsageError(f"{where}: {unknown_language(code)}")


def by_code(
  named: Iterable[tuple[str, T]],
  where: str | os.PathLike,
  code_of: Callable[[str], str | None] = languages.canonical,
) -> dict[str, T]:
  """Returns language code -> value, given values by code or alias (`TL` for fil), which `code_of` reads.

  Raises:
    UsageError: a language is unknown, or occurs twice.
  """
  found: dict[str, T] = {}
  for name, value in named:
    code = code_of(name)
    if code is None:
      raise UsageError(f"{where}: {unknown_language(name)}")
    if code in found:
      raise UsageError(f"{where}: the language '{code}' occurs twice; keep one")
    found[code] = value
  return found


def choose(
  by_language: dict[str, T], codes: Sequence[str] | None, where: str | os.PathLike, noun: str
) -> dict[str, T]:
  """Returns the chosen languages, or all if none are named; UsageError if one of them is absent."""
  absent = [code for code in codes or () if code not in by_language]
  if absent:
    raise UsageError(f"{where}: no {noun} in {', '.join(absent)}; leave the language out")
  return {code: by_language[code] for code in codes or by_language}


def unknown_language(code: str) -> str:
  """Returns the message about an unknown language code; it suggests the nearest one."""
  try:
    languages.get(shown(code, limit=20))
  except UsageError as error:
    return str(error)
  return f"unknown language '{shown(code)}'"
