"""Reads the lines of large text files, compressed or not, in chunks that processes can share."""

import bz2
import contextlib
import gzip
import pathlib
import re
import zlib
from collections.abc import Generator
from typing import BinaryIO

import rapidgzip

from xmcap import processes
from xmcap.errors import UsageError, XmcapError, one_line

SUFFIXES = (".jsonl", ".jsonl.bz2", ".jsonl.gz")
CHUNK_BYTES = 32 << 20
MAX_LINE_BYTES = 16 << 20
MAX_RATIO, MAX_SMALL = 100, 1 << 30
"""A file may decompress to this many times its size, plus a GiB; JSON compresses to about a tenth."""


def chunks(path: pathlib.Path, chunk_bytes: int = CHUNK_BYTES) -> Generator[tuple[bytes, float], None, None]:
  """Yields chunks of whole lines of about `chunk_bytes`, each with the share of the file read so far.

  The last line of the file may lack its newline. bzip2 is decompressed on all cores.

  Raises:
    UsageError: the file does not exist, or has another suffix.
    XmcapError: the file is damaged, decompresses to implausibly many bytes, or has a line of over 16 MB.
  """
  if not path.name.endswith(SUFFIXES):
    raise UsageError(f"{path}: give a file {', '.join(SUFFIXES)}")
  if not path.is_file():
    raise UsageError(f"{path} is not a file: give the captions as they were published")
  size = path.stat().st_size
  try:
    with open(path, "rb") as packed, _unpacked(path, packed) as file:
      rest, total = b"", 0
      while piece := file.read(chunk_bytes):
        total += len(piece)
        if file is not packed and total > most_unpacked(size):
          limit = f"its {size:,} bytes (more than {MAX_RATIO} times as much plus 1 GiB)"
          raise XmcapError(f"{path}: decompresses to implausibly more than {limit}: give the published file")
        cut = piece.rfind(b"\n") + 1
        if not cut and len(rest) + len(piece) > MAX_LINE_BYTES:
          raise XmcapError(f"{path}: a line of over {MAX_LINE_BYTES >> 20} MB: give the published file")
        if cut:
          yield rest + piece[:cut], _share_read(file, packed, size)
          rest = b""
        rest += piece[cut:]
      if path.suffix == ".bz2":
        _check_end(path, packed, file)
      if rest:
        yield rest, 1.0
  except (OSError, ValueError, EOFError, RuntimeError, zlib.error) as error:
    said = re.sub("std::exception|End of file reached!", "truncated", one_line(error))
    raise XmcapError(f"{path}: damaged, or cannot be read ({said}): download it again") from None


def most_unpacked(size: int) -> int:
  """Returns the largest decompressed size allowed for a file of `size` bytes."""
  return MAX_RATIO * size + MAX_SMALL


def _unpacked(path: pathlib.Path, packed: BinaryIO):
  if path.suffix == ".bz2":
    with bz2.open(path) as first:
      first.read(1)  # because rapidgzip also skips a damaged first block
    return rapidgzip.IndexedBzip2File(str(path), parallelization=processes.available_cores())
  return gzip.open(packed) if path.suffix == ".gz" else packed


def _share_read(file, packed: BinaryIO, size: int) -> float:
  place = file.tell_compressed() / 8 if isinstance(file, rapidgzip.IndexedBzip2File) else packed.tell()
  return min(place / size, 1.0)


def _check_end(path: pathlib.Path, packed: BinaryIO, file: rapidgzip.IndexedBzip2File) -> None:
  """Checks that only empty streams follow the last block, because rapidgzip skips everything it does not recognise."""
  begin = -(-max(file.block_offsets(), default=0) // 8)
  packed.seek(begin)
  rest = packed.read(1 << 20)
  while rest:
    stream = bz2.BZ2Decompressor()
    with contextlib.suppress(OSError):
      if not stream.decompress(rest, 1) and stream.eof:
        rest = stream.unused_data
        continue
    raise XmcapError(f"{path}: not bzip2 from byte {begin:,} on: give the file as it was published")
