"""Outputs of a command: written by one process at a time, atomically as a set, and never over an input.

A lock is an `flock` on a small file: `.xmcap.lock` in an output folder, `.NAME.lock` beside an output file. The file
names the holder. The lock ends with its holder, however that ends, and works over NFS; a leftover file locks nothing.
A process that takes a lock first repairs what a killed holder left (whole_files.py).
"""

import contextlib
import contextvars
import dataclasses
import errno
import fcntl
import os
import pathlib
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping

from xmcap import terminal
from xmcap.errors import UsageError, XmcapError
from xmcap.files import whole_files
from xmcap.files.paths import check_name, check_scheme

FOLDER_LOCK = ".xmcap.lock"
"""Name of the lock in an output folder; code that lists the folder must skip it."""

Paths = str | os.PathLike | Iterable[str | os.PathLike]

_OF_FILES = (
  ".csv", ".html", ".json", ".jsonl", ".md", ".parquet", ".pdf", ".svg", ".tex", ".tsv", ".txt", ".xlsx"
)  # fmt: skip
_TRIES = 40
_PAUSE = 0.05  # seconds; long enough for a holder to write its name, or to remove its lock
_HOLDER = 300  # bytes of the holder's name that are shown
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.ELOOP)

_mutex = threading.Lock()
_inner_locks: contextvars.ContextVar[contextlib.ExitStack] = contextvars.ContextVar("inner_locks")
_held: dict[str, "_Hold"] = {}  # lock file -> what this process holds


class _Busy(XmcapError):
  """Another process holds the output; `holder` says which."""

  def __init__(self, holder: str, path: str, option: str):
    super().__init__(f"{path}: is being written by {holder}: wait until it ends, or give another {option}")
    self.holder = holder


@dataclasses.dataclass
class _Hold:
  """A lock of this process: its open file, whether it made the folder, and how often it was taken."""

  descriptor: int
  made_folder: bool
  count: int = 1


def _forget() -> None:
  """Drops the parent's locks in a forked child, which would otherwise hold them beyond the parent's end."""
  for hold in _held.values():
    os.close(hold.descriptor)
  _held.clear()


os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_mutex.release)
os.register_at_fork(after_in_child=_forget)


def _warn(line: str) -> None:
  print(f"xmcap: {line}", file=sys.stderr)


@contextlib.contextmanager
def held(
  path: str | os.PathLike,
  command: str = "xmcap",
  option: str = "--out",
  *,
  folder: bool = True,
  lease: float = 0,
  bucket: bool = False,
) -> Iterator[None]:
  """Locks an output against other processes; this process may take the lock again.

  The folder is made if necessary, and removed at the end if it is empty.

  Args:
    path: the output. On a file system without locks, a line warns that there is no protection.
    command: the writing command, named to a process that is refused.
    option: the option that names the output.
    folder: whether the output is a folder rather than a file.
    lease: seconds to wait for a holder on another host; a network disk notices late that a host has died.
    bucket: whether the output may be in a bucket, where a line warns as well.

  Raises:
    UsageError: the path is empty, in a bucket though it must not be, or the path of a file ends in a slash.
    XmcapError: another process holds the output; the message names it.
  """
  check_path(path, option, folder)
  lock = None
  if "://" in os.fspath(path):
    if not bucket:
      raise UsageError(
        f"{option}={path}: is not written to a bucket: give a path here, and copy the result there"
      )
    _warn(f"{path}: a bucket cannot be locked: start only one writer")
  elif lock := _lock_of(path, folder):
    try:
      _take_patiently(lock, os.fspath(path), command, option, lease)
    except OSError as error:
      # With other errors the output cannot be written either, and the writer will say so.
      if error.errno in _NO_LOCKS or os.path.lexists(lock):
        _warn(f"{path}: the output cannot be locked ({lock}: {error.strerror}): start only one writer")
        with contextlib.suppress(OSError):
          _put_right(lock)
  try:
    yield
  finally:
    if lock:
      _release(lock)


def check_path(path: str | os.PathLike, option: str = "--out", folder: bool = True) -> None:
  """Raises UsageError for a path that no file can have, an unknown scheme, and one of the other kind.

  A file's path ends in no slash, and a new folder's not as a table or a page does.
  """
  if os.fspath(path):
    check_name(path)
    check_scheme(path)
  else:
    raise UsageError(f"{option} is empty: give the path of a {'folder' if folder else 'file'}")
  if not folder and os.fspath(path).endswith(os.sep):
    raise UsageError(f"{option}={terminal.shown(path)} is the path of a folder: give the path of a file")
  if folder and os.fspath(path).lower().endswith(_OF_FILES) and not os.path.isdir(path):
    raise UsageError(
      f"{option}={terminal.shown(path)} is the name of a file: give a folder, in which the files get their names"
    )


@contextlib.contextmanager
def held_all(places: Iterable[tuple[str, str | os.PathLike, bool]], command: str) -> Iterator[None]:
  """Locks several outputs (option, path, whether it is a folder) with `held`, in the same order in all processes."""
  order = sorted(places, key=lambda place: os.path.realpath(place[1]))
  with contextlib.ExitStack() as stack:
    for option, path, folder in order:
      stack.enter_context(held(path, command, option, folder=folder))
    yield


@contextlib.contextmanager
def together(path: str | os.PathLike, folder: bool = True, below: bool = False) -> Iterator[None]:
  """Makes all changes by `whole_files.replacing` and `remove` in a folder take effect together at the end, or never.

  `path` is the folder or, without `folder`, the main file of the set; it is locked meanwhile. With `below` the files in
  folders below are part of the set. Within another set, this one takes effect at the end of the outer one.

  Raises:
    XmcapError: the files cannot be written; or as `held`.
  """
  place = pathlib.Path(path)
  parent = place if folder else place.parent
  check_path(path, folder=folder)
  outer = whole_files.current.get()
  if outer is not None and any(batch.folder == os.path.realpath(parent) for batch in outer):
    yield
    return
  batch = whole_files.Batch(parent, _journal_of(place, folder), below)
  if outer is not None:
    _inner_locks.get().enter_context(held(path, folder=folder))
    outer.append(batch)
    try:
      yield
    except BaseException:
      outer.remove(batch)
      batch.discard()
      raise
    return
  with held(path, folder=folder), contextlib.ExitStack() as locks:
    batches = [batch]
    tokens = whole_files.current.set(batches), _inner_locks.set(locks)
    try:
      yield
      for batch in batches:
        with whole_files.write_errors_name(batch.journal.parent):
          batch.prepare()
      for batch in batches:
        with whole_files.write_errors_name(batch.journal.parent):
          batch.commit()
    except BaseException:
      for batch in batches:
        batch.discard()
      raise
    finally:
      whole_files.current.reset(tokens[0])
      _inner_locks.reset(tokens[1])


def settle(path: str | os.PathLike, folder: bool = True) -> None:
  """Completes a set of files that was written `together` by a killed process; XmcapError if that is impossible."""
  journal = _journal_of(pathlib.Path(path), folder)
  if not os.path.lexists(journal):
    return
  with held(path, folder=folder):
    pass
  if os.path.lexists(journal):
    raise XmcapError(
      f"{path}: its writer was killed before it had renamed all its files, and the folder is read-only: "
      "make it writable, or copy it"
    )


def keep_apart(outputs: Mapping[str, Paths | None], inputs: Mapping[str, Paths | None]) -> None:
  """Raises UsageError if an output is also an input or another output. Follows links; ignores devices and pipes.

  Both map an option to its file or files; "" and None stand for no file.
  """
  written: list[tuple[str, str]] = []
  for option, path in _each(outputs):
    for other, place in written:
      if _same(path, place):
        raise UsageError(f"{option}={path}: {other}={place} is the same file: name another")
    written.append((option, path))
  for option, path in _each(inputs):
    for other, place in written:
      if _same(path, place):
        raise UsageError(f"{other}={place}: would overwrite the input {option}={path}: name another")


def _each(places: Mapping[str, Paths | None]) -> Iterator[tuple[str, str]]:
  for option, paths in places.items():
    if paths is None or isinstance(paths, str | os.PathLike):
      paths = [paths]
    yield from ((option, os.fspath(path)) for path in paths if path)


def _same(path: str, other: str) -> bool:
  if "://" in path or "://" in other:
    return path.rstrip("/") == other.rstrip("/")
  try:
    status, seen = os.stat(path), os.stat(other)
  except (OSError, ValueError):
    return os.path.realpath(path) == os.path.realpath(other)
  return os.path.samestat(status, seen) and (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))


def _lock_of(path: str | os.PathLike, folder: bool) -> str | None:
  """Returns the lock file; None if the path is not of the kind that `folder` says."""
  real = os.path.realpath(path)
  is_right_kind = os.path.isdir(real) if folder else os.path.isfile(real)
  if os.path.exists(real) and not is_right_kind:
    return None
  if folder:
    return os.path.join(real, FOLDER_LOCK)
  parent, name = os.path.split(real)
  return os.path.join(parent, f".{name}.lock")


def _journal_of(path: pathlib.Path, folder: bool) -> pathlib.Path:
  return path / whole_files.FOLDER_JOURNAL if folder else path.with_name(f".{path.name}.results")


def _put_right(lock: str) -> None:
  """Repairs what a killed holder left: renames finished files of a set, and removes incomplete files."""
  folder, name = os.path.split(lock)
  name = "" if name == FOLDER_LOCK else name[1 : -len(".lock")]
  place = pathlib.Path(folder, name)
  journal = _journal_of(place, not name)
  whole_files.carry_out(journal)
  # In a folder all incomplete files belong to the output; beside a file only its own and that of its journal do.
  for base in (name, journal.name) if name else ("",):
    whole_files.clear(pathlib.Path(folder), base)


def _take_patiently(lock: str, path: str, command: str, option: str, lease: float) -> None:
  until = time.monotonic() + lease
  waited = False
  while True:
    try:
      return _take(lock, path, command, option)
    except _Busy as busy:
      # On this host a lock ends with its process, so waiting is no use.
      if time.monotonic() >= until or f" on {socket.gethostname()} (" in busy.holder:
        raise
      if not waited:
        _warn(f"{path}: held by {busy.holder}: waiting {lease:g} s, as that host may have died")
      waited = True
    time.sleep(1)


def _take(lock: str, path: str, command: str, option: str) -> None:
  """Takes a lock, or raises _Busy; OSError if locks are impossible here."""
  folder = os.path.dirname(lock)
  with _mutex:
    if lock in _held:
      _held[lock].count += 1
      return
    made_folder = not os.path.lexists(folder)
    try:
      for _ in range(_TRIES):
        with _removed_by_another(folder):
          os.makedirs(folder, exist_ok=True)
          descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
          holder = _lock(lock, descriptor, command)
          if holder is None:
            _held[lock] = _Hold(descriptor, made_folder)
            return
          os.close(descriptor)
          if holder:
            raise _Busy(holder, path, option)
        time.sleep(_PAUSE)
      raise _Busy("another process", path, option)
    except BaseException:
      if made_folder:
        _remove_if_empty(folder)
      raise


@contextlib.contextmanager
def _removed_by_another(folder: str) -> Iterator[None]:
  """Ends at the errors that come of another process which has just removed the empty folder."""
  try:
    yield
  except FileNotFoundError:
    pass
  except (
    FileExistsError
  ):  # of `makedirs`, which found the folder when it made it, and not when it looked again
    if os.path.lexists(folder) and not os.path.isdir(folder):
      raise


def _lock(lock: str, descriptor: int, command: str) -> str | None:
  """Locks the open file and returns None; if another holds it, returns the holder's name, "" if not yet known."""
  try:
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      return terminal.shown(os.pread(descriptor, _HOLDER, 0).decode("utf-8", "replace").strip())
    if not _is_at(descriptor, lock):
      return ""  # its holder has just released and removed it
    since = time.strftime("%Y-%m-%d %H:%M")
    holder = f"process {os.getpid()} on {socket.gethostname()} ({command}, since {since})\n"
    with contextlib.suppress(OSError):  # a full disk; the lock works without the name
      os.ftruncate(descriptor, 0)
      os.pwrite(descriptor, holder.encode("utf-8", "replace"), 0)
    _put_right(lock)
    return None
  except BaseException:
    with contextlib.suppress(OSError):
      os.unlink(lock)
    os.close(descriptor)
    raise


def _release(lock: str) -> None:
  with _mutex:
    hold = _held.get(lock)
    if hold is None:
      return  # in a forked child, which holds nothing
    hold.count -= 1
    if hold.count:
      return
    del _held[lock]
    # Removed while still locked, so that a process that has it open sees that its name is gone or another file's.
    with contextlib.suppress(OSError):
      if _is_at(hold.descriptor, lock):
        os.unlink(lock)
    os.close(hold.descriptor)
    if hold.made_folder:
      _remove_if_empty(os.path.dirname(lock))


def _remove_if_empty(folder: str) -> None:
  with contextlib.suppress(OSError):
    os.rmdir(folder)


def _is_at(descriptor: int, lock: str) -> bool:
  try:
    return os.path.samestat(os.fstat(descriptor), os.stat(lock, follow_symlinks=False))
  except FileNotFoundError:
    return False
