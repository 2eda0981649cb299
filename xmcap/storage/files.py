"""Atomic writes of local files, with errors that name the file and the reason."""

import contextlib
import errno
import io
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from xmcap.errors import UsageError, XmcapError
from xmcap.storage.whole_files import replacing as replacing

_FULL = {
  errno.ENOSPC: "the disk that holds it is full: free space there",
  errno.EDQUOT: "your quota on the disk that holds it is used up: free space there",
  errno.EFBIG: "the file system or the shell (`ulimit -f`) allows no larger file: choose another place",
}
_BUFFER = 1 << 20


def make_folder(path: pathlib.Path) -> None:
  """Makes a folder and its parents; UsageError if that is impossible, XmcapError if the disk is full."""
  try:
    path.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    if error.errno in _FULL:
      raise cannot_write(path, error) from None
    raise UsageError(f"cannot make the folder {path}: {error.strerror}; choose another") from None


def cannot_write(path: str | os.PathLike, error: OSError) -> XmcapError:
  """Returns the error for a file that cannot be written: which file, why, and what to do."""
  hint = _FULL.get(error.errno or 0, "check free space and permissions there")
  return XmcapError(f"cannot write {path}: {error.strerror or error}: {hint}, and start again")


class _Output(io.FileIO):
  """A file whose write errors name it, so that they are not mistaken for errors of the input."""

  def __init__(self, path: str | os.PathLike, mode: str, known_as: str | os.PathLike):
    self._known_as = known_as
    try:
      super().__init__(path, mode)
    except OSError as error:
      raise cannot_write(known_as, error) from None

  def write(self, data) -> int | None:
    try:
      return super().write(data)
    except OSError as error:
      raise cannot_write(self._known_as, error) from None


def output(
  path: str | os.PathLike, append: bool = False, known_as: str | os.PathLike | None = None
) -> BinaryIO:
  """Opens a file for writing bytes; failures now or later raise XmcapError, which names `known_as` or `path`."""
  return io.BufferedWriter(_Output(path, "ab" if append else "wb", known_as or path), _BUFFER)


def write_text(path: pathlib.Path, text: str) -> None:
  """Writes a UTF-8 file atomically; XmcapError if it cannot be written."""
  write_bytes(path, text.encode("utf-8"))


def write_bytes(path: pathlib.Path, data: bytes) -> None:
  """Writes bytes to a file, as `write_text`."""
  with whole(path) as file:
    file.write(data)


def write_array(path: pathlib.Path, array: np.ndarray) -> None:
  """Writes an array to an .npy file, as `write_text`."""
  # numpy writes to a real file in C, and its error does not give the reason.
  buffer = io.BytesIO()
  np.save(buffer, array, allow_pickle=False)
  write_bytes(path, buffer.getvalue())


def write_anywhere(path: Any, data: bytes) -> None:
  """Writes a file at an `epath.Path`, local or in a bucket, atomically; raises the store's own errors."""
  path.parent.mkdir(parents=True, exist_ok=True)
  part = path.parent / f"{path.name}.part"
  part.write_bytes(data)
  part.replace(path)


@contextlib.contextmanager
def whole(path: pathlib.Path) -> Iterator[BinaryIO]:
  """Opens a file as `output`; it gets its name only when the block succeeds."""
  of_the_caller = False
  try:
    with replacing(path) as temporary, output(temporary, known_as=path) as file:
      try:
        yield file
      except OSError:
        of_the_caller = True
        raise
  except OSError as error:
    if of_the_caller:
      raise
    raise cannot_write(path, error) from None


def remove_incomplete(folder: pathlib.Path) -> None:
  """Removes the incomplete files and folders that killed writers left in a folder."""
  for left in folder.glob(".*.incomplete"):
    if left.is_dir():
      shutil.rmtree(left, ignore_errors=True)
    else:
      left.unlink(missing_ok=True)


def cache_folder(name: str) -> pathlib.Path:
  """Returns `xmcap/NAME` in the user's cache folder; it need not exist."""
  caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
  return pathlib.Path(caches).expanduser() / "xmcap" / name


def available_cores() -> int:
  """Returns the number of CPU cores that this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
