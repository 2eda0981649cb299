"""Foreign text on a terminal and in messages: what could move the cursor or hide itself is written out.

Names of files, keys, captions and answers of servers come from strangers. A control character in one of them would
reach the terminal, a newline would forge a line of a log, and an override of the direction shows another name than
the one that is meant. `shown` writes each such character as JSON does (`\\n`, `\\u001b`, `\\u202e`): so
JSON with escapes in it says the same still.

What a message quotes goes through `shown`. Where text leaves the process, `guard` holds the rule once more, for all
that is printed or logged.
"""

import contextlib
import io
import os
import sys
import unicodedata
from typing import Any

_LIMIT = 200
# Signs of spelling that show nothing by themselves: joiners (Persian, Hindi, Bengali), and the marks and numbers of
# Arabic and Hebrew. None of them reaches beyond the word that it stands in.
_SPELLING = frozenset("\u200c\u200d\u200e\u200f\u061c\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u08e2")
_SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: object, limit: int | None = _LIMIT) -> str:
  """Returns a text as one line of plain characters, whatever is in it.

  Letters, marks, signs, emoji and spaces of every script stay as they are. Escaped are control characters (line ends
  and tabs too), format characters such as bidirectional overrides and zero-width spaces, lone surrogates, and what is
  private or unassigned. A text that was escaped before stays as it is.

  Args:
    text: whatever is quoted; what is no string is turned into one.
    limit: characters of the result at most, the last three of them dots where it is longer; None: as long as it is.
  """
  text = str(text)
  if limit is None:
    return _escaped(text)
  text = _escaped(text[: limit + 1])
  return text if len(text) <= limit else text[: limit - 3] + "..."


def is_plain(text: str) -> bool:
  """Whether `shown` leaves a text, of whatever length, as it is."""
  return text.isprintable() or all(map(_is_plain_character, text))


def lines(text: str) -> str:
  """Returns a text of several lines with each of them as `shown` gives it, none of them cut."""
  return text if text.isprintable() else "\n".join(map(_escaped, text.split("\n")))


def guard() -> None:
  """Lets this process print and log nothing but lines of plain characters, from here on.

  Standard output and errors keep newlines; a message of `logging` is one line. What cannot be written in the terminal's
  encoding is escaped too. Bytes that libraries of C write themselves are out of reach.
  """
  import logging

  # Colours of tracebacks would be escaped as well.
  os.environ.setdefault("PYTHON_COLORS", "0")
  for name in ("stdout", "stderr"):
    stream = getattr(sys, name)
    if stream is not None and not isinstance(stream, _Guarded):
      setattr(
        sys,
        name,
        _Guarded(stream, "the standard output" if name == "stdout" else "the standard error output"),
      )
  logging.setLogRecordFactory(_record_class(logging.LogRecord))


def _escaped(text: str) -> str:
  if text.isprintable():
    return text
  return "".join(c if _is_plain_character(c) else _escape(c) for c in text)


def _is_plain_character(character: str) -> bool:
  return character.isprintable() or character in _SPELLING or unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
  if character in _SHORT:
    return _SHORT[character]
  units = character.encode("utf-16-be", "surrogatepass").hex()
  return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


class _Guarded(io.TextIOBase):
  """A text stream that writes to another, escaped."""

  def __init__(self, stream: Any, name: str):
    self._stream, self._name = stream, name
    if hasattr(stream, "reconfigure"):
      stream.reconfigure(errors="backslashreplace")

  def write(self, text: str) -> int:
    with self._named():
      self._stream.write(lines(text))
    return len(text)

  def writelines(self, texts) -> None:
    for text in texts:
      self.write(text)

  def flush(self) -> None:
    with self._named():
      self._stream.flush()

  @contextlib.contextmanager
  def _named(self):
    try:
      yield
    except OSError as error:
      error.filename = error.filename or self._name
      raise

  def fileno(self) -> int:
    return self._stream.fileno()

  def isatty(self) -> bool:
    return self._stream.isatty()

  def writable(self) -> bool:
    return True

  @property
  def encoding(self):
    return self._stream.encoding

  @property
  def errors(self):
    return self._stream.errors

  @property
  def buffer(self):
    return self._stream.buffer


def _record_class(base: type) -> type:
  class Record(base):
    """A message of `logging` on one line."""

    def getMessage(self) -> str:
      return shown(super().getMessage(), limit=None)

  return Record
