"""Lists the files in tar files, compressed or not, without trusting names or headers."""

import bz2
import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator

from xmcap.errors import XmcapError
from xmcap.files import files
from xmcap.reading import archives
from xmcap.reading.archives import PACKED_TAR, SHARD, Entry, File, Found, RoleOf, Trouble, reason_of
from xmcap.reading.lines import most_unpacked
from xmcap.terminal import shown

MAX_HEADER = 1 << 20  # limit for a header in bytes
_PIECE = 1 << 20
# RecursionError: tarfile calls itself for a header that extends the next one.
DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, RecursionError)


def unpack(path: str, unpacked: str) -> None:
  """Decompresses a .tgz or .tar.bz2 to the end, which verifies its checksum.

  XmcapError if it is damaged or decompresses to far too much, or if the disk is full.
  """
  most = most_unpacked(os.path.getsize(path))
  try:
    with open(path, "rb") as packed, files.output(unpacked) as copy:
      opener = bz2.open if packed.peek(3)[:3] == b"BZh" else gzip.open
      with opener(packed) as file:
        while piece := file.read(_PIECE):
          copy.write(piece)
          if file.tell() > most:
            raise tarfile.ReadError(f"it decompresses to over {most:,} bytes")
  except DAMAGE as error:
    raise _not_whole(path, error) from None


def search(file: File, role_of: RoleOf = archives.role_of) -> Iterator[Entry]:
  """Yields the entries of a folder or archive of any kind."""
  if file.kind == archives.FOLDER:
    return archives.search_folder(file.path, role_of)
  if file.kind == archives.ZIP:
    return archives.search_zip(file.path, role_of)
  return search_tar(file, role_of)


def search_tar(file: File, role_of: RoleOf = archives.role_of) -> Iterator[Entry]:
  """Yields the entries of a tar file, in order; decompresses it first if necessary.

  A truncated file is an error, except for a `SHARD`: that counts as `truncated`, and its complete entries are used,
  because a killed download may leave one of its thousand shards truncated.
  """
  if file.kind == PACKED_TAR:
    unpack(file.path, file.unpacked)
  try:
    with archives.Bounded(file.unpacked or file.path, MAX_HEADER) as opened:
      for member, inside in members(opened):
        if inside is None:
          yield archives.unsafe(member.name, file.path)
          continue
        role = role_of(inside) if member.isreg() else ""
        if role == "file":
          yield Found(inside, member.offset_data, member.size)
        elif role == "about" and member.size <= archives.MAX_ABOUT:
          opened.seek(member.offset_data)
          yield from archives.addresses_in(opened.read(member.size), inside)
  except DAMAGE as error:
    if file.kind != SHARD:
      raise _not_whole(file.path, error) from None
    message = f"the rest of the tar file is lost ({reason_of(error)})"
    yield Trouble("truncated", os.path.basename(file.path), message)


def _not_whole(path: str, error: Exception) -> XmcapError:
  return XmcapError(f"{path}: not a complete tar file ({reason_of(error)}): download it again")


def members(file: io.FileIO) -> Iterator[tuple[tarfile.TarInfo, str | None]]:
  """Yields (entry, path in the tar file, or None if refused); errors are those of `DAMAGE`."""
  length = os.fstat(file.fileno()).st_size
  with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
    last = -1
    while (member := archive.next()) is not None:
      # Otherwise tarfile keeps all of them.
      archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue]
      if member.offset <= last:
        raise tarfile.ReadError("its entries form a loop")
      last = member.offset
      inside = archives.safe_path(member.name)
      if inside is None or not (member.isreg() or member.isdir()) or member.issparse():
        yield member, None
        continue
      if member.isreg() and member.offset_data + member.size > length:
        raise tarfile.ReadError(f"{shown(member.name)} is truncated")
      yield member, inside
    _check_end(file, archive.offset)


def _check_end(file: io.FileIO, offset: int) -> None:
  """Raises ReadError if a tar file lacks its end mark, because tarfile takes a damaged header for the end."""
  file.seek(offset)
  block = file.read(tarfile.BLOCKSIZE)
  if not block:
    # The end mark, two blocks of zeros, has been read or is missing.
    file.seek(max(0, offset - tarfile.BLOCKSIZE))
    block = file.read(tarfile.BLOCKSIZE) or b"\1"
  if block.strip(b"\0"):
    raise tarfile.ReadError(f"no end mark, or a damaged header at byte {offset:,}")
