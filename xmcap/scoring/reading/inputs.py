"""Reads caption files, plain or compressed, with size limits and errors that name file and line."""

import bz2
import codecs
import contextlib
import csv
import gc
import gzip
import io
import itertools
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

from xmcap.errors import UsageError
from xmcap.storage import strict_json
from xmcap.terminal import shown

MAX_LINE = 16 << 20
"""Longest line in bytes; an image of XM3600 takes some 20,000."""

MAX_DOCUMENT = 256 << 20
"""Largest file with a single JSON value, or of CSV, in bytes; the training captions of COCO 2017 take 92 million."""

MAX_UNPACKED = 512 << 20
"""Largest decompressed size in bytes; XM3600 takes 60 million."""

csv.field_size_limit(
  MAX_LINE
)  # of the whole process; the module's own refuses a cell of over 131,072 characters

_FOREIGN = {
  "a Python pickle, which can run code and is never opened: write its content as JSONL (document frequencies: make "
  "them from references with xmcap score --save_df)": rb"\x80[\x02-\x05]|[]}]q\x00|\([dl]p[01]\r?\n",
  "NumPy's arrays, not text: write the captions as JSONL": rb"\x93NUMPY",
  "an HDF5 file, not text: write the captions as JSONL": rb"\x89HDF\r\n",
  "a Parquet file, which can be read as captions only, and not from a pipe": rb"PAR1",
  "a picture, not text: name the file of captions": rb"\x89PNG|\xff\xd8\xff",
}
"""What files of other programs are, with a cure; and how they begin."""

_WORKBOOK = "xl/workbook.xml"
_OF_SERVER = re.compile(r"(.*/)?captions_val\d{4}_.*_results\.json")  # beside the file of test2014
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BLOCK = 1 << 17
_ENCRYPTED = 1  # a flag of the zip format
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError)


class _Readable(Protocol):
  def read(self, size: int, /) -> bytes: ...


class Input:
  """A file that is read once, front to back; it may be a pipe, and compressed with zip, gzip or bzip2.

  A zip archive must contain one `.jsonl` file, or the results for val2014 that COCO's server takes, or one `.json`
  file. A byte order mark is left out (but not by `raw_lines`), and UTF-16 that has one is read. Broken or too large
  input raises UsageError, and so does a file of another program, which the message names.

  Attributes:
    path: the file.
    name: the file's name in messages.
    head: the first bytes, which show the layout.
    num_lines: number of lines read so far.
  """

  def __init__(self, path: str | os.PathLike, max_line: int = MAX_LINE):
    self.path = path
    self.name = str(path)
    self.num_lines = 0
    self._max_line = max_line
    self._max_bytes = math.inf
    with contextlib.ExitStack() as stack, self._reading():
      self._file = self._unpacked(stack.enter_context(open(path, "rb")), stack)
      self._first = self._file.read(_BLOCK)
      if self._first.startswith(_UTF16):
        self._file = io.BytesIO(self._whole().decode("utf-16").encode())
        self._first = self._file.read(_BLOCK)
      self.head = self._first.removeprefix(codecs.BOM_UTF8)
      for what, magic in _FOREIGN.items():
        if re.match(magic, self.head):
          raise UsageError(f"{self.name}: {what}")
      self._opened = stack.pop_all()

  def __enter__(self) -> "Input":
    return self

  def __exit__(self, *exception) -> None:
    self._opened.close()

  def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number from 1, object) of JSONL; skips empty lines.

    Raises:
      UsageError: a line is longer than MAX_LINE, not UTF-8, not JSON (NaN is not), not an object, repeats a name, or
        has an unpaired surrogate.
    """
    for block in self._blocks():
      block = block if self.num_lines else block.removeprefix(codecs.BOM_UTF8)
      yield from strict_json.parse_lines(block, self.name, self.num_lines)

  def raw_lines(self) -> Iterator[tuple[int, bytes]]:
    """Yields (line number from 1, line without its end) for lines that are not blank."""
    for block in self._blocks():
      yield from strict_json.filled_lines(block, self.num_lines)

  def lines(self) -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, stripped text) for lines that are not blank."""
    for number, raw in self.raw_lines():
      raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
      text = strict_json.decode(raw, f"{self.name}, line {number}").strip()
      if text:
        yield number, text

  def distinct_lines(self) -> dict[str, int]:
    """Returns stripped text -> line number for lines that are not blank; UsageError if a text is repeated."""
    found: dict[str, int] = {}
    for number, text in self.lines():
      if text in found:
        raise UsageError(
          f"{self.name}, line {number}: '{shown(text)}' is already on line {found[text]}; keep one"
        )
      found[text] = number
    return found

  def document(self) -> Any:
    """Returns the single JSON value of the file, of at most MAX_DOCUMENT bytes."""
    return strict_json.parse(self._whole(), self.name)

  def text(self) -> str:
    """Returns the text of the file, of at most MAX_DOCUMENT bytes."""
    return strict_json.decode(self._whole(), self.name)

  def csv(self, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yields (last line number, cells) for each row of CSV, header first; skips empty lines.

    A header with semicolons and no comma shows a table of Excel in a language that writes decimals with commas: its
    cells are separated by semicolons. So are those of Flickr30k by `|`; quotation marks are characters there.

    Raises:
      UsageError: as `text`, broken CSV, or a row that does not match the header.
    """
    text = self.text()
    first = text.lstrip("\r\n").split("\n", 1)[0]
    if delimiter == "," and "," not in first:
      delimiter = next((mark for mark in ";|" if mark in first), ",")
    is_flickr = delimiter == "|"
    style = csv.QUOTE_NONE if is_flickr else csv.QUOTE_MINIMAL
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, quoting=style, skipinitialspace=is_flickr, strict=True)
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
    return b"".join(pieces).removeprefix(codecs.BOM_UTF8)

  def _pieces(self) -> Iterator[bytes]:
    piece, size = self._first, 0
    while piece:
      size += len(piece)
      self._check_size(size, self._max_bytes)
      yield piece
      with self._reading():
        piece = self._file.read(_BLOCK)

  def _blocks(self) -> Iterator[bytes]:
    """Yields blocks of whole lines of some hundred kilobytes; `num_lines` counts the lines before the block."""
    begun, size = [], 0  # pieces of a line whose end is not read yet
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

  def _unpacked(self, file: io.BufferedReader, stack: contextlib.ExitStack) -> _Readable:
    magic = file.peek(4)[:4]
    if magic in (b"PK\x03\x04", b"PK\x05\x06"):
      return self._member(file, stack)
    if magic.startswith((b"\x1f\x8b", b"BZh")):
      self._max_bytes = MAX_UNPACKED
      return stack.enter_context((bz2 if magic.startswith(b"BZh") else gzip).open(file))
    return file

  def _member(self, file: BinaryIO, stack: contextlib.ExitStack) -> _Readable:
    if not file.seekable():  # a pipe, but a zip archive has its directory at the end
      content = file.read(MAX_UNPACKED + 1)
      self._check_size(len(content), MAX_UNPACKED)
      file = io.BytesIO(content)
    archive = stack.enter_context(zipfile.ZipFile(file))
    # macOS adds a hidden file of attributes for each file.
    held = [member for member in archive.infolist() if not member.filename.split("/")[-1].startswith(".")]
    if any(member.filename == _WORKBOOK for member in held):
      raise UsageError(f"{self.name}: an Excel workbook, not text: save the sheet as CSV UTF-8")
    members = (
      [member for member in held if member.filename.endswith(".jsonl")]
      or [member for member in held if _OF_SERVER.fullmatch(member.filename)]
      or [member for member in held if member.filename.endswith(".json")]
    )
    if len(members) != 1:
      raise UsageError(
        f"{self.name}: a zip archive with {len(members)} .jsonl files, or .json files; it must have one"
      )
    member = members[0]
    self.name = f"{self.name} ({shown(member.filename)})"
    is_plain = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if member.flag_bits & _ENCRYPTED or not is_plain:
      raise UsageError(f"{self.name}: encrypted, or compressed in an unsupported way; use plain zip")
    self._check_size(member.file_size, MAX_UNPACKED)  # zipfile never unpacks more than this stated size
    return stack.enter_context(archive.open(member))

  def _check_size(self, size: int, limit: float) -> None:
    if size > limit:
      raise UsageError(
        f"{self.name}: over {MAX_UNPACKED >> 20} MiB when decompressed; decompress it yourself"
      )

  @contextlib.contextmanager
  def _reading(self) -> Iterator[None]:
    """Turns errors of opening, reading and decompressing into UsageError."""
    try:
      yield
    except UsageError:
      raise
    except OSError as error:
      raise UsageError(f"{self.name}: cannot be read ({error.strerror or error})") from error
    except _BROKEN as error:
      reason = shown(str(error) or type(error).__name__)
      raise UsageError(f"{self.name}: cannot be read ({reason}); fetch or make it again") from error


def check_pipes(paths: Mapping[str, str | os.PathLike | Sequence[str | os.PathLike] | None]) -> None:
  """Checks that no pipe would be read twice.

  Args:
    paths: option, such as `--references` -> path, or several; "" and None are ignored.

  Raises:
    UsageError: two options name the same pipe, or one names it twice.
  """
  streams = [
    (name, path)
    for name, several in paths.items()
    for path in ([several] if isinstance(several, str | os.PathLike) else several or ())
    if path and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
  ]
  for (first, path), (name, other) in itertools.combinations(streams, 2):
    if os.path.samefile(path, other):
      raise UsageError(f"{first} and {name} are the same pipe, which can be read only once: make one a file")


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
  """Pauses the garbage collector, which would take half the time of reading captions and a tenth of scoring."""
  enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if enabled:
      gc.enable()
