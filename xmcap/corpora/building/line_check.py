"""Checks and cleans lines of captions."""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import regex

from xmcap.corpora.building.problems import MAX_CAPTION_BYTES, Problems
from xmcap.errors import UsageError
from xmcap.files import strict_json
from xmcap.scoring.health import scripts

_BOM = b"\xef\xbb\xbf"
_CONTROLS = regex.compile(r"\p{Cc}")
_LETTER = regex.compile(r"\p{L}")
_SPACES = re.compile(r"[\t\n\v\f\r\x85]")
_SHORT = MAX_CAPTION_BYTES // 4  # a caption of at most so many characters cannot have too many bytes


def filled(
  lines: Iterable[tuple[int, bytes]], name: str, problems: Problems
) -> Iterator[tuple[int, str, bytes]]:
  """Yields (number, place for messages, text) of the non-empty lines of the file `name`."""
  for number, line in lines:
    if not line.strip(b" \t\r\n"):
      continue
    where = f"{name}, line {number:,}"
    if number == 1 and line.startswith(_BOM):
      problems.add("bom", where)
      line = line[len(_BOM) :]
    if line.endswith((b"\r", b"\r\n")):
      problems.add("crlf", where)
    line = line.strip(b" \t\r\n")
    if line:
      yield number, where, line


def parse_object(line: bytes, where: str, problems: Problems) -> dict[str, Any] | None:
  """Parses a line that must be a JSON object; None if it is not, which counts as a problem."""
  try:
    return strict_json.parse_object(line, where)
  except UsageError as error:
    problems.add(kind_of(line), where, str(error).removeprefix(f"{where}: "))
    return None


def kind_of(line: bytes) -> str:
  """Returns the kind of problem for a line that is not a JSON object."""
  try:
    line.decode()
    msgspec.json.decode(line)
  except UnicodeDecodeError:
    return "bad_utf8"
  except (msgspec.DecodeError, RecursionError) as error:
    if line.startswith(b"{") and "truncated" in str(error):
      return "cut_line"
  return "not_json"


def usable(text: str, where: str, problems: Problems) -> str:
  """Returns the usable form of a caption; "" if it is too long or has no visible character.

  Line ends and tabs become spaces; other control characters are removed.
  """
  # A fast path for most captions; those with U+200C, which Persian uses, take the slow one.
  if text.isprintable() and len(text) <= _SHORT and text.strip():
    return text
  if not any(unicodedata.category(char)[0] not in "CZ" for char in text):
    problems.add("empty_caption", where)
    return ""
  if len(text) > _SHORT and len(text.encode("utf-8", "replace")) > MAX_CAPTION_BYTES:
    problems.add("long_caption", where, f"{len(text):,} characters")
    return ""
  if control := _CONTROLS.search(text):
    problems.add("control_characters", where, ascii(control[0]))
    text = _CONTROLS.sub("", _SPACES.sub(" ", text))
  return text


def has_letters(text: str, language: str, where: str, problems: Problems) -> bool:
  """Whether a caption has letters, or lost none; counts captions without a letter of their language's script.

  A program that saves a table in a code page writes `?` for each letter that the code page lacks, and letters of
  another script for a file that it opened in the wrong one.
  """
  own, letters = _letters(language)
  if own(text):
    return True
  if letters(text):
    problems.add("other_script", where, f"'{language}': {text}")
  elif "?" in text or "\ufffd" in text:
    problems.add("lost_letters", where, f"'{language}': {text}: save the table as `CSV UTF-8`")
    return False
  return True


@functools.cache
def _letters(language: str) -> tuple[Callable[[str], object], Callable[[str], object]]:
  """Returns searches for a letter of a language's scripts, and for one of any script."""
  own = "".join(rf"\p{{scx={script}}}" for script in scripts.scripts_of(language))
  return regex.compile(rf"[\p{{L}}&&[{own}]]", regex.V1).search, _LETTER.search
