"""Images that tables embed, in one tar file of the working folder."""

import hashlib
import io
import sqlite3
import tarfile
from collections.abc import Iterable
from pathlib import Path

from xmcap.errors import UsageError
from xmcap.reading.lines import MAX_RATIO, most_unpacked

_SCHEMA = """
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384;
CREATE TABLE images (digest PRIMARY KEY, name) WITHOUT ROWID;
CREATE TABLE keys (key PRIMARY KEY, name, digest, place) WITHOUT ROWID;
"""


class Packed:
  """A tar file with the images of tables, at most so large as tables of these sizes may be when unpacked.

  What is in it is remembered on disk, because there may be millions.
  """

  def __init__(self, archive: tarfile.TarFile, tables: Iterable[Path]):
    self._archive = archive
    self._most = most_unpacked(sum(path.stat().st_size for path in tables))
    self._database = sqlite3.connect("")  # a temporary file, which SQLite removes
    self._database.executescript(_SCHEMA)

  def close(self) -> None:
    """Forgets what is in the tar file, which stays."""
    self._database.close()

  def add(self, name: str, data: bytes, where: str) -> str:
    """Adds an image of the row `where`, unless its bytes are there; returns the name that they have.

    UsageError if all images take far more room than the tables.
    """
    digest = hashlib.sha256(data).digest()
    row = self._database.execute("SELECT name FROM images WHERE digest = ?", (digest,)).fetchone()
    if row is None:
      self._database.execute("INSERT INTO images VALUES (?, ?)", (digest, name))
      self._write(name, data, where)
    return name if row is None else row[0]

  def once(self, key: str, name: str, data: bytes, where: str) -> str:
    """Adds an image unless its key has one; returns the name of that. UsageError as `add`, or if it has other bytes."""
    digest = hashlib.sha256(data).digest()
    row = self._database.execute("SELECT name, digest, place FROM keys WHERE key = ?", (key,)).fetchone()
    if row is None:
      self._database.execute("INSERT INTO keys VALUES (?, ?, ?, ?)", (key, name, digest, where))
      self._write(name, data, where)
    elif row[1] != digest:
      raise UsageError(
        f"{where}: the picture {key} has other bytes than in {row[2]}: give the files of one release"
      )
    return name if row is None else row[0]

  def _write(self, name: str, data: bytes, where: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    self._archive.addfile(entry, io.BytesIO(data))
    if self._archive.offset > self._most:
      raise UsageError(
        f"{where}: the pictures up to here take {self._archive.offset >> 20:,} MB, more than {MAX_RATIO} times the "
        "files plus 1 GiB: give the published files"
      )
