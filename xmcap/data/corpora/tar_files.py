"""What is in tar files, packed or not, without trusting a name or a header."""

import bz2
import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator

from xmcap.data.corpora import archives
from xmcap.data.corpora.archives import PACKED_TAR, SHARD, Entry, File, Found, Trouble, reason_of
from xmcap.data.corpora.lines import most_unpacked
from xmcap.errors import XmcapError
from xmcap.storage import files
from xmcap.terminal import shown

MAX_HEADER = 1 << 20  # bytes that a header may take
_PIECE = 1 << 20
# RecursionError: tarfile calls itself for a header that speaks of the next one.
DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, RecursionError)


def unpack(path: str, unpacked: str) -> None:
  """Decompresses a .tgz or .tar.bz2 to the end, where its checksum stands.

  Raises:
    XmcapError: it is damaged or unpacks to far too much, or the disk is full.
  """
  most = most_unpacked(os.path.getsize(path))
  try:
    with open(path, "rb") as packed, files.output(unpacked) as copy:
      opener = bz2.open if packed.peek(3)[:3] == b"BZh" else gzip.open
      with opener(packed) as file:
        while piece := file.read(_PIECE):
          copy.write(piece)
          if file.tell() > most:
            raise tarfile.ReadError(f"it unpacks to over {most:,} bytes")
  except DAMAGE as error:
    raise _not_whole(path, error) from None


def search_tar(file: File) -> Iterator[Entry]:
  """Yields what is in a tar file, in its order; a packed one is unpacked first.

  One that breaks off is an error, but for a `SHARD`: that is counted as `truncated`, and what stands before the break
  is used, since a fetch that was killed leaves one of its thousand shards like that.
  """
  if file.kind == PACKED_TAR:
    unpack(file.path, file.unpacked)
  try:
    with archives.Bounded(file.unpacked or file.path, MAX_HEADER) as opened:
      yield from _members(file.path, opened)
  except DAMAGE as error:
    if file.kind != SHARD:
      raise _not_whole(file.path, error) from None
    what = f"what follows in the tar file is lost ({reason_of(error)})"
    yield Trouble("truncated", os.path.basename(file.path), what)


def _not_whole(path: str, error: Exception) -> XmcapError:
  return XmcapError(f"{path}: no whole tar file ({reason_of(error)}): download it again")


def _members(name: str, file: io.FileIO) -> Iterator[Entry]:
  for member, inside in members(file):
    if inside is None:
      yield archives.unsafe(member.name, name)
      continue
    role = archives.role_of(inside) if member.isreg() else ""
    if role == "picture":
      yield Found(inside, member.offset_data, member.size)
    elif role == "about" and member.size <= archives.MAX_ABOUT:
      file.seek(member.offset_data)
      yield from archives.addresses_in(file.read(member.size), inside)


def members(file: io.FileIO) -> Iterator[tuple[tarfile.TarInfo, str | None]]:
  """Yields the entries of a tar file and their paths in it, None of one that is refused; errors are of `DAMAGE`."""
  length = os.fstat(file.fileno()).st_size
  with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
    last = -1
    while (member := archive.next()) is not None:
      # Or all of them would be kept.
      archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue]
      if member.offset <= last:
        raise tarfile.ReadError("its entries run in a circle")
      last = member.offset
      inside = archives.safe_path(member.name)
      if inside is None or not (member.isreg() or member.isdir()) or member.issparse():
        yield member, None
        continue
      if member.isreg() and archives.role_of(inside) and member.offset_data + member.size > length:
        raise tarfile.ReadError(f"{shown(member.name)} is cut off")
      yield member, inside
    _check_end(file, archive.offset)


def _check_end(file: io.FileIO, offset: int) -> None:
  """Raises ReadError where a tar does not end as one does: tarfile takes a damaged header for the end."""
  file.seek(offset)
  block = file.read(tarfile.BLOCKSIZE)
  if not block:
    # The end mark has been read, or there is none: it would be two blocks of zeros.
    file.seek(max(0, offset - tarfile.BLOCKSIZE))
    block = file.read(tarfile.BLOCKSIZE) or b"\1"
  if block.strip(b"\0"):
    raise tarfile.ReadError(f"no end mark, or a damaged header at byte {offset:,}")
