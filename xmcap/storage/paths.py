"""Checks of paths that callers and files of strangers give: what no file can be called, and what is no file."""

import os
import stat

from xmcap.errors import UsageError
from xmcap.terminal import shown


def check_name(path: str | os.PathLike) -> None:
  """Raises UsageError for an empty path, and for one with a NUL or a lone surrogate, which the system cannot take."""
  text = os.fsdecode(path)
  try:
    os.fsencode(text)
    wrong = "" if text and "\0" not in text else "it holds a NUL" if text else "it is empty"
  except UnicodeEncodeError:
    wrong = "it holds a lone surrogate"
  if wrong:
    raise UsageError(f"'{shown(text)}': no file can have this name: {wrong}")


def check_file(path: str | os.PathLike) -> None:
  """As `check_name`; also raises UsageError for a pipe or a device, whose other side might never come."""
  check_name(path)
  try:
    mode = os.stat(path).st_mode
  except OSError:
    return  # whoever opens it says why it cannot
  if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
    raise UsageError(
      f"{shown(os.fsdecode(path))}: a pipe or a device, not a file: copy it to a file, and give that"
    )
