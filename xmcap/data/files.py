"""Folders and text files, written whole or not at all; and the cores to write them with."""

import contextlib
import os
import pathlib
from collections.abc import Iterator

from xmcap.errors import UsageError, XmcapError


def make_folder(path: pathlib.Path) -> None:
  """Makes a folder and its parents; UsageError in one line where that cannot be."""
  try:
    path.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise UsageError(f"cannot make the folder {path}: {error.strerror}; choose another") from None


def write_text(path: pathlib.Path, text: str) -> None:
  """Writes a UTF-8 file whole or not at all; XmcapError in one line where that cannot be."""
  try:
    with replacing(path) as temporary:
      temporary.write_text(text, encoding="utf-8", newline="\n")
  except OSError as error:
    raise XmcapError(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """A temporary name to write a file under; it is renamed to `path` if all went well, and removed if not.

  The name is this process's own: one that was orphaned by a kill may still write when the next one has begun.
  """
  temporary = path.with_name(f".{path.name}.{os.getpid()}.incomplete")
  try:
    yield temporary
    os.replace(temporary, path)
  except BaseException:
    temporary.unlink(missing_ok=True)
    raise


def remove_incomplete(folder: pathlib.Path) -> None:
  """Removes what kills left in a folder of files that were being written by `replacing`."""
  for left in folder.glob(".*.incomplete"):
    left.unlink(missing_ok=True)


def available_cores() -> int:
  """The CPU cores that this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
