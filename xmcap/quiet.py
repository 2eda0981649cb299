"""Keeps start-up logs and stack traces of C++ libraries off the terminal.

On import TensorFlow logs the CPU instructions and drivers that it found. No setting silences all of these lines
(TF_CPP_MIN_LOG_LEVEL=3 does not: some come before its log is set up). So output during the import goes to a file, and
all other lines are printed afterwards.
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

# "I0000 00:00:1795470578.940145   14097 port.cc:153] oneDNN custom ...", and the line that precedes them.
_NOTE = re.compile(rb"[IWE]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ \S+:\d+\] |WARNING: All log messages before absl::")
_NOISY = ("tensorflow", "libtpu")
_SETTINGS = {
  "TF_CPP_MIN_LOG_LEVEL": "3",
  "TF_ENABLE_ONEDNN_OPTS": "0",
  "TPU_MIN_LOG_LEVEL": "3",
  "TPU_STDERR_LOG_LEVEL": "3",
}


def guard() -> None:
  """Silences the start-up logs of later imports of noisy libraries; the user's own settings take precedence."""
  for name, value in _SETTINGS.items():
    os.environ.setdefault(name, value)
  if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Finder())


@contextlib.contextmanager
def without_notes() -> Iterator[None]:
  """Holds back what C++ code writes to stderr; at the end prints it without the start-up logs."""
  with tempfile.TemporaryFile() as kept:
    try:
      with _to_file(kept.fileno()):
        yield
    finally:
      kept.seek(0)
      with contextlib.suppress(OSError):
        os.write(2, b"".join(line for line in kept if not _NOTE.match(line)))


@contextlib.contextmanager
def silenced() -> Iterator[None]:
  """Drops what native code writes to stderr, such as the message of a panic in Rust."""
  with open(os.devnull, "wb") as nothing, _to_file(nothing.fileno()):
    yield


@contextlib.contextmanager
def _to_file(descriptor: int) -> Iterator[None]:
  """Sends stderr to a file for the block, if there is a stderr."""
  try:
    sys.stderr.flush()
    before = os.dup(2)
  except (OSError, AttributeError, ValueError):
    yield
    return
  os.dup2(descriptor, 2)
  try:
    yield
  finally:
    sys.stderr.flush()
    os.dup2(before, 2)
    os.close(before)


def die_plainly() -> None:
  """Restores SIGTERM's default action where a C++ library has replaced it by a stack trace."""
  if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Finder(importlib.abc.MetaPathFinder):
  """Finds the noisy libraries and wraps their loaders in `without_notes`."""

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
