"""Runs a provider's command without a shell, or prints it."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TextIO

from xmcap import terminal
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import quoting

_HOW_TO_INSTALL = {
  "gcloud": "https://cloud.google.com/sdk/docs/install",
  "xpk": "https://github.com/AI-Hypercomputer/xpk",
  "sbatch": "a login node of a SLURM cluster",
}
_NO_PROGRAM = 127  # a shell's exit code
_TIMED_OUT = 124  # as of `timeout`
_SECONDS_TO_END = 3.0
MOST_OFFERED = 600  # escaped, less than the 4,096 bytes that a pipe takes at once if it takes any
_READER_SECONDS = 3.0


def say(text: str) -> None:
  """Prints a message to standard error, apart from the output of the run."""
  line = f"xmcap launch: {terminal.shown(text, limit=None)}\n"
  for start in range(0, len(line), MOST_OFFERED):
    offer(sys.stderr, line[start : start + MOST_OFFERED])


def offer(stream: TextIO, text: str) -> bool:
  """Writes at most `MOST_OFFERED` characters and returns True; False if nobody reads on (less, Ctrl-S) for seconds.

  A slice that costs money must not wait for a reader.
  """
  try:
    is_read = bool(select.select([], [stream], [], _READER_SECONDS)[1])
  except (OSError, ValueError, TypeError):  # no file of the system
    is_read = True
  if is_read:
    stream.write(text)
    stream.flush()
  return is_read


class LateError(XmcapError):
  """A command took too long and was ended."""


class _EndedError(XmcapError):
  """A signal ended the command; exit code 128 + its number."""

  def __init__(self, number: int):
    super().__init__(f"ended by {signal.Signals(number).name}")
    self.exit_code = 128 + number


class _Stop(KeyboardInterrupt):
  """No code within catches it by accident. Its argument is the signal."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
  """Within it, the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt, and later ones have no effect.

  So a command can end what it started and say what goes on. A signal that was ignored before (nohup) stays so.

  Raises:
    XmcapError: SIGTERM or SIGHUP ended it; exit code 128 + the number of the signal.
  """

  def stop(number, _):
    for heeded in handlers:
      signal.signal(heeded, signal.SIG_IGN)
    raise _Stop(number)

  handlers = {}
  if threading.current_thread() is threading.main_thread():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
      if signal.getsignal(number) != signal.SIG_IGN:
        handlers[number] = signal.signal(number, stop)
  try:
    yield
  except _Stop as stopped:
    if stopped.args[0] == signal.SIGINT:
      raise
    raise _EndedError(stopped.args[0]) from None
  finally:
    for number, handler in handlers.items():
      signal.signal(number, handler)


def execute(
  argv: Sequence[str], limit: float | None, stdin: bytes = b"", captured: bool = False
) -> subprocess.CompletedProcess[bytes]:
  """Runs a command in a session of its own; whatever ends this call ends the command with its children.

  Args:
    argv: program and arguments.
    limit: seconds after which it is ended, with exit code 124 and a message; None: it may take for ever.
    stdin: its input; an empty one, so that a command that prompts does not wait for ever.
    captured: whether its output is returned instead of printed.

  Raises:
    UsageError: there is no such program.
  """
  pipe = subprocess.PIPE if captured else None
  try:
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=pipe, stderr=pipe, start_new_session=True)
  except OSError as error:
    raise no_program(argv[0], error) from None
  try:
    out, error = child.communicate(stdin, timeout=limit)
  except subprocess.TimeoutExpired as late:
    _end(child)
    message = f"ERROR: no end after {late.timeout:.0f} seconds\n".encode()
    return subprocess.CompletedProcess(argv, _TIMED_OUT, b"", message)
  except BaseException:
    _end(child)
    raise
  return subprocess.CompletedProcess(argv, child.returncode, out or b"", error or b"")


def _end(child: subprocess.Popen) -> None:
  """Ends a process and its children: SIGTERM, and SIGKILL after three seconds."""
  for number in (signal.SIGTERM, signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError, PermissionError):
      os.killpg(child.pid, number)
    with contextlib.suppress(subprocess.TimeoutExpired):
      child.wait(_SECONDS_TO_END)
  for pipe in (child.stdin, child.stdout, child.stderr):
    if pipe is not None:
      with contextlib.suppress(OSError):
        pipe.close()


def run(argv: Sequence[str], limit: float | None = None, stdin: str = "", dry_run: bool = False) -> None:
  """Runs a command with this terminal, or prints it; `stdin` is its standard input.

  Raises:
    XmcapError: it failed, or took longer than `limit` seconds.
    UsageError: there is no such program.
  """
  if dry_run:
    print(quoting.shown(argv))
    return
  answer = execute(argv, limit, stdin.encode("utf-8", "surrogateescape"))
  if answer.returncode:
    # Program and subcommands, without options.
    name = quoting.words([text for text in argv if not text.startswith("-")][:6])[:100]
    if answer.returncode == _TIMED_OUT and answer.stderr:
      raise LateError(f"{name}: {complaint(answer).removeprefix('ERROR: ')}")
    raise XmcapError(f"{name} ended with exit code {answer.returncode}: see its message above")


def capture(argv: Sequence[str], limit: float) -> subprocess.CompletedProcess[bytes]:
  """Runs a command and returns its output and exit code, even if it failed or there is no such program (127)."""
  try:
    return execute(argv, limit, captured=True)
  except UsageError as error:
    return subprocess.CompletedProcess(argv, _NO_PROGRAM, b"", f"{error}\n".encode())


def complaint(answer: subprocess.CompletedProcess[bytes]) -> str:
  """Returns why a command failed, in one line."""
  lines = answer.stderr.decode("utf-8", "replace").splitlines() or [f"exit code {answer.returncode}"]
  return terminal.shown(next((line for line in lines if line.startswith("ERROR")), lines[0]))


def listing(parts: Sequence[tuple[str, Sequence[str]]]) -> str:
  """Returns commands, (comment, argument list) each, as text for bash."""
  return "\n".join(f"# {comment}\n{quoting.shown(argv)}" for comment, argv in parts)


def function(name: str, comment: str, argv: Sequence[str]) -> str:
  """Returns a bash function that runs a command."""
  return f"# {comment}\n{name}() {{\n{quoting.shown(argv)}\n}}"


def no_program(program: str, error: OSError) -> UsageError:
  """Returns the error for a program that cannot be started."""
  where = _HOW_TO_INSTALL.get(program)
  hint = f": install it ({where}) or look at --dry_run" if where else ""
  return UsageError(f"{program}: {error.strerror}{hint}")
