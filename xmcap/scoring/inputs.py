"""Files of captions as they are read: plain or packed, within limits of size, with errors that name file and line."""

import bz2
import codecs
import contextlib
import csv
import gc
import gzip
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Protocol

from xmcap.errors import UsageError
from xmcap.storage import strict_json
from xmcap.terminal import shown

MAX_LINE = 16 << 20
"""Bytes of the longest line that is read; an image of XM3600 takes 20 thousand."""

MAX_DOCUMENT = 256 << 20
"""Bytes of the largest file that is one JSON value; the training captions of COCO 2017 take 92 million."""

MAX_UNPACKED = 512 << 20
"""Bytes that a packed file may unpack to; XM3600 takes 60 million."""

_BLOCK = 1 << 17
_ENCRYPTED = 1  # a flag of the zip format
_BROKEN = (
  zipfile.BadZipFile,
  zlib.error,
  struct.error,
  EOFError,
  NotImplementedError,
  RuntimeError,
  ValueError,
)


class _Readable(Protocol):
  def read(self, size: int, /) -> bytes: ...


class Input:
  """A file that is read once from front to back; it may be a pipe, and packed by zip, gzip or bzip2.

  A zip archive must hold one `.jsonl` file. Reading anything that is broken or too large raises a UsageError.

  Attributes:
    path: the file.
    name: the file, as messages call it.
    head: its first bytes, by which layouts are told apart.
    num_lines: how many lines were read so far.
  """

  def __init__(self, path: str | os.PathLike, max_line: int = MAX_LINE):
    self.path = path
    self.name = str(path)
    self._max_line = max_line
    self.num_lines = 0
    self._max_bytes: float = float("inf")
    with contextlib.ExitStack() as stack, self._reading():
      file = stack.enter_context(open(path, "rb"))
      self._file = stack.enter_context(self._unpacked(file))
      self.head = self._file.read(_BLOCK)
      self._opened = stack.pop_all()

  def __enter__(self) -> "Input":
    return self

  def __exit__(self, *exception) -> None:
    self._opened.close()

  def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, object) of JSONL; empty lines are passed over.

    Raises:
      UsageError: a line is longer than MAX_LINE, not UTF-8, not JSON (NaN is not), not an object, names one
        member twice, or holds half a surrogate pair.
    """
    for block in self._blocks():
      yield from strict_json.parse_lines(block, self.name, self.num_lines)

  def raw_lines(self) -> Iterator[tuple[int, bytes]]:
    """Yields (line number from 1, line without its end) of the lines that hold more than white space."""
    for block in self._blocks():
      yield from strict_json.filled_lines(block, self.num_lines)

  def lines(self) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, text) of the lines that are not empty, without white space around them."""
    for number, raw in self.raw_lines():
      text = strict_json.decode(raw, f"{self.name}, line {number}").strip()
      if text:
        yield number, text

  def document(self) -> Any:
    """Returns the one JSON value that the file is, of MAX_DOCUMENT at most."""
    return strict_json.parse(self._whole(), self.name)

  def text(self) -> str:
    """Returns the file as one text, of MAX_DOCUMENT at most."""
    return strict_json.decode(self._whole(), self.name)

  def csv(self, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yields (line number that a row ends on, its cells) of CSV, empty lines passed over; the first row is the header.

    Raises:
      UsageError: as `text` (but for a byte order mark), broken CSV, or a row with other than the header's cells.
    """
    text = strict_json.decode(self._whole().removeprefix(codecs.BOM_UTF8), self.name)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    try:
      for cells in filter(None, reader):
        header = header or cells
        if len(cells) != len(header):
          raise UsageError(
            f"{self.name}, line {reader.line_num}: {len(cells)} cells under {len(header)} headings; mend or remove it"
          )
        yield reader.line_num, cells
    except csv.Error as error:
      raise UsageError(f"{self.name}, line {reader.line_num}: broken CSV ({error}); mend it") from error

  def _whole(self) -> bytes:
    pieces, size = [], 0
    for piece in self._pieces():
      pieces.append(piece)
      size += len(piece)
      if size > MAX_DOCUMENT:
        raise UsageError(f"{self.name}: over {MAX_DOCUMENT >> 20} MiB in one piece; give JSONL instead")
    return b"".join(pieces)

  def _pieces(self) -> Iterator[bytes]:
    piece, size = self.head, 0
    while piece:
      size += len(piece)
      self._check_size(size, self._max_bytes)
      yield piece
      with self._reading():
        piece = self._file.read(_BLOCK)

  def _blocks(self) -> Iterator[bytes]:
    """Yields whole lines, some hundred kilobytes at a time, with `num_lines` at the number of lines before them."""
    begun, size = [], 0  # the pieces of a line whose end is not read yet
    for piece in self._pieces():
      end = piece.rfind(b"\n") + 1
      if size + (piece.find(b"\n") if end else len(piece)) > self._max_line:
        raise UsageError(
          f"{self.name}, line {self.num_lines + 1}: longer than {self._max_line >> 20} MiB; mend or remove it"
        )
      if end:
        block = b"".join((*begun, piece[:end]))
        yield block
        self.num_lines += block.count(b"\n")
        begun, size = [], 0
      begun.append(piece[end:])
      size += len(piece) - end
    if size:
      yield b"".join(begun)
      self.num_lines += 1

  @contextlib.contextmanager
  def _unpacked(self, file: io.BufferedReader) -> Iterator[_Readable]:
    magic = file.peek(4)[:4]
    if magic in (b"PK\x03\x04", b"PK\x05\x06"):
      archive: BinaryIO = file
      if not file.seekable():  # a pipe, and the directory of an archive stands at its end
        content = file.read(MAX_UNPACKED + 1)
        self._check_size(len(content), MAX_UNPACKED)
        archive = io.BytesIO(content)
      with self._member(archive) as unpacked:
        yield unpacked
    elif magic.startswith((b"\x1f\x8b", b"BZh")):
      self._max_bytes = MAX_UNPACKED
      with (bz2 if magic.startswith(b"BZh") else gzip).open(file) as unpacked:
        yield unpacked
    else:
      yield file

  @contextlib.contextmanager
  def _member(self, file: BinaryIO) -> Iterator[_Readable]:
    with zipfile.ZipFile(file) as archive:
      members = [
        member
        for member in archive.infolist()
        # macOS packs a hidden file of attributes beside each file.
        if member.filename.endswith(".jsonl") and not member.filename.split("/")[-1].startswith(".")
      ]
      if len(members) != 1:
        raise UsageError(
          f"{self.name}: a zip archive with {len(members)} .jsonl files; pack one, such as captions.jsonl"
        )
      member = members[0]
      self.name = f"{self.name} ({shown(member.filename)})"
      is_plain = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
      if member.flag_bits & _ENCRYPTED or not is_plain:
        raise UsageError(
          f"{self.name}: encrypted, or compressed in a way that is not read here; use plain zip"
        )
      self._check_size(member.file_size, MAX_UNPACKED)  # zipfile never unpacks more than the size stated here
      with archive.open(member) as unpacked:
        yield unpacked

  def _check_size(self, size: int, limit: float) -> None:
    if size > limit:
      raise UsageError(f"{self.name}: a packed file of over {MAX_UNPACKED >> 20} MiB; unpack it yourself")

  @contextlib.contextmanager
  def _reading(self) -> Iterator[None]:
    """Words the errors of opening, reading and unpacking."""
    try:
      yield
    except UsageError:
      raise
    except OSError as error:
      raise UsageError(f"{self.name}: cannot be read ({error.strerror or error})") from error
    except _BROKEN as error:
      reason = shown(str(error) or type(error).__name__)
      raise UsageError(f"{self.name}: cannot be read ({reason}); fetch or make it again") from error


def check_pipes(paths: Mapping[str, str | os.PathLike | None]) -> None:
  """Checks that no pipe is to be read twice.

  Args:
    paths: option, such as `--references` -> the path that was given; "" and None are passed over.

  Raises:
    UsageError: two options name the same pipe.
  """
  names: dict[tuple[int, int], str] = {}
  for name, path in paths.items():
    try:
      status = os.stat(path) if path else None
    except (OSError, ValueError):
      continue  # an error when it is opened
    if status is None or stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
      continue
    first = names.setdefault((status.st_dev, status.st_ino), name)
    if first != name:
      raise UsageError(
        f"{first} and {name} are the same pipe, which is read once: give one of them as a file"
      )


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
  """Pauses the garbage collector, which takes half the time of reading many captions and a tenth of scoring them."""
  enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if enabled:
      gc.enable()
