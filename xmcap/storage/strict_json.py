"""JSON as its standard has it, with errors for people: no NaN, no repeated names, no half characters."""

import json
import re
from collections.abc import Iterator
from typing import Any

from xmcap.errors import UsageError
from xmcap.terminal import shown

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Half a surrogate pair, or what looks like one: a first half without a second, or a second without a first.
_HALF_PAIR = re.compile(
  r"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|[c-fC-F](?<![^\\]\\u[dD][89abAB]..\\u[dD][c-fC-F]))"
)
_FILLED = re.compile(rb"\S[^\n]*")
_CONSTANT = re.compile(r'"(?:[^"\\]++|\\.)*+"|(-?Infinity|NaN)', re.DOTALL)


def parse(raw: bytes, where: str) -> Any:
  """Returns the value of a JSON text in UTF-8.

  Args:
    raw: a line, or a whole file.
    where: begins the messages: the file, and the line if it is one.

  Raises:
    UsageError: not UTF-8, not JSON (NaN and Infinity are not), an object that names one member twice, or
      half a surrogate pair; the message says where.
  """
  text = decode(raw, where)
  try:
    value = _DECODER.decode(text)
    if _HALF_PAIR.search(text):
      # JSON can spell half a surrogate pair, which no file can hold; found here, it has a place.
      json.dumps(value, ensure_ascii=False).encode("utf-8")
  except _RepeatedMember as error:
    raise UsageError(f"{where}: names {error} twice in one object; keep one") from None
  except _Constant as error:
    match = next(match for match in _CONSTANT.finditer(text) if match[1])
    raise UsageError(f"{where}: {error} at {_place(text, match.start())} is no JSON; remove it") from None
  except json.JSONDecodeError as error:
    raise UsageError(
      f"{where}: broken JSON ({error.msg.removesuffix(' at')} at {_place(text, error.pos)}); mend or remove it"
    ) from error
  except UnicodeEncodeError as error:
    raise UsageError(
      f"{where}: half a surrogate pair (\\u{ord(error.object[error.start]):04x}); write the whole character"
    ) from error
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

  The same as `parse_object` of each line, and twice as fast.

  Args:
    block: the lines.
    where: the file, for messages.
    before: how many lines stand before these.
  """
  try:
    text = block.decode("utf-8")
  except UnicodeDecodeError:
    text = ""
  number, start = before, 0
  if text and not ("\\" in text and _HALF_PAIR.search(text)):
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
  """Yields (line number, line without its end) of the lines that hold more than white space.

  Empty lines cost nothing: a small archive may hold a thousand million of them.

  Args:
    block: lines.
    before: how many lines stand before these.
  """
  number, counted = before + 1, 0
  for found in _FILLED.finditer(block):
    number += block.count(b"\n", counted, found.start())
    counted = found.start()
    yield number, block[block.rfind(b"\n", 0, counted) + 1 : found.end()]


def decode(raw: bytes, where: str) -> str:
  """Returns the text of bytes in UTF-8; UsageError with the place of the first that are not."""
  if raw.startswith(_BYTE_ORDER_MARK):
    raise UsageError(f"{where}: starts with a byte order mark; save the file as UTF-8 without one")
  try:
    return raw.decode("utf-8")
  except UnicodeDecodeError as error:
    line = raw.count(b"\n", 0, error.start)
    column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
    raise UsageError(
      f"{where}: not UTF-8 (byte 0x{raw[error.start]:02x} at "
      f"{f'line {line + 1}, ' if line else ''}column {column}); convert the file to UTF-8"
    ) from error


class _RepeatedMember(ValueError):
  """A JSON object names a member twice."""


class _Constant(ValueError):
  """NaN or Infinity."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  members = dict(pairs)
  if len(members) < len(pairs):
    names: set[str] = set()
    for name, _ in pairs:
      if name in names:
        # In a long file the number of the object is what it is found by.
        numbers = (f" ({name} {shown(str(value))})" for name, value in pairs if _is_number(name, value))
        raise _RepeatedMember(f"'{shown(name)}'{next(numbers, '')}")
      names.add(name)
  return members


def _is_number(name: str, value: Any) -> bool:
  return name in ("id", "image_id") and isinstance(value, int | str)


def _refuse_constant(name: str) -> Any:
  raise _Constant(name)


# Made once: `json.loads` with a hook would make a decoder for each line.
_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_refuse_constant)


def _place(text: str, position: int) -> str:
  line = text.count("\n", 0, position)
  column = f"column {position - text.rfind(chr(10), 0, position)}"
  return f"line {line + 1}, {column}" if line else column
