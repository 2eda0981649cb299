"""Reads key maps: lines `key<TAB>file`, for images whose file names are not their keys; a key may be a URL."""

import functools
import os
from collections.abc import Iterator

from xmcap.errors import UsageError

_MAX_LINE = 1 << 16


def canonical(key: str) -> str:
  """Normalises a key: drops leading zeros of numbers."""
  return key.lstrip("0") or "0" if key.isdecimal() and key.isascii() else key


def rows(path: str | os.PathLike) -> Iterator[tuple[int, str, str]]:
  """Yields (number of the line, normalised key, file); UsageError for a line of another form."""
  with open(path, "rb") as lines:
    for number, line in enumerate(iter(functools.partial(lines.readline, _MAX_LINE), b""), 1):
      try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
      except UnicodeDecodeError:
        raise UsageError(f"{path}, line {number:,}: not UTF-8: save the key map as UTF-8") from None
      if not text:
        continue
      key, _, file = text.partition("\t")
      if not (key and file) or len(line) == _MAX_LINE:
        form = f"a key, a tab and the name of a file, in less than {_MAX_LINE >> 10} KB"
        raise UsageError(f"{path}, line {number:,}: give {form}")
      yield number, canonical(key), file
