"""What is in tar files, packed or not, without unpacking them into files and without trusting a name or a header."""

import bz2
import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from xmcap.data.corpora.archives import (
  MAX_ABOUT,
  MAX_BYTES,
  Address,
  Found,
  Trouble,
  address_in,
  reason_of,
  role_of,
  safe_path,
  split_suffix,
)
from xmcap.data.corpora.lines import most_unpacked
from xmcap.errors import XmcapError
from xmcap.storage import files
from xmcap.terminal import shown

_MAX_HEADER = 1 << 20  # bytes that a header may take
_COPY = 1 << 20
# RecursionError: tarfile calls itself for a header that speaks of the next one.
_DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, RecursionError)


def search_tar(path: str, alone: bool, unpacked: str = "") -> Iterator[Found | Address | Trouble]:
  """Yields what is in a tar file, in its order.

  Args:
    path: of the file.
    alone: whether it is all there is: then one that breaks off is an error, and else it is counted (as `truncated`)
      and what stands before the break is used, since a shard of thousands is left like that by a fetch that was
      killed.
    unpacked: of a .tgz or .tar.bz2, a file to which the pictures are copied one behind the other; offsets are in it.

  Raises:
    XmcapError: it breaks off or is damaged, and is `alone`; or the disk is full.
  """
  try:
    if not unpacked:
      with open(path, "rb") as file:
        yield from _members(path, file, os.path.getsize(path), None)
    else:
      with open(path, "rb") as packed, files.output(unpacked) as copy:
        opener = bz2.open if packed.peek(3)[:3] == b"BZh" else gzip.open
        with opener(packed) as file:
          yield from _members(path, file, None, copy)
          # The checksum stands at the end of the stream, behind the marks that end the tar.
          end = most_unpacked(os.path.getsize(path))
          while file.read(_COPY):
            if file.tell() > end:
              raise tarfile.ReadError(f"it unpacks to over {end:,} bytes")
  except _DAMAGE as error:
    if alone:
      raise XmcapError(f"{path}: no whole tar file ({reason_of(error)}): download it again") from None
    yield Trouble(
      "truncated", os.path.basename(path), f"what follows in the tar file is lost ({reason_of(error)})"
    )


class _Bounded:
  """A file for tarfile, which reads a header at once however large that says it is, and a packed file to its end.

  Args:
    file: what is read.
    end: a place behind which nothing is read; None where the file is no packed one.
  """

  def __init__(self, file: BinaryIO, end: int | None):
    self._file, self._end = file, end
    self.tell = file.tell

  def seek(self, place: int) -> int:
    # A packed file is unpacked up to there.
    if self._end is not None and place > self._end:
      raise tarfile.ReadError(f"it unpacks to over {self._end:,} bytes")
    return self._file.seek(place)

  def read(self, size: int) -> bytes:
    if not 0 <= size <= _MAX_HEADER:
      raise tarfile.ReadError(f"a header of {size:,} bytes")
    return self._file.read(size)


def _members(
  path: str, file: BinaryIO, length: int | None, copy: BinaryIO | None
) -> Iterator[Found | Address | Trouble]:
  end = None if copy is None else most_unpacked(os.path.getsize(path))
  file = _Bounded(file, end)
  with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
    copied, last = 0, -1
    while (member := archive.next()) is not None:
      archive.members.clear()  # or all of them would be kept
      if member.offset <= last:
        raise tarfile.ReadError("its entries run in a circle")
      last = member.offset
      inside = safe_path(member.name)
      if inside is None or not (member.isreg() or member.isdir()) or member.issparse():
        yield Trouble(
          "unsafe_path",
          f"{os.path.basename(path)}: {shown(member.name)}",
          "a link or device, or a path out of the folder",
        )
        continue
      role = role_of(inside) if member.isreg() else ""
      if not role:
        continue
      if length is not None and member.offset_data + member.size > length:
        raise tarfile.ReadError(f"{shown(member.name)} is cut off")
      if role == "about":
        if member.size <= MAX_ABOUT:
          file.seek(member.offset_data)
          if url := address_in(file.read(member.size)):
            yield Address(split_suffix(inside)[0], url)
      elif copy is None:
        yield Found(inside, member.offset_data, member.size)
      else:
        file.seek(member.offset_data)
        _copy(file, copy, member)
        yield Found(inside, copied, min(member.size, MAX_BYTES))
        copied += min(member.size, MAX_BYTES)
    _check_end(file, archive.offset)


def _copy(file: BinaryIO, copy: BinaryIO, member: tarfile.TarInfo) -> None:
  left = min(member.size, MAX_BYTES)
  while left:
    block = file.read(min(left, _COPY))
    if not block:
      raise tarfile.ReadError(f"{shown(member.name)} is cut off")
    left -= len(block)
    copy.write(block)


def _check_end(file: BinaryIO, offset: int) -> None:
  """Raises ReadError where a tar does not end as one does: tarfile takes a damaged header for the end."""
  file.seek(offset)
  block = file.read(tarfile.BLOCKSIZE)
  if not block:
    # The end mark has been read, or there is none: it would be two blocks of zeros.
    file.seek(max(0, offset - tarfile.BLOCKSIZE))
    block = file.read(tarfile.BLOCKSIZE) or b"\1"
  if block.strip(b"\0"):
    raise tarfile.ReadError(f"no end mark, or a damaged header at byte {offset:,}")
