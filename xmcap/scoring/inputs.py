"""Files of captions as they are read: whole lines at a time, out of a zip archive too, within limits of size."""

import contextlib
import gc
import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from xmcap.errors import UsageError
from xmcap.storage import strict_json
from xmcap.terminal import shown

MAX_LINE = 16 << 20
"""Bytes of the longest line that is read; an image of XM3600 takes 20 thousand."""

MAX_DOCUMENT = 256 << 20
"""Bytes of the largest file that is one JSON value; the training captions of COCO 2017 take 92 million."""

MAX_UNPACKED = 512 << 20
"""Bytes that a file in a zip archive may unpack to; XM3600 takes 60 million."""

_BLOCK = 1 << 17
_ENCRYPTED = 1  # a flag of the zip format


class Input:
  """A file, or the `.jsonl` file in a zip archive, that is read once from front to back: a context manager.

  It is opened once and never looked at twice: it may be a pipe.

  Attributes:
    name: what messages call it.
    head: its first bytes, by which formats are told apart.

  Raises:
    UsageError: (the methods too) it cannot be read; or it is a zip archive that is broken, encrypted, too
      large when unpacked, or holds no or several `.jsonl` files.
  """

  def __init__(self, path: str | os.PathLike):
    self.name = str(path)
    self._opened = contextlib.ExitStack()
    with contextlib.ExitStack() as opened, self._reading():
      self._file: BinaryIO = opened.enter_context(open(path, "rb"))
      self.head = self._file.read(_BLOCK)
      if self.head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        if not self._file.seekable():
          self._file = self._whole()
        self._file = opened.enter_context(self._unpacked(self._file))
        self.head = self._file.read(_BLOCK)
      self._opened = opened.pop_all()

  def __enter__(self) -> "Input":
    return self

  def __exit__(self, *exception) -> None:
    self._opened.close()

  def rows(self, decode: Callable[[bytes], Sequence[Any] | None] | None = None) -> Iterator[tuple[int, Any]]:
    """Yields (line number, object) of JSONL; see `files.read_jsonl`.

    Args:
      decode: a short cut of `layouts`; lines that it gives None for are read with care, as all are without it.
    """
    for number, block in self._blocks():
      rows = None if decode is None else decode(block)
      if rows is None:
        yield from strict_json.parse_lines(block, self.name, number)
      else:
        yield from enumerate(rows, number + 1)

  def lines(self) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, text) of the lines that are not empty, without white space around them.

    Raises:
      UsageError: a line is longer than MAX_LINE or not UTF-8.
    """
    for before, block in self._blocks():
      for number, raw in strict_json.filled_lines(block, before):
        text = strict_json.decode(raw, f"{self.name}, line {number}").strip()
        if text:
          yield number, text

  def document(self) -> Any:
    """Returns the one JSON value that the file is.

    Raises:
      UsageError: it is larger than MAX_DOCUMENT, or fails as a line of JSONL would.
    """
    pieces, size = [], 0
    for piece in self._pieces():
      pieces.append(piece)
      size += len(piece)
      if size > MAX_DOCUMENT:
        raise UsageError(f"{self.name}: one JSON value of over {MAX_DOCUMENT >> 20} MiB; give JSONL instead")
    return strict_json.parse(b"".join(pieces), self.name)

  def _pieces(self) -> Iterator[bytes]:
    piece = self.head
    while piece:
      yield piece
      with self._reading():
        piece = self._file.read(_BLOCK)

  def _blocks(self) -> Iterator[tuple[int, bytes]]:
    """Yields (lines before, whole lines): some hundred kilobytes at a time, or one long line."""
    number, begun, size = 0, [], 0  # `begun`: the pieces of a line whose end is not read yet
    for piece in self._pieces():
      end = piece.rfind(b"\n") + 1
      if size + (piece.find(b"\n") if end else len(piece)) > MAX_LINE:
        raise UsageError(
          f"{self.name}, line {number + 1}: longer than {MAX_LINE >> 20} MiB; mend or remove it"
        )
      if end:
        block = b"".join((*begun, piece[:end]))
        yield number, block
        number += block.count(b"\n")
        begun, size = [], 0
      begun.append(piece[end:])
      size += len(piece) - end
    if size:
      yield number, b"".join(begun)

  def _whole(self) -> BinaryIO:
    """Returns a zip archive that comes through a pipe: its directory stands at its end."""
    content = self.head + self._file.read(MAX_UNPACKED + 1 - len(self.head))
    if len(content) > MAX_UNPACKED:
      raise UsageError(f"{self.name}: a zip archive of over {MAX_UNPACKED >> 20} MiB; give it as a file")
    return io.BytesIO(content)

  @contextlib.contextmanager
  def _unpacked(self, file: BinaryIO) -> Iterator[BinaryIO]:
    import zipfile

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
      if member.flag_bits & _ENCRYPTED:
        raise UsageError(f"{self.name}: encrypted; pack it without a password")
      if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UsageError(f"{self.name}: compressed in a way that is not read here; pack it with plain zip")
      # No more than the size stated here is ever unpacked.
      if member.file_size > MAX_UNPACKED:
        raise UsageError(f"{self.name}: unpacks to over {MAX_UNPACKED >> 20} MiB; unpack it yourself")
      with archive.open(member) as unpacked:
        yield unpacked

  @contextlib.contextmanager
  def _reading(self) -> Iterator[None]:
    """Words what goes wrong while the file, or the archive, is opened and read."""
    try:
      yield
    except OSError as error:
      raise UsageError(f"{self.name}: cannot be read ({error.strerror or error})") from error
    except Exception as error:
      import struct
      import zipfile
      import zlib

      broken = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError)
      if not isinstance(error, (*broken, RuntimeError, ValueError, OverflowError)):
        raise
      reason = shown(str(error) or type(error).__name__)
      raise UsageError(f"{self.name}: cannot be read ({reason}); fetch or make it again") from error


def opened(source: "str | os.PathLike | Input") -> contextlib.AbstractContextManager[Input]:
  """Opens a path; what is open already stays so, for its owner to close."""
  return contextlib.nullcontext(source) if isinstance(source, Input) else Input(source)


def is_on_disk(path: str | os.PathLike) -> bool:
  """Whether another process finds the same file, or folder, by this path; a pipe, or /dev/stdin, is of this one."""
  if os.path.abspath(path).startswith(("/dev/", "/proc/")):
    return False
  return os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)


def check_pipes(paths: Mapping[str, str | os.PathLike | None]) -> None:
  """Checks that no pipe is to be read twice.

  Args:
    paths: what messages call it, such as `--references` -> what is to be read; "" and None are passed over.

  Raises:
    UsageError: two are the same pipe.
  """
  names: dict[tuple[int, int], str] = {}
  for name, path in paths.items():
    try:
      status = os.stat(path) if path else None
    except (OSError, ValueError):
      continue  # whoever opens it says what is wrong
    if status is None or stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
      continue
    first = names.setdefault((status.st_dev, status.st_ino), name)
    if first != name:
      raise UsageError(
        f"{first} and {name} are the same pipe, which is read once: give one of them as a file"
      )


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
  """Pauses the garbage collector: it would look for cycles in a million captions, which takes half the time."""
  enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if enabled:
      gc.enable()
