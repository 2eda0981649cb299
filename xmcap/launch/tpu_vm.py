"""Runs a command on a TPU VM: creates it, installs xmcap, starts every worker, follows the run and restarts it."""

import dataclasses
import hashlib
import pathlib
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xmcap import terminal
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import local, runner
from xmcap.launch.gcloud import TpuVm
from xmcap.launch.options import check_fields, option

# States of a node and of a queued resource (cloud.google.com/tpu/docs/reference/rest/v2), and two more.
_READY = {"READY", "ACTIVE"}
_GONE = {"PREEMPTED", "TERMINATED", "SUSPENDED"}
_NEVER_READY = {"FAILED", "STOPPED", "HIDDEN", "HIDING"}
_ABSENT = "ABSENT"
_UNKNOWN = "UNKNOWN"
_MOST_SILENT = 10  # failed polls in a row after which a ready slice counts as unreachable


@dataclasses.dataclass(frozen=True)
class Package:
  """The package to install on the workers: a wheel on this machine, or anything that pip accepts."""

  install: str = option(
    "xmcap for the workers: a wheel, or an argument of pip install", "", rule="any", metavar="PACKAGE"
  )
  python: str = option("Python version of the workers", "3.12")

  def __post_init__(self):
    check_fields(self)
    if not self.install or self.install.startswith("-") or not self.install.isprintable():
      raise UsageError(
        f"--install={ascii(self.install[:80])[1:-1]}: give a wheel (dist/xmcap-0.1.0-py3-none-any.whl) or an argument"
        " of pip install (git+https://..., xmcap==0.1.0)"
      )
    wheel = self.wheel()
    if wheel is None:
      return
    if not wheel.is_file():
      raise UsageError(f"--install={self.install}: no such file")
    if ":" in str(wheel) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+!-]*\.whl", wheel.name):
      raise UsageError(
        f"--install={self.install}: gcloud cannot copy a file with this path: move or rebuild the wheel"
      )

  def wheel(self) -> pathlib.Path | None:
    """Returns the wheel to copy if it is on this machine, else None."""
    is_local = self.install.endswith(".whl") and "://" not in self.install
    return pathlib.Path(self.install).absolute() if is_local else None

  def script_arguments(self) -> list[str]:
    """Returns the arguments of `tpu_vm_install.sh`; the second one identifies the package."""
    wheel = self.wheel()
    if wheel is None:
      return [self.python, f"{self.python} {self.install}", self.install]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return [self.python, f"{self.python} {digest}", wheel.name]


@dataclasses.dataclass(frozen=True)
class Following:
  """How a run is followed and restarted."""

  files: str = option(
    "a folder to copy to every worker, where the command runs", "", rule="files", metavar="gs://..."
  )
  poll: float = option("time between two polls of the run", 30.0, metavar="SECONDS")
  wait: float = option("how long to wait for the TPU to be ready", 24.0, metavar="HOURS")
  restart: int = option("largest number of restarts after exit code 75", 10, metavar="K")

  def __post_init__(self):
    check_fields(self)
    if not 0 < self.poll <= 3600 or self.wait <= 0:
      raise UsageError(
        f"--poll={self.poll} --wait={self.wait}: give seconds (at most 3600) and hours above 0"
      )


class Outcome(NamedTuple):
  """How the command ended on all workers: `finished`, `again` or `failed`, and the reason in words."""

  kind: str
  why: str = ""


class TpuVmRun:
  """Runs one command on every worker of a slice until it is finished."""

  def __init__(
    self,
    vm: TpuVm,
    package: Package,
    following: Following,
    command: Sequence[str],
    sleep: Callable[[float], None] = time.sleep,
  ):
    self._vm, self._package, self._following = vm, package, following
    self._command, self._sleep = list(command), sleep
    self._printed = 0  # bytes of worker 0's log

  def dry_run(self) -> str:
    """Returns all commands in order, as text for bash."""
    vm, restart = self._vm, self._following.restart
    look = f"every {self._following.poll:g} seconds"
    parts = [
      ("create the slice, unless it exists", vm.create()),
      (f"{look}, until it says {'ACTIVE' if vm.queued else 'READY'}", vm.describe()),
    ]
    if vm.queued and vm.num_slices == 1:
      parts.append((f"{look}, until it says READY", vm.describe_node()))
    parts += [
      *self.preparation(),
      (f"{look}, the state on all workers", vm.ssh("status")),
      (f"{look}, the log of worker 0 from the first byte not yet printed", vm.ssh("logs", ["1"], "0")),
    ]
    why = "after exit code 75, a death by a signal or a lost worker"
    stop = runner.function("stop", f"{why}; then start over, at most {restart} times", vm.stop())
    delete = runner.function("delete", "after a preemption; then start over too", vm.delete())
    return "\n".join([runner.listing(parts), stop, delete])

  def run(self) -> None:
    """Runs the command to its end; XmcapError if it failed, or needed too many restarts."""
    name, restart = self._vm.name, self._following.restart
    self._vm.create()  # raises for missing options before anything is sent
    try:
      for attempt in range(restart + 1):
        self._make_ready(first=attempt == 0)
        outcome = self._attempt(first=attempt == 0)
        if outcome.kind == "finished":
          runner.say(f"finished; {name} still exists and costs money: delete it with --action=delete")
          return
        if outcome.kind == "failed":
          raise XmcapError(
            f"{outcome.why}: see the log above, or --action=logs; the TPU still exists and costs money"
          )
        if attempt < restart:
          runner.say(f"{outcome.why}: restarting ({attempt + 1} of {restart})")
      raise XmcapError(f"{outcome.why}, after {restart} restarts; the TPU may still exist and cost money")
    except KeyboardInterrupt:
      runner.say(f"{name} keeps running without this command: use --action=logs, status, stop or delete")
      raise

  def preparation(self) -> list[tuple[str, list[str]]]:
    """Returns (description, command) of all steps once the slice is ready; the last one starts the run."""
    parts = []
    wheel = self._package.wheel()
    if wheel is not None:
      parts.append(("copy the wheel to all workers", self._vm.copy(wheel)))
    parts.append(("install xmcap on all workers", self._vm.ssh("install", self._package.script_arguments())))
    if self._vm.data_disk:
      parts.append(("mount the disk on all workers", self._vm.mount()))
    if self._following.files:
      parts.append(("copy the files to all workers", self._vm.ssh("files", [self._following.files])))
    return [*parts, ("start the command on all workers", self._vm.ssh("start", self._command))]

  def _make_ready(self, first: bool) -> None:
    """Waits for the slice; creates it if there is none or it was taken away."""
    name, waited, last = self._vm.name, 0.0, ""
    while waited <= self._following.wait * 3600:
      state, complaint = self._state()
      if state in _READY:
        return
      if state != last:
        runner.say(f"{name}: {state.lower()}")
        last = state
      if state == _UNKNOWN and first:
        raise XmcapError(f"gcloud cannot tell the state of {name}: {complaint}")
      if state in _NEVER_READY:
        raise XmcapError(f"{name} is {state}: delete it with --action=delete, then run again")
      if state == _ABSENT or state in _GONE:
        try:
          runner.run(self._vm.create() if state == _ABSENT else self._vm.delete())
          self._printed = 0
          continue
        except XmcapError as error:
          # Later on, capacity may be missing for a while; the first time, a wrong option is more likely.
          if first:
            raise XmcapError(f"{error}; if there is no capacity now, wait for it with --queued") from None
      self._sleep(self._following.poll)
      waited += self._following.poll
    raise XmcapError(f"{name} was not ready after {self._following.wait:g} hours")

  def _state(self) -> tuple[str, str]:
    """Returns the state of the slice and, if gcloud failed, its error message."""
    state, complaint = _described(self._vm.describe())
    if state == "ACTIVE" and self._vm.num_slices == 1:
      # A queued resource may stay active after its node was preempted or deleted.
      state, complaint = _described(self._vm.describe_node())
      if state == _ABSENT:
        state = "SUSPENDED"
    return state, complaint

  def _attempt(self, first: bool) -> Outcome:
    """Installs, starts and follows the run; if the slice goes away at any point, the outcome is `again`."""
    try:
      for what, argv in self.preparation():
        runner.say(what)
        runner.run(argv)
    except XmcapError:
      if first and self._state()[0] in _READY:
        raise
      return Outcome("again", f"{self._vm.name} went away before the command ran")
    return self._follow()

  def _follow(self) -> Outcome:
    silent = 0
    while True:
      self._sleep(self._following.poll)
      workers = self._workers()
      self._print_log()
      if workers is None:
        state, _ = self._state()
        if state == _ABSENT or state in _GONE:
          return Outcome("again", f"{self._vm.name} was taken away ({state.lower()})")
        silent += state in _READY
        if silent == _MOST_SILENT:
          raise XmcapError(f"{self._vm.name} is {state}, but its workers do not answer: try --action=status")
        continue
      silent = 0
      outcome = judge(workers)
      if outcome is None:
        continue
      if outcome.kind != "finished":
        runner.capture(self._vm.stop())
        # A worker that failed while the others were being stopped may be the actual cause.
        outcome = judge(self._workers() or workers) or outcome
        self._print_log()
      return outcome

  def _workers(self) -> list[tuple[str, str, str]] | None:
    """Returns (host, state, exit code) of each worker, or None if not all of them answer."""
    answer = runner.capture(self._vm.ssh("status"))
    lines = [line.split() for line in answer.stdout.decode("utf-8", "replace").splitlines()]
    found = [(line[1], line[2], line[3]) for line in lines if len(line) == 4 and line[0] == "xmcap-status"]
    return found if answer.returncode == 0 and found else None

  def _print_log(self) -> None:
    """Prints the new whole lines in the log of worker 0."""
    while True:
      answer = runner.capture(self._vm.ssh("logs", [str(self._printed + 1)], "0"))
      new = answer.stdout[: answer.stdout.rfind(b"\n") + 1]
      if answer.returncode or not new:
        return
      self._printed += len(new)
      sys.stdout.write(new.decode("utf-8", "replace"))
      sys.stdout.flush()


def _described(argv: Sequence[str]) -> tuple[str, str]:
  answer = runner.capture(argv)
  if answer.returncode == 0:
    return answer.stdout.decode("utf-8", "replace").strip() or _UNKNOWN, ""
  lines = answer.stderr.decode("utf-8", "replace").splitlines() or [f"exit code {answer.returncode}"]
  reason = next((line for line in lines if line.startswith("ERROR")), lines[0])
  return (_ABSENT if b"NOT_FOUND" in answer.stderr else _UNKNOWN), terminal.shown(reason)


def judge(workers: Sequence[tuple[str, str, str]]) -> Outcome | None:
  """Returns the outcome for the workers' states, (host, state, exit code) each; None: the run goes on.

  A worker that failed takes precedence over those that only lost it.
  """
  codes = [(host, int(code)) for host, state, code in workers if state == "exited" and code.isdecimal()]
  for kind in ("failed", "again"):
    for host, code in codes:
      if code and (kind == "again" or not local.is_restartable(code)):
        return Outcome(kind, f"{host} ended with exit code {code}")
  for host, state, _ in workers:
    if state in ("lost", "absent"):
      return Outcome("again", f"{host} lost its process")
  return Outcome("finished") if len(codes) == len(workers) else None


def control(action: str, vm: TpuVm, worker: str = "0", dry_run: bool = False) -> None:
  """Runs `logs` (follows a worker's log), `status`, `stop` (SIGTERM on all workers) or `delete`, or prints it."""
  if not worker.isdecimal():
    raise UsageError(f"--worker={ascii(worker)[1:-1]}: give the number of a worker")
  argvs = {
    "logs": [vm.ssh("logs", worker=worker)],
    "status": [vm.describe(), vm.ssh("status")],
    "stop": [vm.stop()],
    "delete": [vm.delete()],
  }[action]
  for argv in argvs:
    if dry_run:
      print(runner.listing([(action, argv)]))
    else:
      runner.run(argv)
