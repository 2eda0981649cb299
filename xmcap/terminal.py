r"""Escapes untrusted text before it reaches a terminal or a message.

File names, keys, captions and server responses come from strangers. A control character in one could move the cursor, a
newline could forge a log line, and a bidirectional override could disguise a name. `shown` escapes such characters as
JSON does (`\n`, `\u001b`, `\u202e`), so JSON text keeps its meaning. Messages quote text through `shown`; `guard` also
escapes everything that the process prints or logs, and lets the work go on when nobody can read that any more.
"""

import contextlib
import errno
import io
import logging
import os
import shutil
import sys
import unicodedata
from typing import Any

_LIMIT = 200
# Invisible characters that spelling needs: joiners (Persian, Hindi, Bengali), and the direction and number marks of
# Arabic and Hebrew. They affect only their own word.
_SPELLING = frozenset("\u200c\u200d\u200e\u200f\u061c\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u08e2")
_SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: object, limit: int | None = _LIMIT) -> str:
  """Returns `str(text)` as one line of at most `limit` plain characters (None: no limit).

  Letters, marks, symbols, emoji and spaces of every script stay. Control characters (including newlines and tabs),
  format characters such as bidirectional overrides and zero-width spaces, lone surrogates, and private-use and
  unassigned characters are escaped. Escaping twice changes nothing. A text that is too long is cut and ends in "...".
  """
  text = str(text)
  if limit is None:
    return _escaped(text)
  text = _escaped(text[: limit + 1])
  return text if len(text) <= limit else text[: limit - 3] + "..."


def is_plain(text: str) -> bool:
  """Whether `shown` with no limit leaves a text unchanged."""
  return _escaped(text) == text


def columns() -> int | None:
  """Returns how many columns stdout's terminal has; None if stdout is a file or a pipe, whose reader wants all."""
  return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def cells(text: str) -> int:
  """Returns how many columns a plain text takes: two for a wide character of East Asia, none for a mark."""
  if text.isascii():
    return len(text)
  return sum(map(_cells_of, text))


def broken(text: str, width: int) -> list[str]:
  """Returns a plain text in lines of at most `width` columns, broken at spaces, or within a word that is longer."""
  if cells(text) <= width:
    return [text]
  lines = [""]
  for word in text.split(" "):
    if lines[-1] and cells(f"{lines[-1]} {word}") <= width:
      lines[-1] += f" {word}"
      continue
    if lines[-1]:
      lines.append("")
    for character in word:
      if lines[-1] and cells(lines[-1] + character) > width:
        lines.append("")
      lines[-1] += character
  return lines


def guard() -> None:
  """Escapes everything that this process prints or logs from now on.

  stdout and stderr keep newlines; a `logging` message becomes one line. Characters that the terminal's encoding lacks
  are escaped too. Output that C libraries print themselves is not escaped.

  A stream that is closed, or that cannot be written any more, takes everything and drops it, so that a command still
  writes its files; `lost_output` says so at the end.
  """
  # Python would colour tracebacks with control characters.
  os.environ.setdefault("PYTHON_COLORS", "0")
  for number in range(3):  # or the next file that is opened would take its number, and what C libraries print
    try:
      os.fstat(number)
    except OSError:
      os.open(os.devnull, os.O_RDWR)
  for name in ("stdout", "stderr"):
    stream = getattr(sys, name)
    if not isinstance(stream, _Guarded):
      setattr(sys, name, _Guarded(stream))
  logging.setLogRecordFactory(_Record)


def _cells_of(character: str) -> int:
  if unicodedata.category(character) in ("Mn", "Me", "Cf"):
    return 0
  return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def lost_output() -> OSError | None:
  """Returns why something that was printed is lost; None if nothing is, or without `guard`."""
  return sys.stdout.lost if isinstance(sys.stdout, _Guarded) else None


def check_reader() -> None:
  """Raises BrokenPipeError if the reader of the output (head, less) is gone: for work that does nothing but print."""
  sys.stdout.flush()
  if isinstance(lost := lost_output(), BrokenPipeError):
    raise lost


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
  return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


class _Guarded:
  """A text stream that escapes what is written to it, and drops it when it cannot be written.

  Attributes:
    lost: why something was dropped; None if nothing was.
  """

  def __init__(self, stream: Any):
    self.lost: OSError | None = None
    self._is_closed = stream is None  # as Python says that its descriptor was closed
    self._stream: Any = io.StringIO() if stream is None else stream
    if hasattr(self._stream, "reconfigure"):
      self._stream.reconfigure(errors="backslashreplace")

  def write(self, text: str) -> int:
    with self._dropping():
      if self._is_closed and text:
        raise OSError(errno.EBADF, "closed")
      self._stream.write("\n".join(map(_escaped, text.split("\n"))))
    return len(text)

  def writelines(self, texts) -> None:
    for text in texts:
      self.write(text)

  def flush(self) -> None:
    with self._dropping():
      self._stream.flush()

  def __getattr__(self, name: str) -> Any:
    return getattr(self._stream, name)

  @contextlib.contextmanager
  def _dropping(self):
    try:
      yield
    except OSError as error:
      self.lost = self.lost or error
      with contextlib.suppress(OSError, ValueError):  # where what is in its buffer goes, too
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())
        os.close(nothing)


class _Record(logging.LogRecord):
  """A log record whose message is one escaped line."""

  def getMessage(self) -> str:
    return shown(super().getMessage(), limit=None)
