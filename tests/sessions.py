"""Commands in a session of their own, whose processes are found again when the first of them has ended."""

import os
import signal
import subprocess
import sys
import time

import pytest

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")


def _hear() -> None:
  # Under nohup, or in the background of a script, tests are run with these ignored, and programs inherit that.
  for number in (signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_DFL)


def start(*arguments, **options) -> subprocess.Popen:
  """Starts Python with arguments in a new session; it hears all signals."""
  return subprocess.Popen(
    [sys.executable, *map(str, arguments)],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,
    preexec_fn=_hear,
    **options,
  )


def members(session: int) -> list[int]:
  """Returns the processes of a session that live, in the order in which they began."""
  found = []
  for entry in os.listdir("/proc"):
    if entry.isdigit():
      try:
        with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
          fields = file.read().rpartition(")")[2].split()
      except OSError:
        continue
      if fields[0] not in "ZX" and int(fields[3]) == session:
        found.append((int(fields[19]), int(entry)))
  return [pid for _, pid in sorted(found)]


def alive(pid: int) -> bool:
  """Returns whether a process lives; one that has ended and is not waited for does not."""
  try:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
      return file.read().rpartition(")")[2].split()[0] != "Z"
  except OSError:
    return False


def wait(condition, seconds: float = 120) -> bool:
  """Waits until a condition holds; returns whether it did in time."""
  end = time.monotonic() + seconds
  while not condition():
    if time.monotonic() > end:
      return False
    time.sleep(0.02)
  return True


def semaphores(pid: int) -> list[str]:
  """Returns the named semaphores and pieces of shared memory that a process has mapped."""
  try:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
      return [line for line in file if "/dev/shm/" in line]
  except OSError:
    return []
