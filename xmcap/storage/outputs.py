"""What a command writes: by one process at a time, all of it together, and never over what it reads.

A lock is `flock` on a small file: `.xmcap.lock` in an output folder, `.NAME.lock` beside an output file. It says who
writes, goes with its holder however that ends, and works over NFS. Where a file is left behind it locks nothing.
Whoever takes a lock first puts right what a killed holder left (whole_files.py).
"""

import contextlib
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
from collections.abc import Callable, Iterable, Iterator, Mapping

from xmcap import terminal
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import whole_files

FOLDER_LOCK = ".xmcap.lock"
"""The lock in an output folder; whoever looks at what a folder holds passes over it."""

Paths = str | os.PathLike | Iterable[str | os.PathLike]

_TRIES = 40
_PAUSE = 0.05  # seconds; a holder writes its name at once, and a lock that is being removed is gone as soon
_HOLDER = 300  # bytes of it that are shown
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.ELOOP)

_mutex = threading.Lock()
_held: dict[str, "_Hold"] = {}  # lock file -> what this process holds


class _Busy(XmcapError):
  """Another process holds the output; `holder` says which."""

  def __init__(self, holder: str, path: str, option: str):
    super().__init__(f"{path}: is being written by {holder}: wait until it ends, or give another {option}")
    self.holder = holder


@dataclasses.dataclass
class _Hold:
  """A lock of this process: its open file, whether its folder was made for it, and how often it was taken."""

  descriptor: int
  made_folder: bool
  count: int = 1


def _forget() -> None:
  """A forked child lets go of its parent's locks: it may outlive it, and would hold them."""
  for hold in _held.values():
    os.close(hold.descriptor)
  _held.clear()


os.register_at_fork(before=_mutex.acquire, after_in_parent=_mutex.release, after_in_child=_mutex.release)
os.register_at_fork(after_in_child=_forget)


def _say(line: str) -> None:
  print(line, file=sys.stderr)


@contextlib.contextmanager
def held(
  path: str | os.PathLike,
  command: str = "xmcap",
  option: str = "--out",
  *,
  folder: bool = True,
  lease: float = 0,
  say: Callable[[str], None] = _say,
) -> Iterator[None]:
  """Within it no other process writes this output; this process may hold it again.

  Its folder is made if need be, and removed at the end if nothing came to lie in it.

  Args:
    path: the output. In a bucket, and where the file system knows no locks, a line says that nobody looks out.
    command: what writes, for the process that is refused.
    option: by which another output can be given.
    folder: whether it is a folder; else a file.
    lease: seconds to wait for a holder on another host; a network disk notices late that a host has died.
    say: prints that line.

  Raises:
    UsageError: the path is empty, or that of a file ends as a folder's.
    XmcapError: another process holds it; names that.
  """
  check_path(path, option, folder)
  lock = None
  if "://" in os.fspath(path):
    say(f"xmcap: {path}: nobody notices two writers at once in a bucket: start one alone")
  elif lock := _lock_of(path, folder):
    try:
      _take_patiently(lock, os.fspath(path), command, option, lease, say)
    except OSError as error:
      # With other errors the output cannot be written either, and who tries to says so.
      if error.errno in _NO_LOCKS or os.path.lexists(lock):
        reason = f"{lock}: {error.strerror}"
        say(f"xmcap: {path}: nobody notices two writers at once here ({reason}): start one alone")
        with contextlib.suppress(OSError):
          _put_right(lock)
  try:
    yield
  finally:
    if lock:
      _release(lock)


def check_path(path: str | os.PathLike, option: str = "--out", folder: bool = True) -> None:
  """Raises UsageError for an empty path, and for a file's that ends in a slash."""
  if not os.fspath(path):
    raise UsageError(f"{option} is empty: give the path of a {'folder' if folder else 'file'}")
  if not folder and os.fspath(path).endswith(os.sep):
    raise UsageError(f"{option}={terminal.shown(path)} is a folder's path: give that of a file")


@contextlib.contextmanager
def held_all(
  places: Iterable[tuple[str, str | os.PathLike, bool]], command: str, say: Callable[[str], None] = _say
) -> Iterator[None]:
  """`held` of several outputs (option, path, whether a folder), in an order that is the same for all processes."""
  order = sorted(places, key=lambda place: os.path.realpath(place[1]))
  with contextlib.ExitStack() as stack:
    for option, path, folder in order:
      stack.enter_context(held(path, command, option, folder=folder, say=say))
    yield


@contextlib.contextmanager
def together(path: str | os.PathLike, folder: bool = True) -> Iterator[None]:
  """What `whole_files.replacing` writes and `remove` removes in a folder appears all at once at the end, or not at all.

  The folder is made if need be, and held meanwhile; or the file among them by which the others are known. XmcapError
  where it cannot be written, or as `held`.
  """
  place = pathlib.Path(path)
  parent = place if folder else place.parent
  if (outer := whole_files.current.get()) is not None and outer.folder == os.path.realpath(parent):
    yield
    return
  with held(path, folder=folder):
    batch = whole_files.Batch(parent)
    token = whole_files.current.set(batch)
    try:
      yield
      try:
        batch.commit(_journal_of(place, folder))
      except OSError as error:
        raise XmcapError(
          f"{place}: cannot be written ({error.strerror or error}); free space or choose another folder"
        ) from error
    except BaseException:
      batch.discard()
      raise
    finally:
      whole_files.current.reset(token)


def settle(path: str | os.PathLike, folder: bool = True) -> None:
  """Puts files that were written `together` right where a kill came between; XmcapError where that cannot be."""
  journal = _journal_of(pathlib.Path(path), folder)
  if not os.path.lexists(journal):
    return
  with held(path, folder=folder):
    pass
  if os.path.lexists(journal):
    raise XmcapError(
      f"{path}: its writer was killed when all was written but not all had its name, and it cannot be put right here: "
      "make the folder writable, or copy it"
    )


def keep_apart(outputs: Mapping[str, Paths], inputs: Mapping[str, Paths]) -> None:
  """Raises UsageError where an output is an input or another output; links are followed, devices and pipes left out.

  Both are option -> the file that it names, or the files that are written or read for it; "" and None are none.
  """
  written: list[tuple[str, str]] = []
  for option, path in _each(outputs):
    for other, place in written:
      if _same(path, place):
        raise UsageError(f"{option}={path}: {other}={place} is written there too: name another")
    written.append((option, path))
  for option, path in _each(inputs):
    for other, place in written:
      if _same(path, place):
        raise UsageError(
          f"{other}={place}: would be written over {option}={path}, which is read: name another"
        )


def _each(places: Mapping[str, Paths]) -> Iterator[tuple[str, str]]:
  for option, paths in places.items():
    if paths is None or isinstance(paths, str | os.PathLike):
      paths = [paths]
    yield from ((option, os.fspath(path)) for path in paths if path)


def _same(path: str, other: str) -> bool:
  if "://" in path or "://" in other:
    return path.rstrip("/") == other.rstrip("/")
  try:
    found, seen = os.stat(path), os.stat(other)
  except (OSError, ValueError):
    return os.path.realpath(path) == os.path.realpath(other)
  return os.path.samestat(found, seen) and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


def _lock_of(path: str | os.PathLike, folder: bool) -> str | None:
  """The lock file; None of what is neither a file nor a folder, or not the one of them that is meant."""
  real = os.path.realpath(path)
  try:
    mode = os.stat(real).st_mode
  except (OSError, ValueError):
    mode = stat.S_IFDIR if folder else stat.S_IFREG
  if stat.S_IFMT(mode) != (stat.S_IFDIR if folder else stat.S_IFREG):
    return None
  if folder:
    return os.path.join(real, FOLDER_LOCK)
  parent, name = os.path.split(real)
  return os.path.join(parent, f".{name}.lock")


def _journal_of(path: pathlib.Path, folder: bool) -> pathlib.Path:
  return path / whole_files.FOLDER_JOURNAL if folder else path.with_name(f".{path.name}.results")


def _put_right(lock: str) -> None:
  """What a killed holder left: results that wait for their names, and incomplete files."""
  folder, name = os.path.split(lock)
  name = "" if name == FOLDER_LOCK else name[1 : -len(".lock")]
  place = pathlib.Path(folder, name)
  journal = _journal_of(place, not name)
  whole_files.carry_out(journal)
  # Of a folder all is its own; beside a file lie its own incomplete one, and that of its journal.
  for known in (name, journal.name) if name else ("",):
    whole_files.clear(pathlib.Path(folder), known)


def _take_patiently(
  lock: str, path: str, command: str, option: str, lease: float, say: Callable[[str], None]
) -> None:
  until = time.monotonic() + lease
  waited = False
  while True:
    try:
      return _take(lock, path, command, option)
    except _Busy as busy:
      # The locks of this host's processes end with them.
      if time.monotonic() >= until or f" on {socket.gethostname()} (" in busy.holder:
        raise
      if not waited:
        say(f"xmcap: {path}: held by {busy.holder}: waiting {lease:g} s, as that host may have died")
      waited = True
    time.sleep(1)


def _take(lock: str, path: str, command: str, option: str) -> None:
  """Takes a lock, or raises _Busy; OSError where there can be none."""
  folder = os.path.dirname(lock)
  with _mutex:
    if lock in _held:
      _held[lock].count += 1
      return
    made_folder = not os.path.lexists(folder)
    try:
      for _ in range(_TRIES):
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # who made the folder has removed it, empty as it was
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


def _lock(lock: str, descriptor: int, command: str) -> str | None:
  """None if the open file is locked now; else the name of its holder, "" where that is not known yet."""
  try:
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      return terminal.shown(os.pread(descriptor, _HOLDER, 0).decode("utf-8", "replace").strip())
    if not _is_at(descriptor, lock):
      return ""  # its holder has just let go of it and removed it
    since = time.strftime("%Y-%m-%d %H:%M")
    holder = f"process {os.getpid()} on {socket.gethostname()} ({command}, since {since})\n"
    with contextlib.suppress(OSError):  # a full disk; the lock holds without it
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
    # Removed while it is still locked: who opened it before finds another file, or none, at its name.
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
