"""Atomic writes of one file or of a set of files, and the repair after a kill.

A file is written as `.NAME.PID.incomplete` in its folder and then renamed. Files of a set keep such names until all are
written. Then a journal that lists the renames is put in place, which commits the set. A process that finds a journal
completes it, so after a kill the files are either all old or all new. Sets of several folders have a journal each,
all of which are written before the first takes effect; a kill between two leaves whole folders.
"""

import contextlib
import contextvars
import errno
import json
import os
import pathlib
import re
import shutil
import stat
from collections.abc import Iterable, Iterator

import msgspec

from xmcap.errors import UsageError, XmcapError
from xmcap.files import paths

FOLDER_JOURNAL = ".xmcap.results"
"""Name of the journal in an output folder."""

FULL_HINTS = {
  errno.ENOSPC: "the disk that holds it is full: free space there",
  errno.EDQUOT: "your quota on the disk that holds it is used up: free space there",
  errno.EFBIG: "the file system or the shell (`ulimit -f`) allows no larger file: choose another place",
}
_MAX_JOURNAL = 16 << 20  # bytes; some 100,000 files
_DEVICES = ("/dev/fd", "/proc/")
_INCOMPLETE = re.compile(r"\.(.+)\.(\d+)\.incomplete", re.DOTALL)


def cannot_write(path: str | os.PathLike, error: OSError) -> XmcapError:
  """Returns the error for a file that cannot be written: which file, why, and what to do."""
  hint = FULL_HINTS.get(error.errno or 0, "check free space and permissions there")
  return XmcapError(f"cannot write {path}: {error.strerror or error}: {hint}, and start again")


@contextlib.contextmanager
def write_errors_name(path: str | os.PathLike) -> Iterator[None]:
  """Turns OSError into `cannot_write`, so that it is not mistaken for an error of an input."""
  try:
    yield
  except OSError as error:
    raise cannot_write(path, error) from None


class _Journal(msgspec.Struct):
  """The content of a journal: {file: its incomplete file}, and the files to remove; paths from the folder."""

  renamed: dict[str, str]
  removed: list[str]


class Batch:
  """Changes of files in one folder, or also `below` it, that take effect together, when its journal is in place."""

  def __init__(self, folder: pathlib.Path, journal: pathlib.Path, below: bool = False):
    self.folder = os.path.realpath(folder)
    self.journal = journal
    self.below = below
    self.renamed: dict[str, str] = {}  # path from the folder -> that of the incomplete file
    self.removed: set[str] = set()
    self._cleared = {"."}  # the lock has cleared the folder

  def place(self, path: pathlib.Path) -> str:
    """Returns the path of a file from the folder of the batch; "" if the batch does not take it."""
    parent = os.path.relpath(os.path.realpath(path.parent), self.folder)
    if parent != "." and (not self.below or parent.split(os.sep)[0] == os.pardir):
      return ""
    if parent not in self._cleared:
      self._cleared.add(parent)
      clear(path.parent)
    return os.path.normpath(os.path.join(parent, path.name))

  def prepare(self) -> None:
    """Writes the journal under a temporary name, so that a full disk is noticed before anything takes effect."""
    content = _Journal(self.renamed, sorted(self.removed - self.renamed.keys()))
    # Not by msgspec, which refuses names that are not UTF-8.
    text = json.dumps(msgspec.to_builtins(content))
    if len(text) > _MAX_JOURNAL:
      raise XmcapError(
        f"{self.folder}: {len(self.renamed):,} files are too many to write together: make fewer"
      )
    _temporary(self.journal).write_text(text, encoding="utf-8")

  def commit(self) -> None:
    """Makes all files appear."""
    os.replace(_temporary(self.journal), self.journal)
    self.renamed.clear()  # from here on the journal owns them
    carry_out(self.journal)

  def discard(self) -> None:
    """Removes what is incomplete."""
    for name in (*self.renamed.values(), _temporary(self.journal).name):
      _remove_incomplete(pathlib.Path(self.folder, name))


current: contextvars.ContextVar[list[Batch] | None] = contextvars.ContextVar("batches", default=None)
"""The batches that collect the files being written, one a folder."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Gives a temporary name to write to; the file is renamed to `path` if the block succeeds, else removed.

  The name contains the process id: a process orphaned by a kill may still write when the next run has begun.
  `/dev/null`, `/dev/stdout` and the like are written directly. XmcapError if the file cannot be renamed; UsageError for
  a path that no file can have.
  """
  paths.check_name(path)
  path = pathlib.Path(path)
  if not path.name:
    raise UsageError(f"{path}: the path of a folder: give the path of a file")
  if os.path.dirname(os.path.abspath(path)).startswith(_DEVICES) or os.path.dirname(path) == "/dev":
    yield path
    return
  temporary = _temporary(path)
  batch, place = _batch_of(path)
  if batch:
    clear(path.parent, path.name)  # the lock of a set beside its main file clears only that one's
  try:
    yield temporary
    with write_errors_name(path):
      if batch:
        _refuse_folder(path)
        batch.renamed[place] = os.path.join(os.path.dirname(place), temporary.name)
      else:
        os.replace(temporary, path)
  except BaseException:
    _remove_incomplete(temporary)
    raise


def remove(path: str | os.PathLike) -> None:
  """Removes a file if it exists; within a batch, when the batch commits."""
  path = pathlib.Path(path)
  batch, place = _batch_of(path)
  if batch:
    _refuse_folder(path)
    batch.removed.add(place)
  else:
    path.unlink(missing_ok=True)


def _batch_of(path: pathlib.Path) -> tuple[Batch | None, str]:
  """The batch that takes a file, and the path of the file from its folder."""
  for batch in current.get() or ():
    if place := batch.place(path):
      return batch, place
  return None, ""


def _remove_incomplete(path: str | os.PathLike) -> None:
  with contextlib.suppress(OSError):
    if os.path.isdir(path) and not os.path.islink(path):
      shutil.rmtree(path, ignore_errors=True)
    else:
      os.unlink(path)


def _refuse_folder(path: pathlib.Path) -> None:
  """Raises now, because a commit must not fail halfway."""
  if path.is_dir() and not path.is_symlink():
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))


def carry_out(journal: pathlib.Path) -> None:
  """Completes a journal if there is one; XmcapError if xmcap did not write it, as it could name any file."""
  content = _read(journal)
  if content is None:
    return
  for name, temporary in content.renamed.items():
    with contextlib.suppress(FileNotFoundError):  # done before the kill
      os.replace(journal.parent / temporary, journal.parent / name)
  for name in content.removed:
    (journal.parent / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # a folder that is not empty stays
      for parent in pathlib.PurePath(name).parents[:-1]:
        os.rmdir(journal.parent / parent)
  journal.unlink(missing_ok=True)


def clear(folder: pathlib.Path, name: str = "") -> None:
  """Removes incomplete files and folders of ended processes: those of one name, or all in a folder."""
  with contextlib.suppress(OSError), os.scandir(folder) as entries:
    for entry in entries:
      match = _INCOMPLETE.fullmatch(entry.name)
      if not match or name not in ("", match[1]) or _alive(int(match[2])):
        continue
      _remove_incomplete(entry)


def _temporary(path: pathlib.Path) -> pathlib.Path:
  return path.with_name(f".{path.name}.{os.getpid()}.incomplete")


def _alive(process: int) -> bool:
  try:
    os.kill(process, 0)
  except (ProcessLookupError, OverflowError):
    return False
  except PermissionError:  # another user's process
    pass
  return True


def _read(journal: pathlib.Path) -> _Journal | None:
  try:
    if not stat.S_ISREG(os.lstat(journal).st_mode):
      raise ValueError("no file")
    with open(journal, "rb") as file:
      content = msgspec.convert(json.loads(file.read(_MAX_JOURNAL)), _Journal)
    names = [*content.renamed, *content.removed]
    if not all(map(_is_path, names)) or not _are_inside(journal.parent, names):
      raise ValueError("names")
    for name, temporary in content.renamed.items():
      match = _INCOMPLETE.fullmatch(os.path.basename(temporary))
      if not match or os.path.join(os.path.dirname(temporary), match[1]) != name:
        raise ValueError("names")
    return content
  except FileNotFoundError:
    return None
  except (ValueError, msgspec.MsgspecError, RecursionError):
    raise XmcapError(
      f"{journal}: not a journal that xmcap wrote: remove it, and make the results again"
    ) from None


def _is_path(path: str) -> bool:
  return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _are_inside(folder: pathlib.Path, paths: Iterable[str]) -> bool:
  """Whether no link leads from the folder to another on the way to the files."""
  real = os.path.realpath(folder)
  parents = {os.path.dirname(path) for path in paths}
  return all(
    os.path.realpath(folder / parent) == os.path.normpath(os.path.join(real, parent)) for parent in parents
  )
