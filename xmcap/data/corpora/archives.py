"""What is in folders and zip files (tar files: tar_files.py), and the bytes of it, without trusting a name.

Searching gives every picture's place in its file; reading takes bytes from there. A name that would leave its folder
is refused, and so are links and devices; none is ever used as the name of a file. What is not a picture by its name
is passed over, but for the .json that img2dataset writes beside a picture, which holds the picture's address.
"""

import collections
import dataclasses
import io
import json
import lzma
import os
import pathlib
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from xmcap.errors import UsageError, XmcapError
from xmcap.terminal import shown

MAX_BYTES = 128 << 20
"""No more of a file is read; a picture that goes on behind that is found to break off."""

MAX_ABOUT = 1 << 20
"""Bytes of a .json beside a picture, in which EXIF data can be; longer ones are not read."""

PICTURE_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp")
"""Endings that are no part of a picture's key."""

FOLDER, ZIP, TAR, PACKED_TAR = "folder", "zip", "tar", "packed tar"

_NOT_PICTURES = (
  *(".json", ".jsonl", ".txt", ".csv", ".tsv", ".parquet", ".md", ".html", ".htm", ".xml", ".cls", ".npy"),
  *(".tar", ".zip", ".gz", ".tgz", ".bz2", ".py", ".log"),
)
MAX_DIRECTORY = 256 << 20
"""Bytes of a zip file's directory, of about 3 million files; train2014.zip has 7 million bytes."""

_ZIP_TAIL = 22 + 0xFFFF + 76 + 1024  # the records at the end, with the longest comment
_OPEN_AT_ONCE = 256
_LOCAL_HEADER = 30  # bytes before the name of an entry in a zip file
_ENCRYPTED = 1
_DRIVE = re.compile(r"[A-Za-z]:")
_DAMAGE = (
  *(OSError, EOFError, ValueError, OverflowError),
  *(zlib.error, lzma.LZMAError, struct.error, zipfile.BadZipFile),
)


class Found(NamedTuple):
  """A picture: its path in the archive or folder, and where its bytes lie.

  `packed` is the number of bytes that it takes when deflated, 0 if it lies there as it is; `crc` its CRC-32, if the
  archive has one.
  """

  path: str
  offset: int
  size: int
  packed: int = 0
  crc: int = 0


class Address(NamedTuple):
  """The address from which the picture `stem` (its path without a suffix) was fetched."""

  stem: str
  url: str


class Trouble(NamedTuple):
  """A problem: kind, where, what."""

  kind: str
  where: str
  what: str


@dataclasses.dataclass(frozen=True)
class File:
  """An archive, or a folder, with pictures.

  Attributes:
    kind: `FOLDER`, `ZIP`, `TAR` or `PACKED_TAR`.
    path: where it is.
    unpacked: of a `PACKED_TAR`, the file that its pictures are copied into, one behind the other.
  """

  kind: str
  path: str
  unpacked: str = ""

  @property
  def name(self) -> str:
    """The name of the folder that its top stands for: `train2014` of train2014.zip."""
    name = os.path.basename(os.path.abspath(self.path))
    return name if self.kind == FOLDER else name.split(".")[0]


def kind_of(path: str | os.PathLike) -> str:
  """Which kind of place a path is, by its content.

  Raises:
    UsageError: it is not there, cannot be read, or is none of them.
  """
  if os.path.isdir(path):
    return FOLDER
  try:
    with open(path, "rb") as file:
      head = file.read(512)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
      return ZIP
    if head.startswith((b"\x1f\x8b", b"BZh")):
      return PACKED_TAR
    if head[257:262] == b"ustar":
      return TAR
  except OSError as error:
    raise UsageError(f"{path}: {error.strerror}: name the folder or archive of the pictures") from None
  raise UsageError(
    f"{path}: no folder and no .zip, .tar, .tgz or .tar.bz2 archive: name one that holds pictures"
  )


def split_suffix(path: str) -> tuple[str, str]:
  """A path without the ending that its kind has, and that ending in small letters: `a/b.JPG` is `a/b`, `.jpg`."""
  stem, dot, suffix = path.rpartition(".")
  suffix = f".{suffix.lower()}"
  if dot and stem and not stem.endswith("/") and (suffix in PICTURE_SUFFIXES or suffix in _NOT_PICTURES):
    return stem, suffix
  return path, ""


def safe_path(name: str) -> str | None:
  """An entry's name as a path inside the archive, with `/`; None if it would lead out of it."""
  name = name.replace("\\", "/")
  parts = name.split("/")
  if name.startswith("/") or ".." in parts or "\0" in name or _DRIVE.match(name):
    return None
  return "/".join(part for part in parts if part not in ("", "."))


def role_of(path: str) -> str:
  """`picture`, `about` (a .json), or "" for what is passed over."""
  name = path.rpartition("/")[2]
  if not name or name.startswith(".") or path.startswith("__MACOSX/"):
    return ""
  suffix = split_suffix(name)[1]
  return "about" if suffix == ".json" else "" if suffix in _NOT_PICTURES else "picture"


def address_in(data: bytes) -> str | None:
  """The address in what img2dataset wrote about a picture that it fetched; None if there is none."""
  try:
    about: Any = json.loads(data)
  except (ValueError, RecursionError):
    return None
  if not isinstance(about, dict) or about.get("status", "success") != "success":
    return None
  url = about.get("url")
  return url if isinstance(url, str) and url else None


def search_folder(path: str, inside: str = "", below: bool = True) -> Iterator[Found | Address | Trouble]:
  """Yields what is in the folder `inside` of a folder, and, where `below`, in those in it; links are followed.

  The paths are relative to `path`, in the order of the file system; `offset` and `size` say nothing.

  Raises:
    XmcapError: a folder cannot be read.
  """
  waiting, seen = [inside], set()
  while waiting:
    inside = waiting.pop()
    folder = os.path.join(path, inside)
    try:
      about = os.stat(folder)
      if (about.st_dev, about.st_ino) in seen:
        continue  # a link to a folder above it
      seen.add((about.st_dev, about.st_ino))
      with os.scandir(folder) as entries:
        for entry in entries:
          name = f"{inside}/{entry.name}" if inside else entry.name
          if entry.is_dir():
            if below and not entry.name.startswith(".") and entry.name != "__MACOSX":
              waiting.append(name)
          elif role := role_of(name):
            if entry.is_file():
              yield from _file_entry(entry.path, name, role)
            elif os.path.exists(entry.path):  # a link that leads nowhere is a picture that is missing
              yield Trouble("unsafe_path", shown(name), "a device or pipe, no file")
    except OSError as error:
      raise XmcapError(
        f"cannot read the folder {folder}: {error.strerror}: mend it or name another"
      ) from None


def _file_entry(path: str, name: str, role: str) -> Iterator[Found | Address]:
  if role == "picture":
    yield Found(name, 0, 0)
    return
  with open(path, "rb") as file:
    if url := address_in(file.read(MAX_ABOUT)):
      yield Address(split_suffix(name)[0], url)


def search_zip(path: str) -> Iterator[Found | Address | Trouble]:
  """Yields what is in a zip file, in the order of its directory.

  Raises:
    XmcapError: it is damaged, encrypted, or packed in a way that is not read in place.
  """
  try:
    with open(path, "rb") as file:
      if _directory_size(file) > MAX_DIRECTORY:
        raise XmcapError(
          f"{path}: its directory has over {MAX_DIRECTORY >> 20} MB: unpack it into folders, and name those"
        )
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
      for info in archive.infolist():
        inside = safe_path(info.filename)
        mode = info.external_attr >> 16
        if inside is None or (mode and stat.S_ISLNK(mode)):
          yield Trouble(
            "unsafe_path",
            f"{os.path.basename(path)}: {shown(info.filename)}",
            "a link, or a path out of the folder",
          )
          continue
        role = "" if info.filename.endswith("/") else role_of(inside)
        if role == "about" and info.file_size <= MAX_ABOUT:
          with archive.open(info) as entry:
            if url := address_in(entry.read(MAX_ABOUT)):
              yield Address(split_suffix(inside)[0], url)
        elif role == "picture":
          yield Found(inside, *_place_in_zip(file, info))
  except _DAMAGE as error:
    raise XmcapError(f"{path}: no whole zip file ({reason_of(error)}): download it again") from None
  except (NotImplementedError, RuntimeError) as error:
    raise XmcapError(f"{path}: {reason_of(error)}: unpack it into a folder, and name that") from None


def _directory_size(file: BinaryIO) -> int:
  """Bytes of the directory that a zip file says it has, which zipfile would read into memory; 0 where none is found."""
  size = file.seek(0, os.SEEK_END)
  start = max(0, size - _ZIP_TAIL)
  file.seek(start)
  tail = file.read()
  place = tail.rfind(b"PK\x05\x06")
  if place < 0 or place + 22 > len(tail):
    return 0
  held = int.from_bytes(tail[place + 12 : place + 16], "little")
  # A large archive says so in a record of its own; the one at the end then holds a mark alone.
  large = tail.rfind(b"PK\x06\x06", 0, place)
  if large >= 0:
    return max(held % 0xFFFFFFFF, int.from_bytes(tail[large + 40 : large + 48], "little"))
  return min(held, size)


def _place_in_zip(file: BinaryIO, info: zipfile.ZipInfo) -> tuple[int, int, int, int]:
  if info.flag_bits & _ENCRYPTED:
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


class OpenFiles:
  """Reads the bytes of pictures; opens files when they are first needed, and keeps few open; not for threads.

  Args:
    files: what entries' numbers of files stand for.
  """

  def __init__(self, files: Sequence[File]):
    self._files = files
    self._open: collections.OrderedDict[int, io.FileIO] = collections.OrderedDict()

  def __getstate__(self) -> dict[str, Any]:
    return {"_files": self._files, "_open": collections.OrderedDict()}

  def read(self, number: int, found: Found) -> bytes:
    """The bytes of a picture that was found in file `number`.

    Raises:
      XmcapError: they are not there any more, or the archive is damaged there; names the file and the picture.
    """
    file = self._files[number]
    try:
      if file.kind == FOLDER:
        with open(os.path.join(file.path, found.path), "rb") as opened:
          return opened.read(MAX_BYTES)
      wanted = min(found.packed or found.size, MAX_BYTES)
      data = os.pread(self._opened(number).fileno(), wanted, found.offset)
      if len(data) < wanted:
        raise OSError("it ends before")
      if file.kind == ZIP:
        data = _unpacked(data, found)
      return data
    except (OSError, OverflowError, zlib.error) as error:
      raise XmcapError(
        f"{described(file, found.path)}: has changed since it was searched, or is damaged ({reason_of(error)}): "
        "download it again"
      ) from None

  def _opened(self, number: int) -> io.FileIO:
    if number in self._open:
      self._open.move_to_end(number)
    else:
      if len(self._open) >= _OPEN_AT_ONCE:
        self._open.popitem(last=False)[1].close()
      self._open[number] = io.FileIO(self._files[number].unpacked or self._files[number].path)
    return self._open[number]


def _unpacked(data: bytes, found: Found) -> bytes:
  if found.packed:
    data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, min(found.size + 1, MAX_BYTES))
  if max(found.packed, found.size) < MAX_BYTES and zlib.crc32(data) != found.crc:
    raise zlib.error("its check sum is wrong")
  return data


def described(file: File, path: str, whole: bool = True) -> str:
  """Where a picture lies, for messages; not `whole`: without the folders above, which differ between machines."""
  top = file.path if whole else os.path.basename(file.path)
  return os.path.join(top, shown(path)) if file.kind == FOLDER else f"{top}: {shown(path)}"


def reason_of(error: BaseException) -> str:
  """What an error says, in one line."""
  return shown(getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__)


def fingerprint(path: str | os.PathLike) -> list:
  """What changes when a file or folder does: its path, size and time."""
  about = os.stat(path)
  return [str(pathlib.Path(path).absolute()), about.st_size, about.st_mtime_ns]
