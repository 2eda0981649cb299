"""Folders and text files, written whole or not at all; and the cores to write them with."""

import os
import pathlib

from xmcap.errors import UsageError, XmcapError
from xmcap.whole_files import replacing

__all__ = ["available_cores", "make_folder", "remove_incomplete", "replacing", "write_text"]


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


def remove_incomplete(folder: pathlib.Path) -> None:
  """Removes what kills left in a folder of files that were being written by `replacing`."""
  for left in folder.glob(".*.incomplete"):
    left.unlink(missing_ok=True)


def available_cores() -> int:
  """The CPU cores that this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
