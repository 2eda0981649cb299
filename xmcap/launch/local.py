"""Runs several processes of one run on this machine, for rehearsal: starts, watches and restarts them."""

import contextlib
import ctypes
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from xmcap import terminal
from xmcap.errors import RestartError
from xmcap.launch import quoting, runner
from xmcap.launch.restarts import Restarts

MOST_PROCESSES = 1024
_POLL_SECONDS = 0.05
# How long the others may take to end by themselves after the first: their own exit codes are more informative.
_SETTLE_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NOTE = re.compile(
  rb"\[Gloo\] Rank \d+ is connected"
)  # C++ code says so for each process, which no user needs
_printing = threading.Lock()
_reader_is_gone = threading.Event()


def is_restartable(code: int) -> bool:
  """Returns whether an exit code asks for a restart; death by signal N is -N here and 128 + N in a shell."""
  return code == RestartError.exit_code or code < 0 or code > 128


def environment(devices: int, env: Mapping[str, str]) -> dict[str, str]:
  """Returns `env` with variables for `devices` simulated CPU devices; 0: the real devices."""
  variables = {**env, "PYTHONUNBUFFERED": "1"}
  if devices:
    flag = f"--xla_force_host_platform_device_count={devices}"
    variables["XLA_FLAGS"] = f"{env.get('XLA_FLAGS', '')} {flag}".strip()
    variables["JAX_PLATFORMS"] = "cpu"
    # XLA's CPU threads wait in a collective for those of the other devices. By default there are as many threads as
    # devices; with two collectives at a time, all may wait for one that has no thread left.
    variables["NPROC"] = str(8 * devices)
  return variables


def dry_run(command: Sequence[str], processes: int, devices: int, env: Mapping[str, str]) -> str:
  """Returns the commands for bash: started in the background, then waited for."""
  variables = environment(devices, env)
  start = ["env"]
  if devices and "XLA_FLAGS" not in env:
    # The flag is appended to the value in bash's environment, so this word is double-quoted by hand.
    start.append(f'XLA_FLAGS="${{XLA_FLAGS:-}} {variables.pop("XLA_FLAGS")}"')
  start += [quoting.word(f"{name}={value}") for name, value in variables.items()]
  lines = ["# a run uses any free port"] if processes > 1 else []
  for argv in _commands(command, processes, 12355):
    lines.append(f"{' '.join(start)} {quoting.words(argv)} &")
  return "\n".join([*lines, "wait"])


def run(
  command: Sequence[str],
  processes: int,
  devices: int = 0,
  restart: int = 0,
  grace: float = 60.0,
  env: Mapping[str, str] | None = None,
) -> int:
  """Runs a command as several processes until it is finished.

  SIGTERM, SIGINT and SIGHUP are passed on as SIGTERM, and prevent a restart. A second signal kills. On Linux the
  processes die with this one even if it is killed.

  Args:
    command: what each of the `processes` runs.
    processes, devices: numbers of processes, and of the simulated CPU devices of each; 0: the real devices.
    restart: how often in a row all of them are restarted after exit code 75 or a death by a signal without progress.
    grace: seconds between SIGTERM and SIGKILL.
    env: variables added to those of this process.

  Returns:
    0, or the exit code of the process that failed; 128 + N if signal N ended it.
  """
  variables = environment(devices, {**os.environ, **(env or {})})
  with _counted_signals() as num_signals:
    restarts = Restarts(restart)
    while True:
      group = _Processes(restarts.read)
      try:
        group.start(_commands(command, processes, _free_port()), variables)
        process, code = group.wait(num_signals, grace)
      finally:
        group.kill()
      if code == 0 or num_signals() or not is_restartable(code):
        break
      ended, again = f"process {process} ended with {exit_code_words(code)}", restarts.next()
      if restart:
        runner.say(f"{ended}: {again or restarts.spent}")
      if not again:
        break
  return 128 - code if code < 0 else code


def exit_code_words(code: int) -> str:
  """Returns an exit code in words; death by signal N is -N or 128 + N."""
  number = -code if code < 0 else code - 128
  name = signal.Signals(number).name if number in list(signal.Signals) else ""
  return f"{name} (exit code {128 + number})" if name else f"exit code {code}"


def _commands(command: Sequence[str], processes: int, port: int) -> list[list[str]]:
  """Returns the command of each process; a single one does not join a cluster that the launcher runs on."""
  if processes == 1:
    return [[*command, "--num_processes=1"]]
  shared = [f"--coordinator_address=127.0.0.1:{port}", f"--num_processes={processes}"]
  return [[*command, *shared, f"--process_id={index}"] for index in range(processes)]


@contextlib.contextmanager
def _counted_signals() -> Iterator[Callable[[], int]]:
  """Counts the signals that would end the launcher; yields a function that returns their number."""
  received = []
  before = {number: signal.signal(number, lambda *_: received.append(1)) for number in _STOP_SIGNALS}
  try:
    yield lambda: len(received)
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


class _Processes:
  """The processes of one attempt, each in a session of its own, so that its children can be ended with it.

  `read` is called with each line of their output.
  """

  def __init__(self, read: Callable[[str], None]):
    self._read = read
    self._processes: list[subprocess.Popen] = []
    self._readers: list[threading.Thread] = []

  def start(self, argvs: Sequence[Sequence[str]], variables: Mapping[str, str]) -> None:
    for argv in argvs:
      self._processes.append(_start(argv, variables))
    for index, process in enumerate(self._processes):
      reader = threading.Thread(target=_copy_lines, args=(process.stdout, index, self._read), daemon=True)
      reader.start()
      self._readers.append(reader)

  def wait(self, num_signals: Callable[[], int], grace: float) -> tuple[int, int]:
    """Waits for all to end; returns the process that failed first and its code (-N: by signal N), or 0 and 0."""
    self._wait(math.inf, lambda: any(self._codes()) or num_signals() > 0)
    first = self._codes()
    self._wait(_SETTLE_SECONDS, lambda: num_signals() > 0)
    unasked = self._codes()
    self._send(signal.SIGTERM)
    enough = max(num_signals(), 1)
    self._wait(grace, lambda: num_signals() > enough)
    late = [index for index, code in enumerate(self._codes()) if code is None]
    if late and num_signals() <= enough:
      which = f"process{'es' if len(late) > 1 else ''} {', '.join(map(str, late))}"
      runner.say(f"{which} still ran {grace:g} s after SIGTERM: killed; --grace=SECONDS gives more time")
    self.kill()
    # A failure takes precedence over the codes of processes that only lost it, and the first to end over the others.
    failures = [code if code and not is_restartable(code) else 0 for code in unasked]
    for codes in (failures, first, unasked, self._codes()):
      for process, code in enumerate(codes):
        if code:
          return process, code
    return 0, 0

  def kill(self) -> None:
    """Kills the remaining processes and their children, and waits for their last lines."""
    self._send(signal.SIGKILL, ended_too=True)
    for process in self._processes:
      process.wait()
    for reader in self._readers:
      reader.join(timeout=5.0)

  def _codes(self) -> list[int | None]:
    """Returns the exit code of each; None while it runs."""
    return [process.poll() for process in self._processes]

  def _send(self, number: int, ended_too: bool = False) -> None:
    for process in self._processes:
      if ended_too or process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
          os.killpg(process.pid, number)

  def _wait(self, seconds: float, enough: Callable[[], bool]) -> None:
    """Waits until all have ended, at most `seconds`, and stops waiting once `enough()` is true."""
    end = time.monotonic() + seconds
    while None in self._codes() and time.monotonic() < end and not enough():
      time.sleep(_POLL_SECONDS)


def _start(argv: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen:
  parent = os.getpid()
  libc = ctypes.CDLL(None) if sys.platform == "linux" else None

  def die_with_parent():
    if libc is not None:
      libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
      if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)

  try:
    return subprocess.Popen(
      argv,
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      start_new_session=True,
      env=dict(variables),
      # Safe, because no other thread is running: readers start after the last process, and end before a restart.
      preexec_fn=die_with_parent,
    )
  except OSError as error:
    raise runner.no_program(argv[0], error) from None


def _copy_lines(pipe, index: int, read: Callable[[str], None]) -> None:
  """Copies whole lines to standard output, prefixed with the number of the process."""
  with pipe:
    for line in pipe:
      if _NOTE.match(line):
        continue
      text = line.rstrip(b"\r\n").decode("utf-8", "replace")
      try:
        with _printing:
          read(text)
          sys.stdout.write(f"[{index}] {text}\n")
          terminal.check_reader()
      except BrokenPipeError:
        # The reader (head, less) is gone, so the run is stopped, once. Its lines are still read, because a process
        # that cannot write would die.
        with _printing:
          if not _reader_is_gone.is_set():
            _reader_is_gone.set()
            os.kill(os.getpid(), signal.SIGTERM)


def _free_port() -> int:
  with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    return server.getsockname()[1]
