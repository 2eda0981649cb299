"""Atomic writes of local files, with errors that name the file and the reason."""

import contextlib
import io
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from xmcap.errors import UsageError, XmcapError
from xmcap.files import outputs, paths, whole_files
from xmcap.files.whole_files import FULL_HINTS, cannot_write, replacing, write_errors_name
from xmcap.terminal import shown

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


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a UTF-8 file atomically; within `outputs.together` it appears with the others.

  Raises:
    UsageError: the folder cannot be made.
    XmcapError: the file cannot be written, or the disk is full.
  """
  write_lines(path, (text,))


def write_forms(folder: str | os.PathLike, stem: str, **texts: str) -> None:
  """Writes several forms of a text together: `STEM.csv` for `csv=...` and so on. Raises as `write_text`."""
  with outputs.together(folder):
    for suffix, text in texts.items():
      write_text(pathlib.Path(folder, f"{stem}.{suffix}"), text)


def write_lines(path: str | os.PathLike, lines: Iterable[str]) -> None:
  """Writes pieces of text, which bring their own line ends, one by one; otherwise as `write_text`."""
  with whole(path) as file:
    file.writelines(encoded(line, str(path)) for line in lines)


def encoded(text: str, where: str) -> bytes:
  """Encodes a text that is written; UsageError for a lone surrogate, which a caller may pass and UTF-8 cannot hold."""
  try:
    return text.encode("utf-8")
  except UnicodeEncodeError as error:
    around = shown(error.object[max(0, error.start - 20) : error.end + 20])
    raise UsageError(f"{where}: a text holds a lone surrogate ('{around}'): give whole characters") from None


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
  """Writes bytes to a file, as `write_text`."""
  with whole(path) as file:
    file.write(data)


def write_array(path: str | os.PathLike, array: np.ndarray) -> None:
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
def whole(path: str | os.PathLike) -> Iterator[BinaryIO]:
  """Opens a file as `output`, in a folder that is made; it gets its name only when the block succeeds."""
  path = pathlib.Path(path)
  make_folder(path.parent)
  with replacing(path) as temporary, output(temporary, known_as=path) as file:
    yield file


def remove(path: str | os.PathLike) -> None:
  """Removes a file if it exists, within `outputs.together` at its end; XmcapError if it cannot be removed."""
  try:
    whole_files.remove(path)
  except OSError as error:
    raise XmcapError(f"{path}: cannot be removed ({error.strerror or error}); remove it yourself") from error


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
