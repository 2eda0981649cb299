"""Atomic writes of local files, with errors that name the file and the reason."""

import contextlib
import io
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from xmcap.errors import UsageError
from xmcap.files import paths
from xmcap.files.whole_files import FULL_HINTS, cannot_write, replacing, write_errors_name

_BUFFER = 1 << 20


def make_folder(path: pathlib.Path) -> None:
  """Makes a folder and its parents; UsageError if that is impossible, XmcapError if the disk is full."""
  paths.check_name(path)
  try:
    path.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    if error.errno in FULL_HINTS:
      raise cannot_write(path, error) from None
    raise UsageError(f"cannot make the folder {path}: {error.strerror}; choose another") from None


class _Output(io.FileIO):
  """A file whose write errors name it."""

  def __init__(self, path: str | os.PathLike, mode: str, known_as: str | os.PathLike):
    self._known_as = known_as
    with write_errors_name(known_as):
      super().__init__(path, mode)

  def write(self, data) -> int | None:
    with write_errors_name(self._known_as):
      return super().write(data)

  def close(self) -> None:
    with write_errors_name(self._known_as):
      super().close()


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
  with replacing(path) as temporary, output(temporary, known_as=path) as file:
    yield file


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
