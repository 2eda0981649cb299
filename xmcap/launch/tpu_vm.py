"""Runs a command on a TPU VM: creates it, installs xmcap, starts every worker, follows the run and restarts it."""

import dataclasses
import datetime
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xmcap import terminal
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import local, runner
from xmcap.launch.gcloud import TpuVm, slice_of
from xmcap.launch.options import check_fields, option
from xmcap.launch.package import Package

# States of a node and of a queued resource (cloud.google.com/tpu/docs/reference/rest/v2), and two more.
_READY = {"READY", "ACTIVE"}
_GONE = {"PREEMPTED", "TERMINATED", "SUSPENDED"}
_NEVER_READY = {"FAILED", "STOPPED", "HIDDEN", "HIDING"}
_ABSENT = "ABSENT"
_UNKNOWN = "UNKNOWN"
_POLL_SECONDS = 30.0
_MOST_SILENT = 10  # failed polls in a row after which a ready slice counts as unreachable


@dataclasses.dataclass(frozen=True)
class Following:
  """How a run is followed and restarted."""

  files: str = option(
    "a folder to copy to every worker, where the command runs", "", rule="files", metavar="gs://..."
  )
  wait: float = option("how long to wait for the TPU to be ready", 24.0, metavar="HOURS")
  restart: int = option("largest number of restarts after exit code 75", 10, metavar="K")
  delete_when_done: str = option(
    "delete the slice when the run has finished; always: also when it has failed", "never", const="finished",
    choices=("never", "finished", "always"),
  )  # fmt: skip
  delete_after: float = option(
    "stop the run and delete the slice after so long; 0: never", 0.0, metavar="HOURS"
  )

  def __post_init__(self):
    check_fields(self)
    if not 0 <= self.delete_after < 1e6:
      raise UsageError(f"--delete_after={self.delete_after}: give hours above 0")
    if self.wait <= 0:
      raise UsageError(f"--wait={self.wait}: give hours above 0")


class Outcome(NamedTuple):
  """How the command ended on all workers: `finished`, `again` or `failed`, and the reason in words."""

  kind: str
  why: str = ""


class _TimeIsUpError(XmcapError):
  """The slice is to be deleted now."""


class _EndedError(XmcapError):
  """The run has ended without being finished."""


class TpuVmRun:
  """Runs one command on every worker of a slice until it is finished.

  Args:
    vm, package, following: options.
    command: of every worker.
    logs: folder of a bucket for the logs of all workers; "": they stay on the workers.
    sleep, clock: wait for, and tell, seconds.
  """

  def __init__(
    self,
    vm: TpuVm,
    package: Package,
    following: Following,
    command: Sequence[str],
    sleep: Callable[[float], None] = time.sleep,
    logs: str = "",
    clock: Callable[[], float] = time.monotonic,
  ):
    self._vm, self._package, self._following = vm, package, following
    self._command, self._sleep, self._logs = list(command), sleep, logs
    hours = following.delete_after
    self._clock, self._end = clock, clock() + 3600 * hours if hours else float("inf")
    self._printed = 0  # bytes of worker 0's log

  def dry_run(self) -> str:
    """Returns all commands in order, as text for bash."""
    vm, restart = self._vm, self._following.restart
    look = f"every {_POLL_SECONDS:g} seconds"
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
    when = ["after a preemption; then start over too"]
    if self._following.delete_when_done != "never":
      when.append(f"when done: {self._following.delete_when_done}")
    if self._following.delete_after:
      when.append(f"{self._following.delete_after:g} hours after this command began, after stop")
    delete = runner.function("delete", "; ".join(when), vm.delete())
    return "\n".join([runner.listing(parts), stop, delete])

  def run(self) -> None:
    """Runs the command to its end; XmcapError if it failed, or needed too many restarts."""
    name, always = self._vm.name, self._following.delete_when_done == "always"
    self._vm.create()  # raises for missing options before anything is sent
    try:
      self._run_to_its_end()
    except _TimeIsUpError as error:
      runner.capture(self._vm.stop())
      self._print_log()
      delete(self._vm)
      raise XmcapError(f"{error}: the same command creates {name} again and resumes") from None
    except KeyboardInterrupt:
      runner.say(f"{name} keeps running without this command: use --action=logs, status, stop or delete")
      raise
    except UsageError:
      raise
    except XmcapError as error:
      # A run that only cannot be reached may go on.
      if not (always and isinstance(error, _EndedError)):
        raise XmcapError(f"{error}; {name} may still exist and cost money: --action=delete") from None
      runner.say(str(error))
      delete(self._vm)
      raise XmcapError(f"{name} was deleted, since the run failed: see above") from None
    if self._following.delete_when_done == "never":
      runner.say(f"finished; {name} still exists and costs money: delete it with --action=delete")
    else:
      delete(self._vm)

  def _run_to_its_end(self) -> None:
    restart = self._following.restart
    for attempt in range(restart + 1):
      self._make_ready(first=attempt == 0)
      outcome = self._attempt(first=attempt == 0)
      if outcome.kind == "finished":
        return
      if outcome.kind == "failed":
        raise _EndedError(f"{outcome.why}: see the log above, or --action=logs")
      if attempt < restart:
        runner.say(f"{outcome.why}: restarting ({attempt + 1} of {restart})")
    raise _EndedError(f"{outcome.why}, after {restart} restarts")

  def preparation(self) -> list[tuple[str, list[str]]]:
    """Returns (description, command) of all steps once the slice is ready; the last one starts the run."""
    parts = []
    for variable, source in self._package.secrets():
      if not source.startswith("sm://"):
        # Under a name of its own, which the script takes away again.
        parts.append(
          (
            f"copy the secret {variable}",
            self._vm.copy(pathlib.Path(source).absolute(), f".xmcap-{variable}"),
          )
        )
        source = f".xmcap-{variable}"
      parts.append((f"set the secret {variable} on all workers", self._vm.ssh("secret", [variable, source])))
    wheel = self._package.wheel()
    if wheel is not None:
      parts.append(("copy the wheel to all workers", self._vm.copy(wheel)))
    parts.append(("install xmcap on all workers", self._vm.ssh("install", self._package.script_arguments())))
    if self._vm.data_disk:
      parts.append(("mount the disk on all workers", self._vm.mount()))
    if self._following.files:
      parts.append(("copy the files to all workers", self._vm.ssh("files", [self._following.files])))
    return [*parts, ("start the command on all workers", self._vm.ssh("start", [self._logs, *self._command]))]

  def _make_ready(self, first: bool) -> None:
    """Waits for the slice; creates it if there is none or it was taken away."""
    name, waited, last = self._vm.name, 0.0, ""
    while waited <= self._following.wait * 3600:
      self._check_time()
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
      self._sleep(_POLL_SECONDS)
      waited += _POLL_SECONDS
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
      for label, argv in self.preparation():
        runner.say(label)
        runner.run(argv)
    except XmcapError:
      if first and self._state()[0] in _READY:
        raise
      return Outcome("again", f"{self._vm.name} went away before the command ran")
    return self._follow()

  def _follow(self) -> Outcome:
    silent = 0
    while True:
      self._sleep(_POLL_SECONDS)
      self._check_time()
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

  def _check_time(self) -> None:
    if self._clock() >= self._end:
      raise _TimeIsUpError(f"stopped after the {self._following.delete_after:g} hours of --delete_after")

  def _workers(self) -> list[tuple[str, str, str]] | None:
    """Returns (host, state, exit code) of each worker, or None if not all of them answer."""
    answer = runner.capture(self._vm.ssh("status"))
    lines = [line.split() for line in answer.stdout.decode("utf-8", "replace").splitlines()]
    workers = [(line[1], line[2], line[3]) for line in lines if len(line) == 4 and line[0] == "xmcap-status"]
    return workers if answer.returncode == 0 and workers else None

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


def delete(vm: TpuVm, dry_run: bool = False) -> None:
  """Deletes the queued resource and the TPU VM of this name, whichever there are, or prints the commands.

  Raises:
    XmcapError: gcloud cannot tell whether there are any, or cannot delete them.
  """
  kinds = {
    "queued resource": dataclasses.replace(vm, queued=True),
    "TPU VM": dataclasses.replace(vm, queued=False, num_slices=1),
  }
  if dry_run:
    print(
      runner.listing([(f"delete the {kind}, if there is one", one.delete()) for kind, one in kinds.items()])
    )
    return
  deleted = 0
  for kind, one in kinds.items():
    state, complaint = _described(one.describe())
    if state == _UNKNOWN:
      raise XmcapError(
        f"gcloud cannot tell whether there is a {kind} {vm.name}, which may cost money: {complaint}"
      )
    if state != _ABSENT:
      deleted += 1
      runner.run(one.delete())
      runner.say(f"the {kind} {vm.name} is deleted")
  if not deleted:
    runner.say(f"there is neither a queued resource nor a TPU VM {vm.name} in {vm.project}, {vm.zone}")


def cost(vm: TpuVm, price: float) -> str:
  """Returns a line with the cost of the slices since they were created, at a price per chip-hour.

  What came before a preemption, disks and traffic are not in it. XmcapError if gcloud does not say when that was.
  """
  chip_hours, chips, since = 0.0, 0, ""
  for argv in vm.creations():
    answer, complaint = _described(argv)
    created, _, slice_type = answer.partition("\t")
    try:
      begun = datetime.datetime.fromisoformat(created)
      of_slice = slice_of(slice_type.strip()).chips
    except ValueError:
      raise XmcapError(f"gcloud does not say when {vm.name} was created: {complaint or answer}") from None
    hours = (datetime.datetime.now(datetime.UTC) - begun).total_seconds() / 3600
    chip_hours, chips, since = chip_hours + of_slice * hours, chips + of_slice, since or created
  return f"{chips} chips since {since}: {chip_hours:,.1f} chip-hours at {price:g} = {chip_hours * price:,.2f} so far"


def control(
  action: str, vm: TpuVm, worker: str = "0", dry_run: bool = False, price: float | None = None
) -> None:
  """Runs `logs` (follows a worker's log), `status`, `stop` (SIGTERM on all workers) or `delete`, or prints it."""
  if not worker.isdecimal():
    raise UsageError(f"--worker={ascii(worker)[1:-1]}: give the number of a worker")
  if action == "delete":
    delete(vm, dry_run)
    return
  argvs = {
    "logs": [vm.ssh("logs", worker=worker)],
    "status": [vm.describe(), vm.ssh("status")],
    "stop": [vm.stop()],
  }[action]
  if price is not None and action == "status":
    if dry_run:
      argvs = [*vm.creations(), *argvs]
    else:
      print(cost(vm, price), flush=True)
  for argv in argvs:
    if dry_run:
      print(runner.listing([(action, argv)]))
    else:
      runner.run(argv)
