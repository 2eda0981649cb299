"""Keeps start-up logs and stack traces of C++ libraries off the terminal.

On import TensorFlow logs the CPU instructions and drivers that it found. No setting silences all of these lines
(TF_CPP_MIN_LOG_LEVEL=3 does not: some come before its log is set up). So output during the import goes to a file, and
all other lines are printed afterwards.
"""

import contextlib
import importlib.abc
import importlib.machinery
import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

# "I0000 00:00:1795470578.940145   14097 port.cc:153] oneDNN custom ...", and the line that precedes them.
_NOTE = re.compile(rb"[IWE]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ \S+:\d+\] |WARNING: All log messages before absl::")
# urllib3 says so of each connection that it closes where more threads than it keeps connections for use a bucket.
_POOL = "Connection pool is full"
_LOGGERS = ("absl", "tensorflow")  # that libraries write notes for developers to
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
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


def guard_logs() -> None:
  """Lets `logging` print xmcap's own warnings as `xmcap: warning: ...`.

  Of what libraries say through absl's and TensorFlow's loggers it prints errors alone. Without a handler absl
  would set up one, which prints everything as `WARNING:absl:...`.
  """
  handler = logging.StreamHandler()
  handler.setFormatter(_Formatter())
  handler.addFilter(_is_for_users)
  logging.root.addHandler(handler)


def _is_for_users(record: logging.LogRecord) -> bool:
  is_of_library = record.name.split(".")[0] in _LOGGERS and not record.pathname.startswith(_OURS)
  is_note = is_of_library or str(record.msg).startswith(_POOL)
  return record.levelno >= (logging.ERROR if is_note else logging.WARNING)


class _Formatter(logging.Formatter):
  """Begins a line as the command's errors do, or with the name of the library that says it."""

  def formatMessage(self, record: logging.LogRecord) -> str:
    of = "xmcap" if record.pathname.startswith(_OURS) else record.name
    return f"{of}: {record.levelname.lower()}: {record.message}"


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
