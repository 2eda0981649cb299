"""One call of the command in a process of its own, and what was wrong with how it went.

The process is a fork of one that has imported everything already. What Python code opens for writing, removes, renames
or starts is seen by an audit hook (PEP 578); what libraries in C do is seen by the files that are there afterwards.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from xmcap import cli, terminal

_EXIT_CODES = (0, 1, 2, 75, 130)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SAID = ("xmcap: error: ", "xmcap: restart needed: ")
_SHOWN = 20_000  # characters of an outcome that are kept
_AUDIT_FD = 250  # of no other file
_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")


@dataclasses.dataclass(frozen=True)
class Case:
  """A call.

  Attributes:
    command: what it is counted as, such as `data build xm3600`.
    arguments: what follows `xmcap`; paths are relative to the folder of the case.
    limit: seconds that it may take.
    memory: bytes that it may hold beside what the process began with.
    writes: paths in the folder that it may write.
    damage: what was done to its inputs.
  """

  command: str
  arguments: Sequence[str]
  limit: float = 30.0
  memory: int = 1 << 30
  writes: Sequence[str] = ("out",)
  damage: str = ""


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How a call went; `wrong` says in a line each what was not right."""

  code: int
  seconds: float
  wrong: Sequence[str]
  output: str


def run(
  case: Case,
  folder: pathlib.Path,
  call: Callable[[list[str]], int] = cli.main,
  patience: float = 1.0,
  stop: tuple[signal.Signals, float] | None = None,
) -> Outcome:
  """Runs a case in its folder, which holds its inputs; waits for its end, by force after `patience` times its limit.

  Args:
    case: the call.
    folder: of the case; where the command runs.
    call: the command.
    patience: times its limit.
    stop: a signal that it is sent, and after how many seconds.
  """
  before = _files(folder, case.writes)
  streams = [folder / f".{name}" for name in ("stdout", "stderr", "audit", "began")]
  for stream in streams:
    stream.write_bytes(b"")  # another call in this folder may have written to it
  begun = time.monotonic()
  process = os.fork()
  if process == 0:
    _child(case, folder, streams, call)
  wrong = []
  try:
    status, usage = _wait(process, patience * case.limit, stop)
  except TimeoutError:
    wrong.append(f"took longer than {patience * case.limit:g} s")
    os.killpg(process, signal.SIGKILL)
    _, status, usage = os.wait4(process, 0)
  seconds = time.monotonic() - begun
  code = os.waitstatus_to_exitcode(status)
  out, err, audit, began = (stream.read_bytes().decode("utf-8", "replace") for stream in streams)
  if not wrong:
    # `-signal` and 128 + signal are how a command ends that was stopped.
    stopped = stop is not None and code in (-stop[0], 128 + stop[0])
    wrong += _of_texts(130 if stopped else code, out, err)
    wrong += _left_behind(process)
  if (took := usage.ru_maxrss - int(began or 0)) * 1024 > case.memory:
    wrong.append(f"took {took >> 10} MiB of memory")
  wrong += sorted({line for line in audit.splitlines() if line})[:5]
  after = _files(folder, case.writes)
  changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
  wrong += [f"wrote outside its output: {name}" for name in changed[:5]]
  return Outcome(code, seconds, wrong, (out[-_SHOWN:] + err[-_SHOWN:]))


def _wait(process: int, limit: float, stop: tuple[signal.Signals, float] | None):
  begun = time.monotonic()
  while time.monotonic() < begun + limit:
    found, status, usage = os.wait4(process, os.WNOHANG)
    if found:
      return status, usage
    if stop is not None and time.monotonic() > begun + stop[1]:
      os.kill(process, stop[0])
      stop = None
    time.sleep(0.003)
  raise TimeoutError


def _of_texts(code: int, out: str, err: str) -> Iterator[str]:
  if code < 0:
    yield f"died of {signal.Signals(-code).name}"
  elif code not in _EXIT_CODES:
    yield f"exit code {code}"
  if "Traceback (most recent call last)" in out + err:
    yield "traceback: " + (err.rstrip().rsplit("\n", 1)[-1][:200] or "on stdout")
  said = [line for line in err.splitlines() if line.startswith(_SAID)]
  if code in (1, 2, 75) and len(said) != 1 and "Traceback" not in err:
    yield f"exit code {code} with {len(said)} lines of error"
  if code == 0 and said:
    yield "exit code 0 with an error"
  if found := _CONTROL.search(out + err):
    yield f"control character {found[0]!r} reached the terminal"
  if long := next((line for line in said if len(line) > 2000), None):
    yield f"an error of {len(long)} characters"


def _left_behind(group: int) -> Iterator[str]:
  deadline = time.monotonic() + 3
  with contextlib.suppress(ProcessLookupError):
    while time.monotonic() < deadline:
      os.killpg(group, 0)
      time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    yield "left processes behind"


def _files(folder: pathlib.Path, writes: Sequence[str]) -> dict[str, tuple]:
  """What lies in the folder and is not to change: name -> size, time, kind."""
  found = {}
  for parent, folders, names in os.walk(folder):
    for name in [*folders, *names]:
      path = pathlib.Path(parent, name)
      relative = path.relative_to(folder).as_posix()
      first = relative.split("/")[0]
      if relative.startswith((".stdout", ".stderr", ".audit", ".began", "tmp", "home")) or any(
        relative == allowed
        or relative.startswith(f"{allowed}/")
        or first == f".{allowed}"
        or first.startswith(f".{allowed}.")
        for allowed in writes
      ):
        continue
      status = path.lstat()
      # A folder's time changes with what is made in it, which is looked at by itself.
      found[relative] = (status.st_mode, *((status.st_size, status.st_mtime_ns) if name in names else ()))
  return found


def _child(case: Case, folder: pathlib.Path, streams: Sequence[pathlib.Path], call: Callable) -> None:
  """Never returns."""
  os.setsid()
  code = 70
  try:
    os.chdir(folder)
    streams[-1].write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
    for number, stream in zip((1, 2, _AUDIT_FD), streams[:-1], strict=True):
      os.dup2(os.open(stream, os.O_WRONLY | os.O_APPEND), number, inheritable=number != _AUDIT_FD)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # As Python opens them, whatever they were here.
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    for name in ("home", "tmp"):
      os.makedirs(name, exist_ok=True)
    os.environ.update(
      HOME=str(folder / "home"), XDG_CACHE_HOME=str(folder / "home"), TMPDIR=str(folder / "tmp")
    )
    sys.dont_write_bytecode = True
    tempfile.tempdir = None  # what it was before the environment said otherwise
    sys.addaudithook(_Auditor(folder))
    terminal.guard()  # as the installed command begins
    try:
      code = call(list(case.arguments))
    except SystemExit as left:
      code = left.code or 0
    except BaseException:  # what Python itself would do
      traceback.print_exc()
      code = 1
    sys.stdout.flush()
    sys.stderr.flush()
  finally:
    os._exit(code)


class _Auditor:
  """Notes what is done outside the folder of the case, and every program that is started."""

  def __init__(self, folder: pathlib.Path):
    self._allowed = (str(folder) + "/", "/dev/", "/proc/self/", "/tmp/bazel", *_caches())

  def __call__(self, event: str, arguments: tuple) -> None:
    if event == "open":
      path, mode, flags = arguments
      writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
      if writes and not isinstance(path, int):
        self._look("opened for writing", path)
    elif event in ("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod"):
      self._look(event, arguments[0])
    elif event in ("os.rename", "os.link", "os.symlink"):
      self._look(event, arguments[1])
    elif event == "socket.connect" and isinstance(arguments[1], str | bytes):
      pass  # a socket in the folder, not the network
    elif event in _STARTS and arguments[0] != "uname":  # Python's `platform` asks it for the processor's name
      self._note(f"{event}: {str(arguments)[:120]}")

  def _look(self, what: str, path) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
      return  # a descriptor, whose file was looked at when it was opened
    full = os.path.abspath(os.fsdecode(path))
    # Python keeps what it compiles beside the code.
    if not (full + "/").startswith(self._allowed) and "__pycache__" not in full:
      self._note(f"{what} outside its folder: {full}")

  def _note(self, line: str) -> None:
    os.write(_AUDIT_FD, (line.replace("\n", " ") + "\n").encode("utf-8", "replace"))


def _caches() -> tuple[str, ...]:
  """What XLA keeps, wherever the environment says."""
  place = os.environ.get("JAX_COMPILATION_CACHE_DIR")
  return (f"{place}/",) if place else ()
