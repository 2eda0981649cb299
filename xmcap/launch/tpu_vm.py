"""A run on a TPU VM: created, installed, started on every worker, followed, and started again when it is preempted."""

import dataclasses
import hashlib
import pathlib
import re
import sys
import time
from collections.abc import Callable, Sequence

from xmcap.errors import UsageError, XmcapError
from xmcap.launch import local, names, runner
from xmcap.launch.tpu_vm_commands import Machine

# States of a node and of a queued resource (cloud.google.com/tpu/docs/reference/rest/v2).
READY = {"READY", "ACTIVE"}
GONE = {"PREEMPTED", "TERMINATED", "SUSPENDED"}
ABSENT = "ABSENT"
UNKNOWN = "UNKNOWN"
_NEVER_READY = {"FAILED", "STOPPED", "HIDDEN", "HIDING"}
_SECONDS_TO_SAVE = 120
# So many times in a row a TPU that is ready may not answer ssh.
_SILENT = 10


@dataclasses.dataclass(frozen=True)
class Package:
  """What is installed on the workers: a wheel of this machine, or whatever pip accepts."""

  spec: str
  python: str = "3.12"

  def __post_init__(self):
    names.check("python", self.python)
    if not self.spec or self.spec.startswith("-") or not self.spec.isprintable():
      raise UsageError(
        f"--install={ascii(self.spec[:80])[1:-1]}: give a wheel (dist/xmcap-0.1.0-py3-none-any.whl) or what pip"
        " installs (git+https://..., xmcap==0.1.0)"
      )
    wheel = self.wheel()
    if wheel is None:
      return
    if not wheel.is_file():
      raise UsageError(f"--install={self.spec}: no such file")
    if ":" in str(wheel) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+!-]*\.whl", wheel.name):
      raise UsageError(
        f"--install={self.spec}: gcloud cannot copy a file of this name: build the wheel elsewhere"
      )

  def wheel(self) -> pathlib.Path | None:
    """Returns the wheel to copy, if it is one of this machine."""
    local_file = self.spec.endswith(".whl") and "://" not in self.spec
    return pathlib.Path(self.spec).absolute() if local_file else None

  def arguments(self, name: str) -> list[str]:
    """Returns the arguments of `tpu_vm_install.sh`."""
    wheel = self.wheel()
    if wheel is None:
      return [name, self.python, f"{self.python} {self.spec}", self.spec]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return [name, self.python, f"{self.python} {digest}", wheel.name]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How the command ended on all workers: `finished`, `again` or `failed`, and why in words."""

  kind: str
  why: str = ""


class Run:
  """One command on every worker of a slice, until it is finished."""

  def __init__(
    self,
    machine: Machine,
    package: Package,
    command: Sequence[str],
    files: str = "",
    restart: int = 10,
    poll: float = 30.0,
    wait: float = 24.0,
    sleep: Callable[[float], None] = time.sleep,
  ):
    """Args:
    machine: the slice.
    package: what is installed on it.
    command: the program and its arguments.
    files: a folder of a bucket that is copied to every worker first; the command runs in the copy.
    restart: how often the command is started again at most.
    poll: seconds between two looks at it.
    wait: hours that a slice may take to be ready.
    sleep: waits so many seconds.
    """
    names.positive("restart", restart, 0)
    if not 0 < poll <= 3600 or wait <= 0:
      raise UsageError(f"--poll={poll} --wait={wait}: must be seconds (at most 3600) and hours above 0")
    self._machine = machine
    self._package = package
    self._command = list(command)
    self._files = names.check("files", files) if files else ""
    self._restart = restart
    self._poll = poll
    self._wait = wait
    self._sleep = sleep
    self._printed = 0

  def dry_run(self) -> str:
    """Returns every command in its order, as bash would take it."""
    machine = self._machine
    look = f"every {self._poll:g} seconds"
    parts = [
      ("create the slice, unless it is there", machine.create()),
      (f"{look}, until it says {'ACTIVE' if machine.queued else 'READY'}", machine.describe()),
    ]
    if machine.queued and machine.num_slices == 1:
      parts.append((f"{look}, until it says READY", machine.describe(resource=False)))
    listing = runner.listing(
      [
        *parts,
        *self._install(),
        ("start the command on all workers", self._ssh("start", self._command)),
        (f"{look}, how it is on all workers", self._ssh("status")),
        (f"{look}, the log of worker 0 from the byte not yet printed on", self._ssh("logs", ["1"], "0")),
      ]
    )
    why = "after exit code 75, a death by a signal or a lost worker"
    stop = runner.function(
      "stop", f"{why}; then all from the top, at most {self._restart} times", self._stop()
    )
    delete = runner.function("delete", "after a preemption; then all from the top too", machine.delete())
    return "\n".join([listing, stop, delete])

  def run(self) -> None:
    """Runs the command to its end.

    Raises:
      XmcapError: it failed, or asked to be started again too often.
    """
    try:
      for attempt in range(self._restart + 1):
        self._make_ready(first=attempt == 0)
        outcome = self._attempt(first=attempt == 0)
        if outcome.kind == "finished":
          runner.say(
            f"finished; {self._machine.name} is still there and costs: --action=delete gives it back"
          )
          return
        if outcome.kind == "failed":
          raise XmcapError(
            f"{outcome.why}: see the log above, or --action=logs; the TPU is still there and costs"
          )
        if attempt < self._restart:
          runner.say(f"{outcome.why}: starting again ({attempt + 1} of {self._restart})")
      raise XmcapError(f"{outcome.why}, after {self._restart} restarts; the TPU may still be there and cost")
    except KeyboardInterrupt:
      runner.say(f"{self._machine.name} goes on without this command: --action=logs, status, stop or delete")
      raise

  def _make_ready(self, first: bool) -> None:
    """Waits for the slice; creates it where there is none, and again where it was taken away."""
    end = self._wait * 3600
    waited = 0.0
    last = ""
    while waited <= end:
      state, error = self._state()
      if state in READY:
        return
      if state != last:
        runner.say(f"{self._machine.name}: {state.lower()}")
        last = state
      if state == UNKNOWN and first:
        raise XmcapError(f"gcloud cannot say how {self._machine.name} is: {error}")
      if state in _NEVER_READY:
        raise XmcapError(f"{self._machine.name} is {state}: --action=delete gives it back; then run again")
      if state == ABSENT or state in GONE:
        try:
          runner.run(self._machine.create() if state == ABSENT else self._machine.delete())
          self._printed = 0
          continue
        except UsageError:
          raise
        except XmcapError as failed:
          # Later there may be no capacity for a while; the first time it is rather a wrong option.
          if first:
            raise XmcapError(f"{failed}; where there is no capacity now, --queued waits for it") from None
      self._sleep(self._poll)
      waited += self._poll
    raise XmcapError(f"{self._machine.name} was not ready after {self._wait:g} hours")

  def _state(self) -> tuple[str, str]:
    """Returns the state of the slice and, where gcloud could not say it, its complaint."""
    state, error = self._described(None)
    if state == "ACTIVE" and self._machine.num_slices == 1:
      # A queued resource may still be active when its node has been preempted or deleted.
      state, error = self._described(False)
      return ("SUSPENDED" if state == ABSENT else state), error
    return state, error

  def _described(self, resource: bool | None) -> tuple[str, str]:
    out = runner.capture(self._machine.describe(resource))
    if out.code == 0:
      return out.out.decode("utf-8", "replace").strip() or UNKNOWN, ""
    return (ABSENT if "NOT_FOUND" in out.error else UNKNOWN), out.complaint()

  def _attempt(self, first: bool) -> Outcome:
    """Installs, starts and follows; a slice that goes away at any point is a reason to start again."""
    try:
      for comment, argv in self._install():
        runner.say(comment)
        runner.run(argv)
      runner.say("start the command on all workers")
      runner.run(self._ssh("start", self._command))
    except UsageError:
      raise
    except XmcapError:
      if first and self._state()[0] in READY:
        raise
      return Outcome("again", f"{self._machine.name} went away before the command ran")
    return self._follow()

  def _follow(self) -> Outcome:
    silent = 0
    while True:
      self._sleep(self._poll)
      workers = self._workers()
      self._print_log()
      if workers is None:
        state, _ = self._state()
        if state == ABSENT or state in GONE:
          return Outcome("again", f"{self._machine.name} was taken away ({state.lower()})")
        silent += state in READY
        if silent == _SILENT:
          raise XmcapError(
            f"{self._machine.name} is {state}, but its workers do not answer: try --action=status"
          )
        continue
      silent = 0
      outcome = judge(workers)
      if outcome is None:
        continue
      if outcome.kind != "finished":
        runner.capture(self._stop())
        # What a worker said while the others were being stopped may be the true reason.
        outcome = judge(self._workers() or workers) or outcome
        self._print_log()
      return outcome

  def _workers(self) -> list[tuple[str, str, str]] | None:
    """Returns (host, state, exit code) of each worker, or None where not all of them answer."""
    out = runner.capture(self._ssh("status"))
    lines = [line.split() for line in out.out.decode("utf-8", "replace").splitlines()]
    found = [tuple(line[1:]) for line in lines if len(line) == 4 and line[0] == "xmcap-status"]
    return found if out.code == 0 and found else None

  def _print_log(self) -> None:
    """Prints what is new in the log of worker 0, whole lines of it."""
    while True:
      out = runner.capture(self._ssh("logs", [str(self._printed + 1)], "0"))
      new = out.out[: out.out.rfind(b"\n") + 1] if out.code == 0 else b""
      if not new:
        return
      self._printed += len(new)
      sys.stdout.write(new.decode("utf-8", "replace"))
      sys.stdout.flush()

  def _install(self) -> list[tuple[str, list[str]]]:
    parts = []
    wheel = self._package.wheel()
    if wheel is not None:
      parts.append(("copy the wheel to all workers", self._machine.copy(wheel)))
    arguments = self._package.arguments(self._machine.name)
    parts.append(("install xmcap on all workers", self._machine.ssh("tpu_vm_install.sh", arguments)))
    if self._machine.data_disk:
      parts.append(("mount the disk on all workers", self._machine.mount()))
    if self._files:
      parts.append(("copy the files to all workers", self._ssh("files", [self._files])))
    return parts

  def _stop(self) -> list[str]:
    return self._ssh("stop", [str(_SECONDS_TO_SAVE)])

  def _ssh(self, script: str, arguments: Sequence[str] = (), worker: str = "all") -> list[str]:
    return self._machine.ssh(f"tpu_vm_{script}.sh", [self._machine.name, *arguments], worker)


def judge(workers: Sequence[tuple[str, str, str]]) -> Outcome | None:
  """Returns what the workers' states come to: (host, state, exit code) each; None: it goes on.

  A worker that failed stands before those that only lost it.
  """
  codes = [(host, int(code)) for host, state, code in workers if state == "exited" and code.isdecimal()]
  for host, code in codes:
    if code and not local.restartable(code):
      return Outcome("failed", f"{host} ended with exit code {code}")
  for host, code in codes:
    if code:
      return Outcome("again", f"{host} ended with exit code {code}")
  for host, state, _ in workers:
    if state in ("lost", "absent"):
      return Outcome("again", f"{host} lost its process")
  return Outcome("finished") if len(codes) == len(workers) else None


def control(action: str, machine: Machine, worker: str = "0", dry_run: bool = False) -> None:
  """`logs` (follows a worker's), `status`, `stop` (SIGTERM on all workers) or `delete`; a dry run prints."""
  if not worker.isdecimal():
    raise UsageError(f"--worker={ascii(worker)[1:-1]}: must be the number of a worker")
  name = machine.name
  argvs = {
    "logs": [machine.ssh("tpu_vm_logs.sh", [name], worker)],
    "status": [machine.describe(), machine.ssh("tpu_vm_status.sh", [name])],
    "stop": [machine.ssh("tpu_vm_stop.sh", [name, str(_SECONDS_TO_SAVE)])],
    "delete": [machine.delete()],
  }[action]
  if dry_run:
    print(runner.listing([(action, argv) for argv in argvs]))
    return
  for argv in argvs:
    runner.run(argv)
