"""The lines of large text files, compressed or not, in pieces that processes can share."""

import bz2
import contextlib
import gzip
import pathlib
import re
import zlib
from collections.abc import Generator
from typing import BinaryIO

import rapidgzip

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import files

SUFFIXES = (".jsonl", ".jsonl.bz2", ".jsonl.gz")
CHUNK_BYTES = 32 << 20
MAX_LINE_BYTES = 16 << 20
MAX_RATIO, MAX_SMALL = 100, 1 << 30
"""A packed file may hold this many times its bytes, and a GiB more; JSON packs to a tenth, pictures not at all."""


def chunks(path: pathlib.Path, chunk_bytes: int = CHUNK_BYTES) -> Generator[tuple[bytes, float], None, None]:
  """Yields pieces of about `chunk_bytes` that end with a line, each with the share of the file that is read by then.

  The last line of the file may have no end. bzip2 is decompressed on all cores.

  Raises:
    UsageError: there is no such file, or its name has another suffix.
    XmcapError: it is damaged, or holds far more text than text packs to, or a line is longer than 16 MB.
  """
  if not path.name.endswith(SUFFIXES):
    raise UsageError(f"{path}: give a file {', '.join(SUFFIXES)}")
  if not path.is_file():
    raise UsageError(f"{path} is absent, or no file: give the captions as they were published")
  size = path.stat().st_size
  try:
    with open(path, "rb") as packed, _unpacked(path, packed) as file:
      rest, total = b"", 0
      while piece := file.read(chunk_bytes):
        total += len(piece)
        if file is not packed and total > most_unpacked(size):
          raise XmcapError(
            f"{path}: unpacks to far more than its {size:,} bytes can hold of captions (at most {MAX_RATIO} times as "
            "much, and 1 GiB): give the file as it was published"
          )
        cut = piece.rfind(b"\n") + 1
        if not cut and len(rest) + len(piece) > MAX_LINE_BYTES:
          raise XmcapError(
            f"{path}: a line of over {MAX_LINE_BYTES >> 20} MB: give the captions as they were published"
          )
        if cut:
          yield rest + piece[:cut], _share_read(file, packed, size)
          rest = b""
        rest += piece[cut:]
      if path.suffix == ".bz2":
        _check_end(path, packed, file)
      if rest:
        yield rest, 1.0
  except (OSError, ValueError, EOFError, RuntimeError, zlib.error) as error:
    said = re.sub("std::exception|End of file reached!", "breaks off", one_line(error))
    raise XmcapError(f"{path}: damaged, or cannot be read ({said}): download it again") from None


def most_unpacked(size: int) -> int:
  """Bytes that a packed file of `size` bytes may unpack to."""
  return MAX_RATIO * size + MAX_SMALL


def _unpacked(path: pathlib.Path, packed: BinaryIO):
  if path.suffix == ".bz2":
    with bz2.open(path) as first:
      first.read(1)  # rapidgzip would pass over a first block that is damaged, too
    return rapidgzip.IndexedBzip2File(str(path), parallelization=files.available_cores())
  return gzip.open(packed) if path.suffix == ".gz" else packed


def _share_read(file, packed: BinaryIO, size: int) -> float:
  place = file.tell_compressed() / 8 if isinstance(file, rapidgzip.IndexedBzip2File) else packed.tell()
  return min(place / size, 1.0)


def _check_end(path: pathlib.Path, packed: BinaryIO, file: rapidgzip.IndexedBzip2File) -> None:
  """Checks that nothing but empty streams lies behind the last block: rapidgzip passes over what it does not know."""
  begin = -(-max(file.block_offsets(), default=0) // 8)
  packed.seek(begin)
  rest = packed.read(1 << 20)
  while rest:
    stream = bz2.BZ2Decompressor()
    with contextlib.suppress(OSError):
      if not stream.decompress(rest, 1) and stream.eof:
        rest = stream.unused_data
        continue
    raise XmcapError(f"{path}: no bzip2 file from byte {begin:,} on: give the file as it was published")
