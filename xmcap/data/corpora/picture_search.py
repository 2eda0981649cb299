"""The search for the pictures of a release: every archive, or folder in a folder, by one process into a database.

`parts/00007.sqlite` holds what unit 7 found. It appears whole or not at all, so that a search that was killed goes on
with the units that are left.
"""

import contextlib
import dataclasses
import errno
import json
import os
import pathlib
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xmcap.data import workers
from xmcap.data.corpora import archives, tar_files
from xmcap.data.corpora.archives import FOLDER, PACKED_TAR, TAR, Address, File, Found, Trouble
from xmcap.errors import UsageError, XmcapError
from xmcap.processes import Killed
from xmcap.storage import files

VERSION = 2
"""Of the databases; other versions are made anew."""

MAX_PROBLEMS = 200_000
"""A place with more entries that are refused, or given twice, is no release; they are held in memory."""

COLUMNS = "file, path, base, tail, stem, offset, size, packed, crc"
"""Of a picture: the number of its file, its path there, the same without its suffix, its last folder and name, its name
without suffix, and where its bytes lie, as in `archives.Found`. Texts are bytes, for names of files may be no UTF-8."""

_SCHEMA = f"""
CREATE TABLE about (fingerprint, pictures, addresses);
CREATE TABLE pictures ({COLUMNS});
CREATE TABLE addresses (file, base, url);
CREATE TABLE problems (kind, place, what);
"""
_MAX_UNITS = 4_096  # folders in a folder that are searched by themselves


@dataclasses.dataclass(frozen=True)
class Unit:
  """What one process searches.

  Attributes:
    file_number: place of `file` in the list of files.
    file: an archive or a folder.
    part: the database of what is found.
    inside: of a folder, the folder in it that is searched; "" for itself.
    below: whether the folders in that are searched too.
    alone: whether the file is a release of its own, and not one of many.
  """

  file_number: int
  file: File
  part: pathlib.Path
  inside: str = ""
  below: bool = True
  alone: bool = True

  def fingerprint(self) -> list:
    """What changes when there may be something else to find; OSError if it is not there."""
    path = os.path.join(self.file.path, self.inside) if self.inside else self.file.path
    return [*archives.fingerprint(path), self.file_number, self.below, VERSION]


def find_units(places: Sequence[str | os.PathLike], folder: pathlib.Path) -> tuple[list[File], list[Unit]]:
  """The files of places, and the units of their search; a folder with .tar files at its top is those files.

  Args:
    places: as for `pictures.open_pictures`.
    folder: for databases and what is unpacked.

  Raises:
    UsageError: a place is not there, or is no folder or archive.
  """
  listed: list[File] = []
  units: list[Unit] = []

  def add(kind: str, path: str, **more: Any) -> None:
    unpacked = str(folder / f"unpacked-{len(listed):05d}.bin") if kind == PACKED_TAR else ""
    listed.append(File(kind, path, unpacked))
    add_unit(**more)

  def add_unit(**more: Any) -> None:
    part = folder / "parts" / f"{len(units):05d}.sqlite"
    units.append(Unit(len(listed) - 1, listed[-1], part, **more))

  for place in places:
    path = os.path.abspath(place)
    kind = archives.kind_of(place)
    if kind != FOLDER:
      add(kind, path)
      continue
    tars, inside = _inside(path)
    for name in tars:
      add(TAR, os.path.join(path, name), alone=False)
    if not tars:
      many = len(inside) > _MAX_UNITS
      add(FOLDER, path, below=many)
      for name in () if many else inside:
        add_unit(inside=name)
  if not units:
    raise UsageError("no place to look for pictures: name a folder or an archive")
  return listed, units


def _inside(path: str) -> tuple[list[str], list[str]]:
  """The .tar files and the folders in a folder, by name."""
  tars, inside = [], []
  try:
    with os.scandir(path) as entries:
      for entry in entries:
        if entry.name.startswith(".") or entry.name == "__MACOSX":
          continue
        if entry.is_dir():
          inside.append(entry.name)
        elif entry.name.endswith(".tar"):
          tars.append(entry.name)
  except OSError as error:
    raise UsageError(f"{path}: {error.strerror}: name a folder that can be read") from None
  return sorted(tars), sorted(inside)


def search(units: Sequence[Unit], processes: int | None, progress: Callable[[str], None]) -> None:
  """Searches all units that were not searched before; XmcapError where an archive is damaged or the disk is full."""
  processes = min(processes or files.available_cores(), len(units))
  total = 0
  try:
    for done, count in enumerate(_searched(units, processes), 1):
      total += count
      progress(f"pictures: {done:,} of {len(units):,} archives and folders searched, {total:,} found")
  except Killed:
    raise XmcapError(
      "a process that searched for pictures was killed, perhaps for memory: use fewer processes"
    ) from None


def _searched(units: Sequence[Unit], processes: int) -> Iterator[int]:
  if processes <= 1:
    yield from map(_search, units)
    return
  with workers.pool(processes) as pool:
    yield from pool.map(_search, units)


def _search(unit: Unit) -> int:
  """Searches a unit into its database, if that has not been done; returns the number of pictures."""
  fingerprint = json.dumps(unit.fingerprint())
  with contextlib.suppress(sqlite3.Error), contextlib.closing(connect(unit.part)) as part:
    known, pictures, _ = part.execute("SELECT * FROM about").fetchone()
    if known == fingerprint:
      return pictures
  pictures = addresses = problems = 0
  with database(unit.part, _SCHEMA) as part:
    for found in _entries_of(unit):
      if isinstance(found, Trouble):
        problems += 1
        check_count(problems, found)
        part.execute("INSERT INTO problems VALUES (?, ?, ?)", found)
      elif isinstance(found, Address):
        addresses += 1
        row = unit.file_number, packed(found.stem), packed(found.url)
        part.execute("INSERT INTO addresses VALUES (?, ?, ?)", row)
      else:
        pictures += 1
        part.execute("INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(unit, found))
    part.execute("INSERT INTO about VALUES (?, ?, ?)", (fingerprint, pictures, addresses))
  return pictures


def _row(unit: Unit, found: Found) -> tuple[int | bytes, ...]:
  folder, _, name = found.path.rpartition("/")
  tail = f"{folder.rpartition('/')[2] or unit.file.name}/{name}"
  base, stem = archives.split_suffix(found.path)[0], archives.split_suffix(name)[0]
  texts = map(packed, (found.path, base, tail, stem))
  return unit.file_number, *texts, found.offset, found.size, found.packed, found.crc


def packed(text: str) -> bytes:
  """A text as the databases hold it."""
  return text.encode("utf-8", "surrogatepass")


def connect(path: pathlib.Path) -> sqlite3.Connection:
  """Opens a database that is whole, to read; sqlite3.Error where there is none."""
  return sqlite3.connect(f"file:{urllib.parse.quote(str(path))}?mode=ro&immutable=1", uri=True)


@contextlib.contextmanager
def database(path: pathlib.Path, schema: str) -> Iterator[sqlite3.Connection]:
  """A new database to write, which has its name once the `with` ends well.

  Raises:
    XmcapError: it cannot be written; names it.
  """
  with files.replacing(path) as temporary:
    try:
      with contextlib.closing(sqlite3.connect(temporary)) as opened:
        # It is thrown away where it is not finished, so that nothing need be undone.
        opened.executescript(
          "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -131072;"
        )
        opened.executescript(schema)
        yield opened
        opened.commit()
    except sqlite3.OperationalError as error:
      full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
      number = errno.ENOSPC if full else errno.EIO
      raise files.cannot_write(path, OSError(number, os.strerror(number) if full else str(error))) from None


def _entries_of(unit: Unit) -> Iterator[Found | Address | Trouble]:
  path = unit.file.path
  if unit.file.kind == FOLDER:
    return archives.search_folder(path, unit.inside, unit.below)
  if unit.file.kind == archives.ZIP:
    return archives.search_zip(path)
  return tar_files.search_tar(path, unit.alone, unit.file.unpacked)


def check_count(count: int, last: Trouble) -> None:
  """Raises XmcapError where there are more problems than can be held."""
  if count > MAX_PROBLEMS:
    raise XmcapError(
      f"{last.where}: more than {MAX_PROBLEMS:,} pictures with problems ({last.kind}): name each place of pictures "
      "once, and none that is not of the release"
    )
