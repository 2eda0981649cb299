"""Reads caption files, plain or compressed, with size limits and errors that name file and line."""

import bz2
import codecs
import contextlib
import gc
import gzip
import io
import itertools
import lzma
import math
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

from xmcap.errors import DamagedError, UsageError
from xmcap.files import strict_json
from xmcap.terminal import shown

MAX_LINE = 16 << 20
"""Longest line in bytes; an image of XM3600 takes some 20,000."""

MAX_DOCUMENT = 256 << 20
"""Largest file with a single JSON value, or of CSV, in bytes; the training captions of COCO 2017 take 92 million."""

MAX_UNPACKED = 512 << 20
"""Largest decompressed size in bytes; XM3600 takes 60 million."""

_FOREIGN = {
  "a Python pickle, which can run code and is never opened: write its content as JSONL (document frequencies: make "
  "them from references with xmcap score --save_df)": rb"\x80[\x02-\x05]|[]}]q\x00|\([dl]p[01]\r?\n",
  "NumPy's arrays, not text: write the captions as JSONL": rb"\x93NUMPY",
  "an HDF5 file, not text: write the captions as JSONL": rb"\x89HDF\r\n",
  "a Parquet file, which can be read as captions only, and not from a pipe": rb"PAR1",
  "a picture, not text: name the file of captions": (
    rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF.{4}WEBP|II\*\x00|MM\x00\*|BM.{4}\x00{4}"
  ),
  "a PDF document, not text: write the captions as JSONL": rb"%PDF-",
  "a vocabulary of SentencePiece, not text": rb"\n.\n\x05<unk>|\n.\n\x05<pad>",
  "UTF-16 without a byte order mark: convert the file to UTF-8": rb"(?:[ -~]\x00|\x00[ -~]){4}",
  "markup, such as WMT's SGML, not text: write a caption per line, and name it .txt": (
    rb"\s*<(?:\?xml|!DOCTYPE|html|refset|srcset|tstset|DOC)\b"
  ),
  "compressed with Zstandard: decompress it with zstd -d": rb"\x28\xb5\x2f\xfd",
  "compressed with LZ4: decompress it with lz4 -d": rb"\x04\x22\x4d\x18",
  "compressed with 7-Zip: unpack it, and name the file of captions": rb"7z\xbc\xaf\x27\x1c",
  "compressed with RAR: unpack it, and name the file of captions": rb"Rar!\x1a\x07",
}
"""What files of other programs are, with a cure; and how they begin."""

_WORKBOOK = "xl/workbook.xml"
_OF_SERVER = re.compile(r"(.*/)?captions_val\d{4}_.*_results\.json")  # beside the file of test2014
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BLOCK = 1 << 17
_ENCRYPTED = 1  # a flag of the zip format
_USTAR = slice(257, 262)  # the magic of tar in a header
_PACKED = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\0": lzma}
_IN_ARCHIVES = (".jsonl", "", ".json", ".csv", ".tsv", ".txt")  # by preference; "": results for COCO's server
_BROKEN = (
  *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error),
  *(EOFError, RuntimeError, ValueError, MemoryError),
)


class _Readable(Protocol):
  def read(self, size: int, /) -> bytes: ...


class Input:
  """A file that is read once, front to back; it may be a pipe, and compressed with zip, gzip, bzip2, xz or tar.

  An archive must contain one `.jsonl` file, or the results for val2014 that COCO's server takes, or one `.json` file,
  `.csv`, `.tsv` or `.txt`. A byte order mark is left out (but not by `raw_lines`), and UTF-16 that has one is read.
  Broken or too large input raises UsageError, and so does a file of another program, which the message names.

  Attributes:
    path: the file.
    name: the file's name in messages.
    inner: the path, or that of the file in an archive, whose suffix counts.
    head: the first bytes, which show the layout.
    has_mark: whether it begins with a byte order mark, as tables for spreadsheets do (`spreadsheet.texts`).
    num_lines: number of lines read so far.
  """

  def __init__(self, path: str | os.PathLike, max_line: int = MAX_LINE):
    self.path = path
    self.name = str(path)
    self.inner = os.fspath(path)
    self.num_lines = 0
    self._max_line = max_line
    self._max_bytes = math.inf
    with contextlib.ExitStack() as stack, self._reading():
      self._file = self._unpacked(stack.enter_context(open(path, "rb")), stack)
      self._first = self._file.read(_BLOCK)
      if self._first[_USTAR] == b"ustar":
        self._file = self._of_tar(stack)
        self._first = self._file.read(_BLOCK)
      self.has_mark = self._first.startswith((codecs.BOM_UTF8, *_UTF16))
      if self._first.startswith(_UTF16):
        self._file = io.BytesIO(self._whole().decode("utf-16").encode())
        self._first = self._file.read(_BLOCK)
      self.head = self._first.removeprefix(codecs.BOM_UTF8)
      for message, magic in _FOREIGN.items():
        if re.match(magic, self.head, re.DOTALL):
          raise UsageError(f"{self.name}: {message}")
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

  def table_lines(self) -> Iterator[str]:
    """Yields the lines of a table with their ends; bytes that are not UTF-8 become surrogates (PEP 383)."""
    for block in self._blocks():
      block = block if self.num_lines else block.removeprefix(codecs.BOM_UTF8)
      yield from io.StringIO(block.decode("utf-8", "surrogateescape"), newline="")

  def distinct_lines(self) -> dict[str, int]:
    """Returns stripped text -> line number for lines that are not blank; UsageError if a text is repeated."""
    numbers: dict[str, int] = {}
    for number, text in self.lines():
      if text in numbers:
        raise UsageError(
          f"{self.name}, line {number}: '{shown(text)}' is already on line {numbers[text]}; keep one"
        )
      numbers[text] = number
    return numbers

  def document(self) -> Any:
    """Returns the single JSON value of the file, of at most MAX_DOCUMENT bytes."""
    return strict_json.parse(self._whole(), self.name)

  def text(self) -> str:
    """Returns the text of the file, of at most MAX_DOCUMENT bytes."""
    text = strict_json.decode(self._whole(), self.name)
    if "\0" in text:
      raise UsageError(
        f"{self.name}: has NUL characters, as UTF-16 without a byte order mark; save it as UTF-8"
      )
    return text

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
    magic = file.peek(6)[:6]
    if magic[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
      return self._of_zip(file, stack)
    for begin, module in _PACKED.items():
      if magic.startswith(begin):
        self._max_bytes = MAX_UNPACKED
        return stack.enter_context(module.open(file))
    return file

  def _of_zip(self, file: BinaryIO, stack: contextlib.ExitStack) -> _Readable:
    if not file.seekable():  # a pipe, but a zip archive has its directory at the end
      content = file.read(MAX_UNPACKED + 1)
      self._check_size(len(content), MAX_UNPACKED)
      file = io.BytesIO(content)
    archive = stack.enter_context(zipfile.ZipFile(file))
    members = {member.filename: member for member in archive.infolist()}
    if _WORKBOOK in members:
      raise UsageError(f"{self.name}: an Excel workbook, not text: save the sheet as CSV UTF-8")
    member = members[self._member(members, "zip")]
    is_plain = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if member.flag_bits & _ENCRYPTED or not is_plain:
      raise UsageError(f"{self.name}: encrypted, or compressed in an unsupported way; use plain zip")
    self._check_size(member.file_size, MAX_UNPACKED)  # zipfile never unpacks more than this stated size
    return stack.enter_context(archive.open(member))

  def _of_tar(self, stack: contextlib.ExitStack) -> _Readable:
    content = self._first + self._file.read(MAX_UNPACKED + 1)
    self._check_size(len(content), MAX_UNPACKED)
    archive = stack.enter_context(tarfile.TarFile(fileobj=io.BytesIO(content)))
    members = {member.name: member for member in archive.getmembers() if member.isfile()}
    member = members[self._member(members, "tar")]
    self._check_size(member.size, MAX_UNPACKED)
    file = archive.extractfile(member)
    assert file is not None
    return stack.enter_context(file)

  def _member(self, names: Iterable[str], archive: str) -> str:
    """Returns the name of the file of captions in an archive; UsageError if there are several, or none."""
    # macOS adds a hidden file of attributes for each file.
    plain = [name for name in names if not name.split("/")[-1].startswith(".")]
    for suffix in _IN_ARCHIVES:
      members = (
        list(filter(_OF_SERVER.fullmatch, plain)) if not suffix else [n for n in plain if n.endswith(suffix)]
      )
      if len(members) == 1:
        self.inner, self.name = members[0], f"{self.name} ({shown(members[0])})"
        return members[0]
      if members:
        break
    else:
      members, suffix = [], ".jsonl, .json, .csv, .tsv or .txt"
    raise UsageError(
      f"{self.name}: a {archive} archive with {len(members)} {suffix} files; unpack it, and name the file of captions"
    )

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
      # What decompresses raises errors without a number.
      kind = UsageError if error.errno else DamagedError
      raise kind(f"{self.name}: cannot be read ({error.strerror or error})") from error
    except _BROKEN as error:
      reason = shown(str(error) or type(error).__name__)
      raise DamagedError(f"{self.name}: cannot be read ({reason}); fetch or make it again") from error


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
