"""JSON as its standard has it, with errors for people: no NaN, no repeated names, no half characters."""

import collections
import json
import re
from collections.abc import Iterator
from typing import Any

from xmcap.errors import UsageError
from xmcap.terminal import shown

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_FILLED = re.compile(rb"\S[^\n]*")


def parse(raw: bytes, where: str) -> Any:
  """The value of a line or a whole file of JSON; `where`, the file and the line, begins the messages.

  UsageError where it is not UTF-8, not JSON (NaN and Infinity are not), names a member of an object twice, or holds
  half a surrogate pair.
  """
  text = decode(raw, where)
  try:
    value = _DECODER.decode(text)
    if _SURROGATE.search(text):
      # JSON can spell half a surrogate pair, which no file can hold; found here, it has a place.
      json.dumps(value, ensure_ascii=False).encode("utf-8")
  except json.JSONDecodeError as error:
    what = f"{error.msg.removesuffix(' at')} at {_place(text, error.pos)}"
    raise UsageError(f"{where}: broken JSON ({what}); mend or remove it") from error
  except UnicodeEncodeError as error:
    half = f"\\u{ord(error.object[error.start]):04x}"
    raise UsageError(f"{where}: half a surrogate pair ({half}); write the whole character") from error
  except _RefusedError as error:
    raise UsageError(f"{where}: {error}") from None
  except (ValueError, RecursionError) as error:
    raise UsageError(
      f"{where}: JSON that cannot be read (nested too deeply, or a number too long); mend or remove it"
    ) from error
  return value


def parse_object(raw: bytes, where: str) -> dict[str, Any]:
  """As `parse`, of a line that must be an object."""
  value = parse(raw, where)
  if not isinstance(value, dict):
    raise UsageError(f"{where}: not a JSON object; each line must be one {{...}}")
  return value


def parse_lines(block: bytes, where: str, before: int) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields (line number, object) of whole lines of JSON; empty ones are passed over.

  The same as `parse_object` of each line, and twice as fast. `before` lines of the file `where` stand before these.
  """
  try:
    text = block.decode("utf-8")
  except UnicodeDecodeError:
    text = ""
  number, start = before, 0
  if text and not ("\\" in text and _SURROGATE.search(text)):
    # One call a line on the text of them all. What is not one object from the first character of its line
    # to the last is left to the careful reading below, which words the errors.
    while start < len(text):
      end = text.find("\n", start)
      end = len(text) if end < 0 else end
      try:
        value, stop = _DECODER.raw_decode(text, start)
      except (ValueError, RecursionError):
        break
      if not isinstance(value, dict) or (stop != end and (stop > end or text[stop:end].strip(" \t\r"))):
        break
      number += 1
      start = end + 1
      yield number, value
  rest = text[start:].encode("utf-8") if start else block
  for place, raw in filled_lines(rest, number):
    yield place, parse_object(raw, f"{where}, line {place}")


def filled_lines(block: bytes, before: int) -> Iterator[tuple[int, bytes]]:
  """Yields (line number, line without its end) of the lines that hold more than white space; `before` stand before.

  Empty lines cost nothing: a small archive may hold a thousand million of them.
  """
  number, counted = before + 1, 0
  for found in _FILLED.finditer(block):
    number += block.count(b"\n", counted, found.start())
    counted = found.start()
    yield number, block[block.rfind(b"\n", 0, counted) + 1 : found.end()]


def decode(raw: bytes, where: str) -> str:
  """Bytes as UTF-8; UsageError with the place of the first that are not."""
  if raw.startswith(_BYTE_ORDER_MARK):
    raise UsageError(f"{where}: starts with a byte order mark; save the file as UTF-8 without one")
  try:
    return raw.decode("utf-8")
  except UnicodeDecodeError as error:
    before = raw[: error.start].decode("utf-8")
    place = f"byte 0x{raw[error.start]:02x} at {_place(before, len(before))}"
    raise UsageError(f"{where}: not UTF-8 ({place}); convert the file to UTF-8") from error


class _RefusedError(ValueError):
  """JSON that other readers take in different ways."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  members = dict(pairs)
  if len(members) < len(pairs):
    repeated, _ = collections.Counter(name for name, _ in pairs).most_common(1)[0]
    raise _RefusedError(f"names '{shown(repeated)}' twice in one object; keep one")
  return members


def _refuse_constant(name: str) -> Any:
  raise _RefusedError(f"{name} is no JSON; remove it")


# Made once: `json.loads` with a hook would make a decoder for each line.
_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_refuse_constant)


def _place(text: str, position: int) -> str:
  line = text.count("\n", 0, position)
  column = f"column {position - text.rfind(chr(10), 0, position)}"
  return f"line {line + 1}, {column}" if line else column
