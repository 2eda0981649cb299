"""SQLite files that are written once, atomically, and then only read."""

import contextlib
import errno
import os
import pathlib
import sqlite3
import urllib.parse
from collections.abc import Iterator

from xmcap.files import files


def connect(path: pathlib.Path) -> sqlite3.Connection:
  """Opens a file for reading; sqlite3.Error if there is none."""
  return sqlite3.connect(f"file:{urllib.parse.quote(str(path))}?mode=ro&immutable=1", uri=True)


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[sqlite3.Connection]:
  """`connect`, closed at the end."""
  with contextlib.closing(connect(path)) as database:
    yield database


@contextlib.contextmanager
def writing(path: pathlib.Path, schema: str) -> Iterator[sqlite3.Connection]:
  """Makes a new file, which gets its name when the block succeeds; XmcapError names it if it cannot be written."""
  with files.replacing(path) as temporary:
    try:
      with contextlib.closing(sqlite3.connect(temporary)) as database:
        # An unfinished file is deleted, so no rollback is ever needed.
        database.executescript(
          "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;"
        )
        database.executescript(schema)
        yield database
        database.commit()
    except sqlite3.OperationalError as error:
      full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
      number = errno.ENOSPC if full else errno.EIO
      raise files.cannot_write(path, OSError(number, os.strerror(number) if full else str(error))) from None
