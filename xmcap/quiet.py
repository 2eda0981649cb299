"""Keeps the notes that libraries in C++ print about themselves off the terminal, and their stack traces.

TensorFlow tells which CPU instructions and drivers it found, in a block of lines before the first line of a command.
None of its settings stops all of them (TF_CPP_MIN_LOG_LEVEL=3 does not: they come before its log is set up), so what
is printed while it is imported goes through a file, and only lines that are no such notes come back.
"""

import contextlib
import importlib.abc
import importlib.machinery
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

# "I0000 00:00:1795470578.940145   14097 port.cc:153] oneDNN custom ...", and the line that announces such lines.
_NOTE = re.compile(rb"[IWE]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ \S+:\d+\] |WARNING: All log messages before absl::")
_NOISY = ("tensorflow", "libtpu")
_SETTINGS = {
  "TF_CPP_MIN_LOG_LEVEL": "3",
  "TF_ENABLE_ONEDNN_OPTS": "0",
  "TPU_MIN_LOG_LEVEL": "3",
  "TPU_STDERR_LOG_LEVEL": "3",
}


def guard() -> None:
  """From now on the import of a library that is known for such notes prints none; a user's own settings stand."""
  for name, value in _SETTINGS.items():
    os.environ.setdefault(name, value)
  if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Finder())


@contextlib.contextmanager
def without_notes() -> Iterator[None]:
  """Inside it, what C++ code writes to the standard error output is kept; at the end all but notes is printed."""
  with tempfile.TemporaryFile() as kept:
    try:
      sys.stderr.flush()
      before = os.dup(2)
    except (OSError, AttributeError, ValueError):  # no standard error output
      yield
      return
    os.dup2(kept.fileno(), 2)
    try:
      yield
    finally:
      sys.stderr.flush()
      os.dup2(before, 2)
      kept.seek(0)
      with contextlib.suppress(OSError):
        os.write(before, b"".join(line for line in kept if not _NOTE.match(line)))
      os.close(before)


def die_plainly() -> None:
  """SIGTERM ends the process at once again, where a library in C++ has put a stack trace in its place."""
  if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Finder(importlib.abc.MetaPathFinder):
  """Finds what the others find, with a loader that is quiet about the noisy ones."""

  def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
    if fullname not in _NOISY:
      return None
    spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
    if spec is None or spec.loader is None:
      return None
    run = spec.loader.exec_module

    def exec_module(module: Any) -> None:
      with without_notes():
        run(module)

    spec.loader.exec_module = exec_module  # pyright: ignore[reportAttributeAccessIssue]
    return spec
