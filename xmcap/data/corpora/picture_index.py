"""The table of the pictures of a release: searched for once, kept on disk, read by any number of processes.

A working folder holds, under `pictures/`,

  index.sqlite         what was searched, where each picture lies and by what names it is known; appears whole
  unpacked-00000.bin   the pictures of a .tgz, one behind the other

picture_search.py fills `parts/`, of which this makes one table.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from xmcap.data.corpora import archives, picture_search
from xmcap.data.corpora.archives import FOLDER, File, Found, Trouble
from xmcap.data.corpora.picture_search import COLUMNS, Unit, packed
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError
from xmcap.storage import files

_MAX_MAP_LINE = 1 << 16

# `place` orders the pictures of a folder by their paths; those of an archive stay as they lie in it. Of several with
# one name the first by (file, place, number) counts.
_SCHEMA = f"""
CREATE TABLE about (inputs, files, has_urls, is_mapped);
CREATE TABLE pictures (number INTEGER PRIMARY KEY, {COLUMNS}, place, has_urls);
CREATE TABLE urls (url PRIMARY KEY, number) WITHOUT ROWID;
CREATE TABLE keys (key PRIMARY KEY, number) WITHOUT ROWID;
CREATE TABLE problems (kind, place, what);
CREATE INDEX tails ON pictures (tail);
CREATE INDEX stems ON pictures (stem);
CREATE INDEX bases ON pictures (base, file);
"""
_ORDER = "file, place, number"
_FOUND = "number, file, path, offset, size, packed, crc"


_Found = TypeVar("_Found")


class Index:
  """Looks pictures up; pickles as its path.

  Attributes:
    files: what the numbers of files stand for.
    has_urls: whether addresses are known.
  """

  def __init__(self, path: pathlib.Path):
    self._path = path
    self._database = picture_search.connect(path)
    _, listed, self.has_urls, self._is_mapped = self._database.execute("SELECT * FROM about").fetchone()
    self.files = [File(*file) for file in json.loads(listed)]

  def __reduce__(self):
    return Index, (self._path,)

  def __len__(self) -> int:
    return self._database.execute("SELECT count(*) FROM pictures").fetchone()[0]

  def find(self, key: str) -> tuple[int, Found]:
    """A picture by a key of the key map, by a path as a release gives it, or by its name; KeyError if there is none.

    Returns the number of the file that it lies in, and where.
    """
    if self._is_mapped:
      return self._of("number = (SELECT number FROM keys WHERE key = ?)", _canonical(key))
    return _find_path(self._of, key)

  def find_url(self, url: str) -> tuple[int, Found]:
    """A picture by its address; KeyError if there is none."""
    return self._of("number = (SELECT number FROM urls WHERE url = ?)", url)

  def names(self) -> Iterator[str]:
    """The names of all pictures, without folder and suffix, in the order they were found; a name may come again."""
    for (stem,) in self._database.execute("SELECT stem FROM pictures ORDER BY number"):
      yield stem.decode("utf-8", "surrogatepass")

  def _of(self, condition: str, *texts: str, alone: bool = False) -> tuple[int, Found]:
    _, file, path, *place = _first(self._database, condition, *texts, alone=alone)
    return file, Found(path.decode("utf-8", "surrogatepass"), *place)


def _first(database: sqlite3.Connection, condition: str, *texts: str, alone: bool = False) -> tuple:
  """The first picture for which a condition holds; KeyError for none, or for several where one is to be `alone`."""
  query = f"SELECT {_FOUND} FROM pictures WHERE {condition} ORDER BY {_ORDER} LIMIT 2"
  rows = database.execute(query, [packed(text) for text in texts]).fetchall()
  if not rows or (alone and len(rows) > 1):
    raise KeyError(texts[-1])
  return rows[0]


def _find_path(find: Callable[..., _Found], path: str) -> _Found:
  """What `find` returns for a path as a release gives it: by the last folder and the name, else by the name."""
  folder, _, name = path.rpartition("/")
  if folder:
    with contextlib.suppress(KeyError):
      return find("tail = ?", f"{folder.rpartition('/')[2]}/{name}")
  # Of several pictures with this name none lies where the path says.
  return find("stem = ?", archives.split_suffix(name)[0], alone=bool(folder))


def _find_mapped(find: Callable[..., _Found], path: str) -> _Found:
  """The same for a path of a key map: by the whole of it, before that."""
  inside = "/".join(part for part in path.split("/") if part not in ("", "."))
  with contextlib.suppress(KeyError):
    return find("base = ? AND path = ?", archives.split_suffix(inside)[0], inside)
  return _find_path(find, path)


def _canonical(key: str) -> str:
  """A key of a key map; numbers are the same with and without zeros before them."""
  return key.lstrip("0") or "0" if key.isdecimal() and key.isascii() else key


def make(
  places: Sequence[str | os.PathLike],
  work_dir: str | os.PathLike,
  *,
  key_map: str | os.PathLike | None,
  on_bad: str,
  processes: int | None,
  progress: Callable[[str], None],
) -> tuple[Index, Problems]:
  """Searches places and makes the table, or takes the one that is there; see `pictures.open_pictures`."""
  folder = pathlib.Path(work_dir) / "pictures"
  path = folder / "index.sqlite"
  listed, units = picture_search.find_units(places, folder)
  try:
    searched = [unit.fingerprint() for unit in units]
    mapped = [] if key_map is None else archives.fingerprint(key_map)
  except OSError as error:
    raise UsageError(f"{error.filename}: {error.strerror}: name a file that can be read") from None
  inputs = json.dumps([picture_search.VERSION, searched, mapped])
  unpacked = all(os.path.exists(file.unpacked) for file in listed if file.unpacked)
  if not unpacked or _inputs_of(path) != inputs:
    files.make_folder(folder / "parts")
    path.unlink(missing_ok=True)
    picture_search.search(units, processes, progress)
    _merge(path, inputs, listed, units, key_map, progress)
    shutil.rmtree(folder / "parts", ignore_errors=True)
  # Added again one by one, for on_bad may be another than the last time.
  problems = Problems(on_bad)
  with contextlib.closing(picture_search.connect(path)) as database:
    for trouble in database.execute("SELECT * FROM problems ORDER BY rowid"):
      problems.add(*trouble)
  return Index(path), problems


def _inputs_of(path: pathlib.Path) -> str | None:
  """What a table was made of; None if there is none."""
  with contextlib.suppress(sqlite3.Error), contextlib.closing(picture_search.connect(path)) as database:
    return database.execute("SELECT inputs FROM about").fetchone()[0]
  return None


def _merge(
  path: pathlib.Path,
  inputs: str,
  listed: Sequence[File],
  units: Sequence[Unit],
  key_map: str | os.PathLike | None,
  progress: Callable[[str], None],
) -> None:
  """Makes one table of the parts."""
  with picture_search.database(path, _SCHEMA) as database:
    for unit in units:
      _add_part(database, unit)
    total = database.execute("SELECT count(*) FROM pictures").fetchone()[0]
    progress(f"pictures: {total:,} found; sorting their names")
    if not total:
      raise UsageError(
        f"{', '.join(file.path for file in listed[:3])}: no picture in it: name where the pictures are"
      )
    _add_duplicates(database, listed)
    if key_map is not None:
      _add_map(database, key_map)
    has_urls = database.execute("SELECT EXISTS (SELECT * FROM urls)").fetchone()[0]
    files_of = json.dumps([dataclasses.astuple(file) for file in listed])
    database.execute(
      "INSERT INTO about VALUES (?, ?, ?, ?)", (inputs, files_of, has_urls, key_map is not None)
    )


def _add_part(database: sqlite3.Connection, unit: Unit) -> None:
  database.commit()  # nothing can be attached in the middle of a change
  database.execute("ATTACH ? AS part", [str(unit.part)])
  place = "path" if unit.file.kind == FOLDER else "x''"
  database.execute(
    f"INSERT INTO pictures ({COLUMNS}, place, has_urls) SELECT {COLUMNS}, {place}, "
    "(SELECT addresses > 0 FROM part.about) FROM part.pictures ORDER BY rowid"
  )
  # An address belongs to the picture beside it; the first of an address counts.
  database.execute(
    "INSERT OR IGNORE INTO urls SELECT url, number FROM part.addresses AS found JOIN pictures "
    "ON pictures.base = found.base AND pictures.file = found.file ORDER BY place, number"
  )
  database.execute("INSERT INTO problems SELECT * FROM part.problems ORDER BY rowid")
  database.commit()
  database.execute("DETACH part")


def _add_duplicates(database: sqlite3.Connection, listed: Sequence[File]) -> None:
  """Lists pictures that another with the same name comes before.

  Where addresses are known, pictures are told apart by their paths, for keys begin anew in each fetch; else by their
  names.
  """
  count = 0
  for names, of_urls in (("stem", 0), ("base, file", 1)):
    condition = " AND ".join(f"{name} = ?" for name in names.split(", "))
    several = database.execute(f"SELECT {names} FROM pictures GROUP BY {names} HAVING count(*) > 1")
    for name in several:
      query = f"SELECT file, path, has_urls FROM pictures WHERE {condition} ORDER BY {_ORDER}"
      same = database.execute(query, name)
      same.fetchone()  # the one that counts
      for file, path, has_urls in same:
        if has_urls == of_urls:
          where = archives.described(listed[file], path.decode("utf-8", "surrogatepass"), whole=False)
          trouble = Trouble("duplicate_picture", where, "")
          count += 1
          picture_search.check_count(count, trouble)
          database.execute("INSERT INTO problems VALUES (?, ?, ?)", trouble)


def _add_map(database: sqlite3.Connection, path: str | os.PathLike) -> None:
  """Adds the rows of a key map, whose files are looked up, never opened."""
  with open(path, "rb") as lines:
    for number, line in enumerate(iter(functools.partial(lines.readline, _MAX_MAP_LINE), b""), 1):
      try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
      except UnicodeDecodeError:
        raise UsageError(f"{path}, line {number:,}: not UTF-8: save the key map as UTF-8") from None
      if not text:
        continue
      key, tab, file = text.partition("\t")
      if not (key and tab and file) or len(line) == _MAX_MAP_LINE:
        raise UsageError(f"{path}, line {number:,}: give a key, a tab and the name of a file")
      try:
        found, *_ = _find_mapped(functools.partial(_first, database), file)
      except KeyError:
        continue  # it is counted as missing when it is asked for
      if "://" in key:
        database.execute("INSERT OR IGNORE INTO urls VALUES (?, ?)", (packed(key), found))
        continue
      try:
        database.execute("INSERT INTO keys VALUES (?, ?)", (packed(_canonical(key)), found))
      except sqlite3.IntegrityError:
        raise UsageError(
          f"{path}, line {number:,}: the key map names a key twice, for two files: keep one line a key"
        ) from None
