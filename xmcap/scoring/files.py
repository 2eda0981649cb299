"""Files of captions and of scores: read line by line, written whole or not at all."""

import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from xmcap import languages
from xmcap.errors import UsageError, XmcapError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_jsonl(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields (line number from 1, object) of a JSONL file, in constant memory; empty lines are passed over.

  Raises:
    UsageError: the file cannot be read, or a line is not UTF-8, not JSON, not an object, names one
      member twice, or holds half a surrogate pair; the message names file and line.
  """
  try:
    with open(path, "rb") as file:
      for number, raw in enumerate(file, 1):
        if raw.strip():
          yield number, _parse(raw, f"{path}, line {number}")
  except OSError as error:
    raise UsageError(f"{path}: cannot be read ({error.strerror or error})") from error


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a text file in UTF-8 so that a reader sees the old one or the whole new one.

  Raises:
    XmcapError: the folder cannot be made or written, or the disk is full.
  """
  write_lines(path, (text,))


def write_lines(path: str | os.PathLike, lines: Iterable[str]) -> None:
  """Writes pieces of text (each with its own line ends) as they come; else as `write_text`."""
  path = pathlib.Path(path)
  temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
      with open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
      os.replace(temporary, path)
    finally:
      temporary.unlink(missing_ok=True)
  except OSError as error:
    raise XmcapError(
      f"{path}: cannot be written ({error.strerror or error}); free space or choose another folder"
    ) from error


def shown(text: str, limit: int = 60) -> str:
  """Returns a text from a file as an error message can hold it: one line, and not too long."""
  text = text if len(text) <= limit else f"{text[:limit]}..."
  return text if text.isprintable() else ascii(text)


def check_language(code: str, where: str) -> None:
  """Checks a language code found in a file.

  Raises:
    UsageError: it is none of the 36; the message names the place and the nearest code.
  """
  if code not in languages.LANGUAGES:
    try:
      languages.get(shown(code, limit=20))
    except UsageError as error:
      raise UsageError(f"{where}: {error}") from None


class _RepeatedMember(Exception):
  """A JSON object that names a member twice; its argument is the name."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  members = dict(pairs)
  if len(members) < len(pairs):
    names: set[str] = set()
    for name, _ in pairs:
      if name in names:
        raise _RepeatedMember(name)
      names.add(name)
  return members


# Made once: `json.loads` with a hook would make a decoder for each line.
_DECODER = json.JSONDecoder(object_pairs_hook=_members)


def _parse(raw: bytes, where: str) -> dict[str, Any]:
  if raw.startswith(_BYTE_ORDER_MARK):
    raise UsageError(f"{where}: starts with a byte order mark; save the file as UTF-8 without one")
  try:
    line = raw.decode("utf-8").rstrip("\r\n")
  except UnicodeDecodeError as error:
    raise UsageError(
      f"{where}: not UTF-8 (byte 0x{raw[error.start]:02x} at column {error.start + 1}); "
      "convert the file to UTF-8"
    ) from error

  try:
    value = _DECODER.decode(line)
    if "\\u" in line:
      # JSON can spell half a surrogate pair, which no file can hold; found here, it has a line number.
      json.dumps(value, ensure_ascii=False).encode("utf-8")
  except _RepeatedMember as error:
    raise UsageError(f"{where}: names '{shown(str(error))}' twice in one object; keep one") from None
  except json.JSONDecodeError as error:
    raise UsageError(
      f"{where}: broken JSON ({error.msg} at column {error.colno}); mend or remove the line"
    ) from error
  except UnicodeEncodeError as error:
    raise UsageError(
      f"{where}: half a surrogate pair (\\u{ord(error.object[error.start]):04x}); write the whole character"
    ) from error
  except (ValueError, RecursionError) as error:
    raise UsageError(
      f"{where}: JSON that cannot be read (nested too deeply, or a number too long); mend or remove the line"
    ) from error
  if not isinstance(value, dict):
    raise UsageError(f"{where}: not a JSON object; each line must be one {{...}}")
  return value
