"""Finds and reads files in folders and archives (for tar files see tar_files.py), without trusting their names.

The search gives the position of every file in its archive, and reading takes bytes from there. Names that lead out of
the folder, links and devices are refused, and no name in an archive is ever used as a path.
"""

import dataclasses
import io
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import paths
from xmcap.terminal import shown

MAX_BYTES = 128 << 20
"""Bytes read of a file at most; a larger image counts as truncated."""

MAX_ABOUT = 1 << 20
"""Bytes of a .json beside an image (it may contain EXIF data); longer ones are not read."""

MAX_DIRECTORY = 256 << 20
"""Bytes of a zip file's directory, enough for about 3 million files; that of train2014.zip has 7 million."""

FOLDER, ZIP, TAR, PACKED_TAR, SHARD = "folder", "zip", "tar", "packed tar", "one of many tars"

PICTURES = (
  *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp"),
  *(".avif", ".heic", ".heif", ".tif", ".tiff"),  # not always read, but never silently passed over
)
"""Suffixes of images, in lower case."""

_NOT_PICTURES = (
  *(".json", ".jsonl", ".txt", ".csv", ".tsv", ".parquet", ".md", ".html", ".htm", ".xml", ".cls", ".npy"),
  *(".tar", ".zip", ".gz", ".tgz", ".bz2", ".py", ".log", ".pdf", ".docx", ".xlsx", ".mp4", ".mov"),
  *(".db", ".ini", ".lnk", ".xmp", ".aae"),  # from Windows and cameras
)
_LOCAL_HEADER = 30  # bytes before the name of an entry in a zip file
_DRIVE = re.compile(r"[A-Za-z]:")
_DAMAGE = (OSError, EOFError, ValueError, OverflowError, zlib.error, struct.error, zipfile.BadZipFile)


class Found(NamedTuple):
  """A file: its path in the archive or folder, and the position of its bytes; `packed` is its deflated size, or 0."""

  path: str
  offset: int = 0
  size: int = 0
  packed: int = 0
  crc: int = 0


class Address(NamedTuple):
  """The URL from which the image `stem` (its path without a suffix) was fetched."""

  stem: str
  url: str


class Trouble(NamedTuple):
  """The arguments of `Problems.add`."""

  kind: str
  where: str
  what: str


Entry = Found | Address | Trouble
RoleOf = Callable[[str], str]
"""Says of a path whether it is a `file` to find, `about` an image (a .json with its URL), or "", to be skipped."""


@dataclasses.dataclass(frozen=True)
class File:
  """An archive or folder with images; `unpacked` is the tar file to which a `PACKED_TAR` is decompressed."""

  kind: str
  path: str
  unpacked: str = ""

  @property
  def name(self) -> str:
    """The name of the folder that it corresponds to: `train2014` for train2014.zip."""
    name = os.path.basename(self.path)
    return name if self.kind == FOLDER else name.split(".")[0]

  def describe(self, path: str, whole: bool = True) -> str:
    """Returns the place of an image for messages; if not `whole`, without parent folders, which vary by machine."""
    top = self.path if whole else os.path.basename(self.path)
    return os.path.join(top, shown(path)) if self.kind == FOLDER else f"{top}: {shown(path)}"


def kind_of(path: str | os.PathLike) -> str:
  """Returns the kind of a path, by its content; UsageError if it is not a known kind, or cannot be read."""
  if os.path.isdir(path):
    return FOLDER
  paths.check_file(path)
  try:
    with open(path, "rb") as file:
      head = file.read(512)
  except OSError as error:
    raise UsageError(f"{path}: {error.strerror}: give the folder or archive of the pictures") from None
  if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
    return ZIP
  if head.startswith((b"\x1f\x8b", b"BZh")):
    return PACKED_TAR
  if head[257:262] == b"ustar":
    return TAR
  if os.fspath(path).lower().endswith(".tar"):
    raise UsageError(f"{path}: no tar file, or one whose first header is damaged: download it again")
  kinds = "neither a folder nor a .zip, .tar, .tgz or .tar.bz2 archive"
  raise UsageError(f"{path}: {kinds}: give one that contains pictures")


def split_suffix(path: str) -> tuple[str, str]:
  """Splits a path into stem and known suffix in lower case: `a/b.JPG` into `a/b` and `.jpg`."""
  stem, dot, suffix = path.rpartition(".")
  suffix = f".{suffix.lower()}"
  if dot and stem and not stem.endswith("/") and (suffix in PICTURES or suffix in _NOT_PICTURES):
    return stem, suffix
  return path, ""


def safe_path(name: str) -> str | None:
  """Returns the name of an entry as a path inside the archive, with `/`; None if it leads out of the archive."""
  name = name.replace("\\", "/")
  parts = name.split("/")
  if name.startswith("/") or ".." in parts or "\0" in name or _DRIVE.match(name):
    return None
  return "/".join(part for part in parts if part not in ("", "."))


def role_of(path: str) -> str:
  """The `RoleOf` of images; img2dataset writes a .json with the URL beside each."""
  name = path.rpartition("/")[2]
  if not name or name.startswith(".") or path.startswith("__MACOSX/"):
    return ""
  suffix = split_suffix(name)[1]
  return "about" if suffix == ".json" else "" if suffix in _NOT_PICTURES else "file"


def addresses_in(data: bytes, path: str) -> Iterator[Address]:
  """Yields the URL in the .json `path`, if img2dataset wrote it for an image that it fetched."""
  try:
    about: Any = json.loads(data)
  except (ValueError, RecursionError):
    return
  if isinstance(about, dict) and about.get("status", "success") == "success":
    url = about.get("url")
    if isinstance(url, str) and url:
      yield Address(split_suffix(path)[0], url)


class TooLarge(ValueError):
  """A read of more bytes than allowed."""


class Bounded(io.FileIO):
  """A file with a limit per read, because zipfile and tarfile read a directory or header of any claimed size."""

  def __init__(self, path: str, most: int):
    super().__init__(path)
    self._most = most

  def read(self, size: int | None = -1) -> bytes:
    if size == -1:
      size = os.fstat(self.fileno()).st_size - self.tell()
    if size is None or not 0 <= size <= self._most:
      raise TooLarge(f"a header of {size:,} bytes")
    return super().read(size)


def unsafe(name: str, archive: str = "") -> Trouble:
  """Returns the problem for an entry that is refused."""
  where = f"{os.path.basename(archive)}: {shown(name)}" if archive else shown(name)
  return Trouble("unsafe_path", where, "a link or device, or a path that leads out of the folder")


def search_folder(path: str, role_of: RoleOf = role_of) -> Iterator[Entry]:
  """Yields the entries of a folder at any depth, following links; XmcapError if a folder cannot be read."""
  waiting, seen = [""], set()
  while waiting:
    inside = waiting.pop()
    folder = os.path.join(path, inside)
    try:
      about = os.stat(folder)
      if (about.st_dev, about.st_ino) in seen:
        continue  # a link to a parent folder
      seen.add((about.st_dev, about.st_ino))
      with os.scandir(folder) as entries:
        for entry in entries:
          name = f"{inside}/{entry.name}" if inside else entry.name
          if entry.is_dir():
            if not entry.name.startswith(".") and entry.name != "__MACOSX":
              waiting.append(name)
          elif role := role_of(name):
            if not entry.is_file():
              if os.path.exists(entry.path):  # a dangling link counts as a missing image
                yield unsafe(name)
            elif role == "file":
              yield Found(name)
            else:
              with open(entry.path, "rb") as file:
                yield from addresses_in(file.read(MAX_ABOUT), name)
    except OSError as error:
      raise XmcapError(f"cannot read the folder {folder}: {error.strerror}: fix it or give another") from None


def search_zip(path: str, role_of: RoleOf = role_of) -> Iterator[Entry]:
  """Yields the entries of a zip file; XmcapError if it is damaged, encrypted, or cannot be read in place."""
  try:
    with Bounded(path, MAX_DIRECTORY) as file, zipfile.ZipFile(file) as archive:
      for info in archive.infolist():
        inside = safe_path(info.filename)
        if inside is None or stat.S_ISLNK(info.external_attr >> 16):
          yield unsafe(info.filename, path)
          continue
        role = "" if info.filename.endswith("/") else role_of(inside)
        if role == "about" and info.file_size <= MAX_ABOUT:
          with archive.open(info) as entry:
            yield from addresses_in(entry.read(MAX_ABOUT), inside)
        elif role == "file":
          yield Found(inside, *_place_in_zip(file, info))
  except TooLarge:
    limit = f"its directory has over {MAX_DIRECTORY >> 20} MB"
    raise XmcapError(f"{path}: {limit}: unpack it into folders, and give those") from None
  except _DAMAGE as error:
    raise XmcapError(f"{path}: not a complete zip file ({reason_of(error)}): download it again") from None
  except (NotImplementedError, RuntimeError) as error:
    raise XmcapError(f"{path}: {reason_of(error)}: unpack it into a folder, and give that") from None


def _place_in_zip(file: io.FileIO, info: zipfile.ZipInfo) -> tuple[int, int, int, int]:
  """Returns offset, size, compressed size and CRC of an entry."""
  if info.flag_bits & 1:
    raise RuntimeError("its entries are encrypted")
  if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
    raise NotImplementedError("its entries are neither stored nor deflated")
  file.seek(info.header_offset)
  header = file.read(_LOCAL_HEADER)
  if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\x03\x04"):
    raise zipfile.BadZipFile(f"no entry at byte {info.header_offset:,}")
  names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
  packed = info.compress_size if info.compress_type == zipfile.ZIP_DEFLATED else 0
  size = info.file_size if packed else info.compress_size
  return info.header_offset + _LOCAL_HEADER + names, size, packed, info.CRC


def read(file: File, place: Found) -> bytes:
  """Returns the bytes of an image; XmcapError names it if the archive has changed or is damaged."""
  try:
    if file.kind == FOLDER:
      with open(os.path.join(file.path, place.path), "rb") as opened:
        return opened.read(MAX_BYTES)
    size = place.packed or place.size
    with open(file.unpacked or file.path, "rb", buffering=0) as opened:
      data = os.pread(opened.fileno(), min(size, MAX_BYTES), place.offset)
    if len(data) < min(size, MAX_BYTES):
      raise OSError("it is truncated")
    if place.packed:
      data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, min(place.size + 1, MAX_BYTES))
    if file.kind == ZIP and max(size, place.size) < MAX_BYTES and zlib.crc32(data) != place.crc:
      raise OSError("its checksum is wrong")
    return data
  except (OSError, OverflowError, zlib.error) as error:
    message = f"{file.describe(place.path)}: has changed since the search, or is damaged ({reason_of(error)})"
    raise XmcapError(f"{message}: download it again") from None


def reason_of(error: BaseException) -> str:
  """Returns the reason of an error in one line, without the path."""
  return shown(getattr(error, "strerror", None) or one_line(error))
