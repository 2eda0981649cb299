"""Strict JSON with errors for users: no NaN, no repeated names, no unpaired surrogates."""

import collections
import json
import re
from collections.abc import Iterator
from typing import Any

from xmcap.errors import UsageError
from xmcap.terminal import shown

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MOST_NESTED = 100
"""How deep values may nest; what reads them calls itself for each level."""

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_FILLED = re.compile(rb"\S[^\n]*")


def parse(raw: bytes, where: str, constants: bool = False) -> Any:
  """Parses a line or a whole file of JSON; `where`, the file and the line, begins the messages.

  Raises UsageError if it is not UTF-8, not JSON (NaN and Infinity are not, unless `constants`), repeats a name in an
  object, or has an unpaired surrogate.
  """
  text = decode(raw, where)
  try:
    value = (_WITH_CONSTANTS if constants else _DECODER).decode(text)
    if _SURROGATE.search(text):
      # JSON can spell an unpaired surrogate, which UTF-8 cannot encode; here the error still knows the line.
      json.dumps(value, ensure_ascii=False).encode("utf-8")
  except json.JSONDecodeError as error:
    reason = f"{error.msg.removesuffix(' at')} at {_place(text, error.pos)}"
    raise UsageError(f"{where}: broken JSON ({reason}); mend or remove it") from error
  except UnicodeEncodeError as error:
    half = f"\\u{ord(error.object[error.start]):04x}"
    raise UsageError(f"{where}: unpaired surrogate ({half}); write the whole character") from error
  except _RefusedError as error:
    raise UsageError(f"{where}: {error}") from None
  except (ValueError, RecursionError) as error:
    raise UsageError(
      f"{where}: JSON that cannot be read (nested too deeply, or a number too long); mend or remove it"
    ) from error
  if is_deep(raw):
    raise UsageError(f"{where}: JSON nested deeper than {MOST_NESTED}; mend or remove it")
  return value


def parse_object(raw: bytes, where: str, constants: bool = False) -> dict[str, Any]:
  """Parses a line that must be a JSON object; raises as `parse`."""
  value = parse(raw, where, constants)
  if not isinstance(value, dict):
    raise UsageError(f"{where}: not a JSON object; each line must be one {{...}}")
  return value


def parse_lines(block: bytes, where: str, before: int) -> Iterator[tuple[int, dict[str, Any]]]:
  """Yields (line number, object) for whole lines of JSON; skips empty ones.

  It does the same as `parse_object` on each line, twice as fast. `before` is the number of lines of the file before
  this block.
  """
  try:
    text = block.decode("utf-8")
  except UnicodeDecodeError:
    text = ""
  number, start = before, 0
  if text and not ("\\" in text and _SURROGATE.search(text)) and not _may_be_deep(block):
    # One decoder call per line on the whole text. A line that is not exactly one object, and all lines after it,
    # are left to the careful loop below, which words the errors.
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
  """Yields (line number, line without its end) for lines that are not blank; `before` lines precede the block.

  Blank lines cost nothing: a small archive may hold a billion of them.
  """
  number, counted = before + 1, 0
  for match in _FILLED.finditer(block):
    number += block.count(b"\n", counted, match.start())
    counted = match.start()
    yield number, block[block.rfind(b"\n", 0, counted) + 1 : match.end()]


def is_deep(raw: bytes) -> bool:
  """Whether JSON nests deeper than MOST_NESTED."""
  return _may_be_deep(raw) and _may_be_deep(_TEXT.sub(b"", raw))


def _may_be_deep(raw: bytes) -> bool:
  """Whether it does, if brackets in texts count, and those of all lines together."""
  brackets = raw.translate(None, _NO_BRACKETS)
  for removed in range(MOST_NESTED + 1):
    if removed + len(brackets) <= MOST_NESTED:
      return False
    brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
  return True


def decode(raw: bytes, where: str) -> str:
  """Decodes UTF-8; UsageError gives the place of the first invalid byte."""
  if raw.startswith(_BYTE_ORDER_MARK):
    raise UsageError(f"{where}: starts with a byte order mark; save the file as UTF-8 without one")
  try:
    return raw.decode("utf-8")
  except UnicodeDecodeError as error:
    before = raw[: error.start].decode("utf-8")
    place = f"byte 0x{raw[error.start]:02x} at {_place(before, len(before))}"
    raise UsageError(f"{where}: not UTF-8 ({place}); convert the file to UTF-8") from error


class _RefusedError(ValueError):
  """JSON that different parsers read in different ways."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  members = dict(pairs)
  if len(members) < len(pairs):
    repeated, _ = collections.Counter(name for name, _ in pairs).most_common(1)[0]
    raise _RefusedError(f"names '{shown(repeated)}' twice in one object; keep one")
  return members


def _refuse_constant(name: str) -> Any:
  raise _RefusedError(f"{name} is not valid JSON; remove it")


# For files whose odd fields are not used: Python's own `json.dumps` writes NaN and Infinity.
_WITH_CONSTANTS = json.JSONDecoder(object_pairs_hook=_members)
# Made once: `json.loads` with a hook would make a decoder for each line.
_DECODER = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_refuse_constant)


def _place(text: str, position: int) -> str:
  line = text.count("\n", 0, position)
  column = f"column {position - text.rfind(chr(10), 0, position)}"
  return f"line {line + 1}, {column}" if line else column
