"""Finds the images of a release in folders and archives, and reads them in place, by name or URL.

A place is one of

  a folder of images, at any depth (`train2014/`, or img2dataset's files with a .json beside each)
  a .zip or .tar, read in place; a .tgz or .tar.bz2, decompressed once into the working folder
  a folder of .tar files from img2dataset (WebDataset: KEY.jpg, KEY.json with the URL)

No key becomes a path: it is only looked up among the names that were found. These are in a database on disk, so
millions of them take no memory.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from xmcap.corpora.building import key_map as key_map_lib
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.problems import Problems
from xmcap.data.records import Caption
from xmcap.errors import UsageError
from xmcap.files import databases, files
from xmcap.progress import Progress
from xmcap.reading import archives, tar_files
from xmcap.reading.archives import FOLDER, PACKED_TAR, SHARD, Address, File, Found, Trouble

MAX_PROBLEMS = 200_000
"""More entries that are refused or duplicate are an error."""

# COCO's pictures by their ids: 000000000042.jpg of 2017, COCO_val2014_000000000042.jpg.
_COCO_DIGITS, _COCO_PREFIXES = 12, ("", "COCO_train2014_", "COCO_val2014_")
_MAX_DEPTH = 32  # folders of a path that are compared

# An image has its path, the path without suffix (base), its last folder and name (tail), its name without suffix
# (stem), and the position of its bytes, as in `archives.Found`. Strings are bytes, because file names may not be UTF-8.
# `folded` and `folded_stem` are path and stem as `_folded` spells them, where that differs, for `ByPath` alone.
# `place` orders the images of a folder, which the file system lists in any order, by path; those of an archive keep
# their order.
_SCHEMA = """
CREATE TABLE about (files, has_urls, is_mapped);
CREATE TABLE pictures (
  number INTEGER PRIMARY KEY, file, base, tail, stem, place, folded, folded_stem, path, offset, size, packed, crc
);
CREATE TABLE addresses (file, base, url);
CREATE TABLE urls (url PRIMARY KEY, number) WITHOUT ROWID;
CREATE TABLE key_map (key PRIMARY KEY, path) WITHOUT ROWID;
CREATE TABLE problems (kind, place, what);
"""
_INDEXES = """
CREATE INDEX tails ON pictures (tail);
CREATE INDEX stems ON pictures (stem);
CREATE INDEX bases ON pictures (base, file);
CREATE INDEX folded_paths ON pictures (folded) WHERE folded IS NOT NULL;
CREATE INDEX folded_stems ON pictures (folded_stem) WHERE folded_stem IS NOT NULL;
"""
_OF_PATH = "base = ? AND path = ?"
# If several images have the same name, the first in this order counts.
_ORDER = "file, place, number"
# A URL belongs to the image beside it; if two were fetched from the same URL, the first counts.
_ADD_URLS = f"""
INSERT OR IGNORE INTO urls SELECT url, number FROM addresses AS found
JOIN pictures USING (base, file) ORDER BY {_ORDER}
"""
# Images are identified by name; or, if URLs are known, by path, because keys start anew in each download.
_DUPLICATES = f"""
SELECT file, path FROM (SELECT *, row_number() OVER (PARTITION BY stem ORDER BY {_ORDER}) AS turn FROM pictures)
  WHERE turn > 1 AND file NOT IN (SELECT file FROM addresses)
UNION ALL
SELECT file, path FROM (SELECT *, row_number() OVER (PARTITION BY base, file ORDER BY {_ORDER}) AS turn FROM pictures)
  WHERE turn > 1 AND file IN (SELECT file FROM addresses)
"""
_HAS_URLS = "SELECT EXISTS (SELECT * FROM urls) OR EXISTS (SELECT * FROM key_map WHERE instr(key, '://'))"


@dataclasses.dataclass(frozen=True)
class Wanted:
  """An image that a release names.

  Attributes:
    key: its key in the records.
    where: its place in the release, for messages.
    name: the name of its file, for `Pictures.read`.
    url: its URL, if the release has it; used instead of the name if the URLs of the images are known.
    captions: captions known beforehand; others may come from `spill.Spilled`.
    tags: its classes; an image with tags may have no captions.
    tags_by_language: language code -> tags.
    pixels: the hash of its pixels, if it is known.
  """

  key: str
  where: str
  name: str
  url: str = ""
  locale: str = ""
  captions: list[Caption] = dataclasses.field(default_factory=list)
  tags: list[str] = dataclasses.field(default_factory=list)
  tags_by_language: dict[str, list[str]] = dataclasses.field(default_factory=dict)
  pixels: str = ""


class ImageSearch:
  """The images of one or more places; made by `search`. Pickles as the path of its database.

  `has_urls` says whether the URLs of images are known (from img2dataset's .json, or a key map of URLs).
  """

  BY_NAME: ClassVar[bool] = True
  """Whether images with the same name are duplicates."""

  def __init__(self, path: pathlib.Path):
    self._path = path
    self._database = databases.connect(path)
    listed, self.has_urls, self._is_mapped = self._database.execute("SELECT * FROM about").fetchone()
    self._files = [File(*file) for file in json.loads(listed)]

  @classmethod
  def search(
    cls,
    work: BuildInProgress,
    places: Sequence[str | os.PathLike],
    *,
    key_map: str | os.PathLike | None = None,
    name: str = "pictures",
  ) -> Self:
    """Finds the images of places; if two have the same name, the first counts.

    A complete database in the working folder is reused. The problems are `unsafe_path`, `duplicate_picture`, and
    `truncated` for a truncated tar file.

    Args:
      work: the build.
      places: folders and archives.
      key_map: file of lines `key<TAB>file`, for images whose file names are not their keys; a key may be a URL.
        Numeric keys match with or without leading zeros.
      name: folder of the database in the working folder.

    Raises:
      UsageError: a place or the key map does not exist, or is not a folder or archive of images.
      XmcapError: an archive is damaged, or the disk is full.
    """
    folder = work.folder / name
    path = folder / "pictures.sqlite"
    if not path.exists():
      listed = _files(places, folder)
      files.make_folder(folder)
      with databases.writing(path, _SCHEMA) as database:
        _fill(database, listed, work, cls.BY_NAME)
        if key_map is not None:
          _add_map(database, key_map)
        (has_urls,) = database.execute(_HAS_URLS).fetchone()
        files_of = json.dumps([dataclasses.astuple(file) for file in listed])
        database.execute("INSERT INTO about VALUES (?, ?, ?)", (files_of, has_urls, key_map is not None))
    with databases.reading(path) as database:
      work.problems.extend(database.execute("SELECT * FROM problems ORDER BY rowid"))
    images = cls(path)
    work.say(f"{len(images):,} pictures found in {', '.join(os.path.basename(place) for place in places)}")
    return images

  def __reduce__(self):
    return type(self), (self._path,)

  def __len__(self) -> int:
    """The number of images found."""
    return self._database.execute("SELECT count(*) FROM pictures").fetchone()[0]

  @property
  def searched(self) -> str:
    """The first archives and folders, for messages."""
    return ", ".join(file.path for file in self._files[:3])

  def names(self) -> Iterator[str]:
    """Yields the names of all images, without folder and suffix, in order; a name may occur twice."""
    for (stem,) in self._database.execute(f"SELECT stem FROM pictures ORDER BY {_ORDER}"):
      yield _text(stem)

  def find(self, image: Wanted) -> bytes:
    """Returns the bytes of an image, by URL if it has one and URLs are known, else by name; raises as `read`."""
    return self.by_url(image.url) if image.url and self.has_urls else self.read(image.name)

  def read(self, key: str) -> bytes:
    """Returns the bytes of an image; KeyError if there is none, XmcapError if it cannot be read.

    `key` is the name of the file without suffix (`06c5f87181c30e00`), or a path from the release
    (`val2014/COCO_val2014_000000000042.jpg`; only its last folder is used), or a key of the key map.
    """
    return self._by_key_map(key) if self._is_mapped else self._by_path(key)

  def by_url(self, url: str) -> bytes:
    """Returns the bytes of the image that was fetched from a URL; raises as `read`."""
    try:
      return self._first("number = (SELECT number FROM urls WHERE url = ?)", url)
    except KeyError:
      return self._by_key_map(url)

  def _by_key_map(self, key: str) -> bytes:
    rows = self._database.execute(
      "SELECT path FROM key_map WHERE key = ?", [_bytes(key_map_lib.canonical(key))]
    )
    row = rows.fetchone()
    if row is None:
      raise KeyError(key)
    path = _text(row[0])
    inside = "/".join(part for part in path.split("/") if part not in ("", "."))
    with contextlib.suppress(KeyError):
      return self._first(_OF_PATH, archives.split_suffix(inside)[0], inside)
    return self._by_path(path)

  def _by_path(self, path: str) -> bytes:
    """Finds an image by the last folder and name of a path, else by the name."""
    folder, _, name = path.rpartition("/")
    if folder:
      with contextlib.suppress(KeyError):
        return self._first("tail = ?", f"{folder.rpartition('/')[2]}/{name}")
    # A name that several images have is ambiguous, as none of them is in this folder.
    return self._first("stem = ?", archives.split_suffix(name)[0], alone=bool(folder))

  def _first(self, condition: str, *texts: str, alone: bool = False) -> bytes:
    """Reads the first image that meets a condition; KeyError if there is none, or several if `alone`."""
    rows = self._two("file, path, offset, size, packed, crc", condition, *texts, order=_ORDER)
    if not rows or (alone and len(rows) > 1):
      raise KeyError(texts[-1])
    file, path, *position = rows[0]
    return archives.read(self._files[file], Found(_text(path), *position))

  def _two(self, columns: str, condition: str, *values: str | int, order: str = "") -> list[tuple]:
    """Returns columns of up to two images that meet a condition; without an order it never reads more than two."""
    query = f"SELECT {columns} FROM pictures WHERE {condition}{f' ORDER BY {order}' if order else ''} LIMIT 2"
    parameters = [_bytes(value) if isinstance(value, str) else value for value in values]
    return self._database.execute(query, parameters).fetchall()


class ByPath(ImageSearch):
  """Images identified by path, not by name: the name of a `Wanted` is the number from `resolve` or `paths`."""

  BY_NAME = False

  def find(self, image: Wanted) -> bytes:
    """Returns the bytes of an image; raises as `read`."""
    if not image.name:
      raise KeyError(image.where)
    return self._first("number = CAST(? AS INTEGER)", image.name)

  def resolve(self, path: str, archive: str = "") -> tuple[int, str] | None:
    """Returns the number and path of an image; None if there is none, or if it is ambiguous.

    Tries the image that was fetched from it, if it is a URL, then this path, then ever shorter ends of it, then its
    name without suffix, which must be unique; all that also in another case and in Unicode's other normal form, where
    one image alone fits. A number is also an id of COCO's. With an `archive`, only this exact path in the archive
    counts.
    """
    if archive:
      base = archives.split_suffix(path)[0]
      return self._one(f"file = ? AND {_OF_PATH}", self._places[archive], base, path)
    if image := self.fetched(path):
      return image
    parts = _parts(path)
    if not parts:
      return None
    ends = ["/".join(parts[start:]) for start in range(max(0, len(parts) - _MAX_DEPTH), len(parts))]
    stem = archives.split_suffix(parts[-1])[0]
    for inside in ends:
      if image := self._one(_OF_PATH, archives.split_suffix(inside)[0], inside):
        return image
    for inside in ends[:-1]:
      base = archives.split_suffix(inside)[0]
      if image := self._one("base = ?", base) or self._only(self._folded_paths(inside)):
        return image
    named = self._two("number, path", "stem = ?", stem)
    named = named or self._folded_paths(ends[-1]) or self._folded_stems(stem)
    if not named and path.isdecimal() and len(path) <= _COCO_DIGITS:
      of_coco = [f"{prefix}{int(path):0{_COCO_DIGITS}d}" for prefix in _COCO_PREFIXES]
      named = [row for of_id in of_coco for row in self._two("number, path", "stem = ?", of_id)]
    return self._only(named)

  def fetched(self, url: str) -> tuple[int, str] | None:
    """Returns the number and path of the image that was fetched from a URL; None if there is none."""
    return self._one("number = (SELECT number FROM urls WHERE url = ?)", url) if "://" in url else None

  def alike(self, path: str) -> list[str]:
    """Returns two images that have the last part of a path as their name, in any folder and spelling; else []."""
    parts = _parts(path)
    images = self._folded_stems(archives.split_suffix(parts[-1])[0]) if parts else []
    return sorted(_text(path) for _, path in images)[:2] if len(images) > 1 else []

  def paths(self) -> Iterator[tuple[int, str]]:
    """Yields (number, path) of every image, in order."""
    for number, path in self._database.execute(f"SELECT number, path FROM pictures ORDER BY {_ORDER}"):
      yield number, _text(path)

  def _one(self, condition: str, *values: str | int) -> tuple[int, str] | None:
    return self._only(self._two("number, path", condition, *values))

  def _only(self, rows: list[tuple]) -> tuple[int, str] | None:
    return (rows[0][0], _text(rows[0][1])) if len(rows) == 1 else None

  def _folded_paths(self, path: str) -> list[tuple]:
    path = _folded(path)  # which is NULL in the database for a path that is spelt so
    own = self._two("number, path", _OF_PATH, archives.split_suffix(path)[0], path)
    return own + self._two("number, path", "folded = ?", path)

  def _folded_stems(self, stem: str) -> list[tuple]:
    stem = _folded(stem)
    return self._two("number, path", "stem = ?", stem) + self._two("number, path", "folded_stem = ?", stem)

  @functools.cached_property
  def _places(self) -> dict[str, int]:
    return {file.path: place for place, file in reversed([*enumerate(self._files)])}


def _parts(path: str) -> list[str]:
  return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]


def _files(places: Sequence[str | os.PathLike], folder: pathlib.Path) -> list[File]:
  """Returns the files of places; a folder with .tar files at its top level stands for those files."""
  listed: list[File] = []
  is_shards = sum(os.fspath(place).lower().endswith(".tar") for place in places) > 1
  for place in [os.path.abspath(os.fspath(place)) for place in places]:
    is_shard = is_shards and place.lower().endswith(".tar") and os.path.isfile(place)
    kind = SHARD if is_shard else archives.kind_of(place)
    try:
      names = sorted(os.listdir(place)) if kind == FOLDER else []
    except OSError as error:
      raise UsageError(f"{place}: {error.strerror}: give a readable folder") from None
    tars = [name for name in names if name.endswith(".tar") and not name.startswith(".")]
    tars = [File(SHARD, path) for name in tars if os.path.isfile(path := os.path.join(place, name))]
    unpacked = str(folder / f"unpacked-{len(listed):05d}.tar") if kind == PACKED_TAR else ""
    listed += tars or [File(kind, place, unpacked)]
  return listed


def _fill(database: sqlite3.Connection, listed: Sequence[File], work: BuildInProgress, by_name: bool) -> None:
  progress = Progress(work.say, "pictures: archives and folders searched", len(listed))
  problems = Problems(most=MAX_PROBLEMS)
  for number, file in enumerate(listed):
    for entry in tar_files.search(file):
      if isinstance(entry, Trouble):
        problems.add(*entry)
      elif isinstance(entry, Address):
        row = (number, _bytes(entry.stem), _bytes(entry.url))
        database.execute("INSERT INTO addresses VALUES (?, ?, ?)", row)
      else:
        row = _row(number, file, entry, by_name)
        database.execute(f"INSERT INTO pictures VALUES (NULL{', ?' * len(row)})", row)
    progress(number + 1)
  if not database.execute("SELECT EXISTS (SELECT * FROM pictures)").fetchone()[0]:
    raise UsageError(f"{listed[0].path}: contains no pictures: give the place of the pictures")
  database.executescript(_INDEXES)
  database.execute(_ADD_URLS)
  if by_name:
    for number, path in database.execute(_DUPLICATES):
      problems.add("duplicate_picture", listed[number].describe(_text(path), whole=False))
  database.executemany("INSERT INTO problems VALUES (?, ?, ?)", problems.listed)


def _row(number: int, file: File, image: Found, by_name: bool) -> tuple[int | bytes | None, ...]:
  folder, _, name = image.path.rpartition("/")
  tail = f"{folder.rpartition('/')[2] or file.name}/{name}"
  base, stem = archives.split_suffix(image.path)[0], archives.split_suffix(name)[0]
  place = image.path if file.kind == FOLDER else ""
  spelt = [
    None if by_name or (text := _folded(name)) == name else _bytes(text) for name in (image.path, stem)
  ]
  return number, *map(_bytes, (base, tail, stem, place)), *spelt, _bytes(image.path), *image[1:]


def _folded(name: str) -> str:
  """Returns a name as file systems that ignore case and normalisation compare it: macOS and Windows."""
  return (
    name.lower()
    if name.isascii()
    else unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
  )


def _bytes(text: str) -> bytes:
  return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
  return data.decode("utf-8", "surrogatepass")


def _add_map(database: sqlite3.Connection, path: str | os.PathLike) -> None:
  """Adds the rows of a key map; its file names are only looked up among the images, never opened."""
  for number, key, file in key_map_lib.rows(path):
    # If a URL has two files, the first counts, as in a release that lists a URL twice.
    insert = "INSERT OR IGNORE" if "://" in key else "INSERT"
    try:
      database.execute(f"{insert} INTO key_map VALUES (?, ?)", (_bytes(key), _bytes(file)))
    except sqlite3.IntegrityError:
      hint = "the key map has this key twice, for two files: keep one line per key"
      raise UsageError(f"{path}, line {number:,}: {hint}") from None
