"""The pictures of a release: found wherever they lie, and read in place, by name or address.

A place is one of

  a folder of pictures, at any depth (`train2014/`, img2dataset's files with a .json beside each)
  a .zip, read in place; a .tar, read in place; a .tgz or .tar.bz2, decompressed once into the working folder
  a folder of .tar files, as img2dataset leaves them (WebDataset: KEY.jpg, KEY.json with its URL)

Nothing is ever written under a name that an archive gives, and no key becomes a path: names are looked up among
those that were found. They lie in a database on disk, so that millions of them take no memory.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import sqlite3
from collections.abc import Iterator, Sequence

from xmcap.data.corpora import archives, tar_files
from xmcap.data.corpora.archives import FOLDER, PACKED_TAR, SHARD, ZIP, Address, Entry, File, Found, Trouble
from xmcap.data.corpora.problems import Problems
from xmcap.data.progress import Progress, Say
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import databases, files

MAX_PROBLEMS = 200_000
"""Places with more entries that are refused, or given twice, are no release."""

_MAX_MAP_LINE = 1 << 16
_VERSION = 3  # of the database

# A picture has its path, the same without its suffix (base), its last folder and name (tail), its name without suffix
# (stem), and where its bytes lie, as in `archives.Found`. Texts are bytes, for names of files may be no UTF-8. `place`
# orders the pictures of a folder by their paths; those of an archive stay as they lie in it.
_SCHEMA = """
CREATE TABLE about (inputs, files, has_urls, is_mapped);
CREATE TABLE pictures (number INTEGER PRIMARY KEY, file, base, tail, stem, place, path, offset, size, packed, crc);
CREATE TABLE addresses (file, base, url);
CREATE TABLE urls (url PRIMARY KEY, number) WITHOUT ROWID;
CREATE TABLE keys (key PRIMARY KEY, number) WITHOUT ROWID;
CREATE TABLE problems (kind, place, what);
"""
_INDEXES = """
CREATE INDEX tails ON pictures (tail);
CREATE INDEX stems ON pictures (stem);
CREATE INDEX bases ON pictures (base, file);
"""
# Of several pictures with one name the first in this order counts.
_ORDER = "file, place, number"
# An address belongs to the picture beside it; of two that were fetched from one address the first counts.
_ADD_URLS = f"""
INSERT OR IGNORE INTO urls SELECT url, number FROM addresses AS found
JOIN pictures USING (base, file) ORDER BY {_ORDER}
"""
# Where addresses are known, pictures are told apart by their paths, for keys begin anew in each fetch; else by names.
_DUPLICATES = f"""
SELECT file, path FROM (SELECT *, row_number() OVER (PARTITION BY stem ORDER BY {_ORDER}) AS turn FROM pictures)
  WHERE turn > 1 AND file NOT IN (SELECT file FROM addresses)
UNION ALL
SELECT file, path FROM (SELECT *, row_number() OVER (PARTITION BY base, file ORDER BY {_ORDER}) AS turn FROM pictures)
  WHERE turn > 1 AND file IN (SELECT file FROM addresses)
"""


class Pictures:
  """The pictures of one or more places; made by `open_pictures`. Pickles as the path of its database.

  `has_urls` says whether pictures have addresses (img2dataset's .json, or a key map of addresses).
  """

  def __init__(self, path: pathlib.Path):
    self._path = path
    self._database = databases.connect(path)
    _, listed, self.has_urls, self._is_mapped = self._database.execute("SELECT * FROM about").fetchone()
    self._files = [File(*file) for file in json.loads(listed)]

  def __reduce__(self):
    return Pictures, (self._path,)

  def __len__(self) -> int:
    """Pictures found."""
    return self._database.execute("SELECT count(*) FROM pictures").fetchone()[0]

  def names(self) -> Iterator[str]:
    """The names of all pictures, without folder and suffix, in the order they were found; a name may come again."""
    for (stem,) in self._database.execute("SELECT stem FROM pictures ORDER BY number"):
      yield _text(stem)

  def read(self, key: str) -> bytes:
    """The bytes of a picture.

    Args:
      key: the file's name without its suffix (`06c5f87181c30e00`), a path as a release gives it
        (`val2014/COCO_val2014_000000000042.jpg`; folders above the last are not looked at), or a key of the key map.

    Raises:
      KeyError: there is no such picture.
      XmcapError: it was there, and cannot be read.
    """
    if self._is_mapped:
      condition = "number = (SELECT number FROM keys WHERE key = ?)"
      return self._read(*_first(self._database, condition, _canonical(key)))
    return self._read(*_find_path(self._database, key))

  def by_url(self, url: str) -> bytes:
    """The bytes of the picture that was fetched from an address; errors as in `read`."""
    condition = "number = (SELECT number FROM urls WHERE url = ?)"
    return self._read(*_first(self._database, condition, url))

  def _read(self, number: int, file: int, found: Found) -> bytes:
    return archives.read(self._files[file], found)


def open_pictures(
  places: Sequence[str | os.PathLike],
  folder: pathlib.Path,
  *,
  key_map: str | os.PathLike | None = None,
  problems: Problems,
  say: Say,
) -> Pictures:
  """Finds the pictures of places; of two with one name the first counts.

  The database in `folder` is used again where it is whole and the places have not changed.

  Args:
    folder: for the database and what is unpacked; made if absent.
    key_map: lines `key<TAB>file`, for folders whose names say nothing; the key may be an address. Keys that are
      numbers may have zeros before them or not.
    problems: takes `unsafe_path`, `duplicate_picture`, and `truncated` of a tar that breaks off.

  Raises:
    UsageError: a place or the key map is not there, or is no folder or archive of pictures.
    XmcapError: an archive is damaged, or the disk is full.
  """
  path = folder / "pictures.sqlite"
  listed = _files(places, folder)
  inputs = _fingerprint([file.path for file in listed] + ([key_map] if key_map else []))
  unpacked = all(os.path.exists(file.unpacked) for file in listed if file.unpacked)
  if not unpacked or _inputs_of(path) != inputs:
    files.make_folder(folder)
    path.unlink(missing_ok=True)
    with databases.writing(path, _SCHEMA) as database:
      _fill(database, listed, key_map, say)
      has_urls = database.execute("SELECT EXISTS (SELECT * FROM urls)").fetchone()[0]
      files_of = json.dumps([dataclasses.astuple(file) for file in listed])
      about = (inputs, files_of, has_urls, key_map is not None)
      database.execute("INSERT INTO about VALUES (?, ?, ?, ?)", about)
  with databases.reading(path) as database:
    problems.extend(database.execute("SELECT * FROM problems ORDER BY rowid"))
  pictures = Pictures(path)
  say(f"{len(pictures):,} pictures found in {', '.join(os.path.basename(place) for place in places)}")
  return pictures


def _files(places: Sequence[str | os.PathLike], folder: pathlib.Path) -> list[File]:
  """The files of places; a folder with .tar files at its top is those files."""
  found: list[File] = []
  for place in map(os.path.abspath, places):
    kind = archives.kind_of(place)
    try:
      names = sorted(os.listdir(place)) if kind == FOLDER else []
    except OSError as error:
      raise UsageError(f"{place}: {error.strerror}: name a folder that can be read") from None
    tars = [name for name in names if name.endswith(".tar") and not name.startswith(".")]
    tars = [File(SHARD, path) for name in tars if os.path.isfile(path := os.path.join(place, name))]
    unpacked = str(folder / f"unpacked-{len(found):05d}.tar") if kind == PACKED_TAR else ""
    found += tars or [File(kind, place, unpacked)]
  return found


def _fingerprint(paths: Sequence[str | os.PathLike]) -> str:
  """What changes when files or folders do: their paths, sizes and times."""
  about = []
  for path in map(os.path.abspath, paths):
    try:
      status = os.stat(path)
    except OSError as error:
      raise UsageError(f"{path}: {error.strerror}: name a file that can be read") from None
    about.append([path, status.st_size, status.st_mtime_ns])
  return json.dumps([_VERSION, about])


def _inputs_of(path: pathlib.Path) -> str | None:
  """The fingerprint that a database was made of; None if there is none."""
  with contextlib.suppress(sqlite3.Error), databases.reading(path) as database:
    return database.execute("SELECT inputs FROM about").fetchone()[0]
  return None


def _fill(
  database: sqlite3.Connection, listed: Sequence[File], key_map: str | os.PathLike | None, say: Say
) -> None:
  shown = Progress(say, "pictures: archives and folders searched", len(listed))
  problems = 0

  def note(trouble: Trouble) -> None:
    nonlocal problems
    problems += 1
    if problems > MAX_PROBLEMS:
      raise XmcapError(
        f"{trouble.where}: more than {MAX_PROBLEMS:,} pictures with problems ({trouble.kind}): name each place of "
        "pictures once, and none that is not of the release"
      )
    database.execute("INSERT INTO problems VALUES (?, ?, ?)", trouble)

  for number, file in enumerate(listed):
    for entry in _entries(file):
      if isinstance(entry, Trouble):
        note(entry)
      elif isinstance(entry, Address):
        row = (number, _bytes(entry.stem), _bytes(entry.url))
        database.execute("INSERT INTO addresses VALUES (?, ?, ?)", row)
      else:
        row = _row(number, file, entry)
        database.execute("INSERT INTO pictures VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    shown(number + 1)
  if not database.execute("SELECT EXISTS (SELECT * FROM pictures)").fetchone()[0]:
    searched = ", ".join(file.path for file in listed[:3])
    raise UsageError(f"{searched}: no picture in it: name where the pictures are")
  database.executescript(_INDEXES)
  database.execute(_ADD_URLS)
  for number, path in database.execute(_DUPLICATES):
    note(Trouble("duplicate_picture", listed[number].describe(_text(path), whole=False), ""))
  if key_map is not None:
    _add_map(database, key_map)


def _entries(file: File) -> Iterator[Entry]:
  if file.kind == FOLDER:
    return archives.search_folder(file.path)
  if file.kind == ZIP:
    return archives.search_zip(file.path)
  if file.kind == PACKED_TAR:
    tar_files.unpack(file.path, file.unpacked)
  return tar_files.search_tar(file.unpacked or file.path, file.kind != SHARD, known_as=file.path)


def _row(number: int, file: File, found: Found) -> tuple[int | bytes, ...]:
  folder, _, name = found.path.rpartition("/")
  tail = f"{folder.rpartition('/')[2] or file.name}/{name}"
  base, stem = archives.split_suffix(found.path)[0], archives.split_suffix(name)[0]
  place = found.path if file.kind == FOLDER else ""
  return number, *map(_bytes, (base, tail, stem, place, found.path)), *found[1:]


def _bytes(text: str) -> bytes:
  return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
  return data.decode("utf-8", "surrogatepass")


def _first(
  database: sqlite3.Connection, condition: str, *texts: str, alone: bool = False
) -> tuple[int, int, Found]:
  """Number, file and place of the first picture for which a condition holds.

  KeyError if there is none, or several where one is to be `alone`.
  """
  rows = database.execute(
    "SELECT number, file, path, offset, size, packed, crc FROM pictures "
    f"WHERE {condition} ORDER BY {_ORDER} LIMIT 2",
    [_bytes(text) for text in texts],
  ).fetchall()
  if not rows or (alone and len(rows) > 1):
    raise KeyError(texts[-1])
  number, file, path, *place = rows[0]
  return number, file, Found(_text(path), *place)


def _find_path(database: sqlite3.Connection, path: str) -> tuple[int, int, Found]:
  """`_first` for a path as a release gives it: by the last folder and the name, else by the name."""
  folder, _, name = path.rpartition("/")
  if folder:
    with contextlib.suppress(KeyError):
      return _first(database, "tail = ?", f"{folder.rpartition('/')[2]}/{name}")
  # Of several pictures with this name none lies where the path says.
  return _first(database, "stem = ?", archives.split_suffix(name)[0], alone=bool(folder))


def _find_mapped(database: sqlite3.Connection, path: str) -> int:
  """The number of the picture that a key map names: by its whole path, or as `_find_path`."""
  inside = "/".join(part for part in path.split("/") if part not in ("", "."))
  with contextlib.suppress(KeyError):
    return _first(database, "base = ? AND path = ?", archives.split_suffix(inside)[0], inside)[0]
  return _find_path(database, path)[0]


def _canonical(key: str) -> str:
  """A key of a key map; numbers are the same with and without zeros before them."""
  return key.lstrip("0") or "0" if key.isdecimal() and key.isascii() else key


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
      key, _, file = text.partition("\t")
      if not (key and file) or len(line) == _MAX_MAP_LINE:
        raise UsageError(f"{path}, line {number:,}: give a key, a tab and the name of a file")
      try:
        found = _find_mapped(database, file)
      except KeyError:
        continue  # it is counted as missing when it is asked for
      if "://" in key:
        database.execute("INSERT OR IGNORE INTO urls VALUES (?, ?)", (_bytes(key), found))
        continue
      try:
        database.execute("INSERT INTO keys VALUES (?, ?)", (_bytes(_canonical(key)), found))
      except sqlite3.IntegrityError:
        raise UsageError(
          f"{path}, line {number:,}: the key map names a key twice, for two files: keep one line a key"
        ) from None
