"""Runs a command on a TPU VM: creates it, installs xmcap, starts every worker, follows the run and restarts it."""

import dataclasses
import itertools
import math
import pathlib
import time
import traceback
from collections.abc import Callable, Sequence

from xmcap.errors import UsageError, XmcapError
from xmcap.launch import lifetime, runner
from xmcap.launch.gcloud import TpuVm
from xmcap.launch.options import check_fields, check_text, option
from xmcap.launch.package import Package
from xmcap.launch.restarts import Restarts
from xmcap.launch.workers import Outcome, Workers, judge

_POLL_SECONDS = 30.0
_LAST_LOG_SECONDS = 30.0  # that a slice is paid for, at most, to print the end of the log
_MOST_SILENT = 10  # failed polls in a row after which a ready slice counts as unreachable


@dataclasses.dataclass(frozen=True)
class Following:
  """How a run is followed and restarted."""

  files: str = option(
    "a folder to copy to every worker, where the command runs", "", rule="files", metavar="gs://..."
  )
  wait: float = option("how long to wait for the TPU to be ready", 24.0, metavar="HOURS")
  restart: int = option("largest number of restarts in a row without progress", 10, metavar="K")
  delete_when_done: str = option(
    "delete the slice when the run has finished; always: also when it has failed or cannot be followed", "never",
    const="finished", choices=("never", "finished", "always"),
  )  # fmt: skip
  delete_after: float = option(
    "stop the run and delete the slice after so long, also if this command is gone; 0: never", 0.0, metavar="HOURS"
  )  # fmt: skip

  def __post_init__(self):
    check_fields(self)
    if not 0 <= self.delete_after < 1e6:
      raise UsageError(f"--delete_after={self.delete_after}: give hours above 0")
    if not 0 < self.wait < 1e6:
      raise UsageError(f"--wait={self.wait}: give hours above 0")


class _TimeIsUpError(XmcapError):
  """The slice is to be deleted now."""


class TpuVmRun:
  """Runs one command on every worker of a slice until it is finished.

  Args:
    vm, package, following: options.
    command: of every worker.
    sleep, clock: wait for seconds, and tell the seconds since 1970: a laptop that sleeps does not stop this clock.
    logs: folder of a bucket for the logs of all workers; "": they stay on the workers.
    price: for a chip and hour, for messages.
  """

  def __init__(
    self,
    vm: TpuVm,
    package: Package,
    following: Following,
    command: Sequence[str],
    sleep: Callable[[float], None] = time.sleep,
    logs: str = "",
    clock: Callable[[], float] = time.time,
    price: float | None = None,
  ):
    lifetime.check_price(price)
    self._vm, self._package, self._following = vm, package, following
    self._command, self._sleep, self._logs = list(command), sleep, logs
    self._clock, self._price = clock, price
    hours = following.delete_after
    self._end = clock() + 3600 * hours if hours else math.inf
    self._restarts = Restarts(following.restart)
    self._workers = Workers(vm, self._restarts.read)
    self._exists: bool | None = None  # None: perhaps
    self._is_used = self._deletes_itself = self._started = self._is_over = False

  def dry_run(self) -> str:
    """Returns all commands in order, as text for bash."""
    vm, following = self._vm, self._following
    look = f"every {_POLL_SECONDS:g} seconds"
    parts = [
      ("create the slice, unless it exists", self._create()),
      (f"{look}, until it says {'ACTIVE' if vm.queued else 'READY'}", vm.describe()),
    ]
    if vm.queued and vm.num_slices == 1:
      parts.append((f"{look}, until it says READY", vm.describe_node()))
    if following.delete_after:
      parts.append(("let the slice delete itself", vm.timer(self._delete_at())))
    parts += [
      *self.preparation(),
      (f"{look}, the state on all workers", vm.ssh("status")),
      (f"{look}, the log of worker 0 from the first byte not yet printed", vm.ssh("logs", ["1"], "0")),
    ]
    why = "after exit code 75, a death by a signal or a lost worker"
    stop = runner.function(
      "stop", f"{why}; then start over, at most {following.restart} times without progress", vm.stop()
    )
    when = ["after a preemption; then start over too"]
    if following.delete_when_done != "never":
      when.append(f"when done: {following.delete_when_done}")
    if following.delete_after:
      when.append(f"{following.delete_after:g} hours after this command began, after stop")
    delete = runner.function("delete", "; ".join(when), vm.delete())
    return "\n".join([runner.listing(parts), stop, delete])

  def run(self) -> None:
    """Runs the command to its end; XmcapError if it failed, or needed too many restarts.

    Whatever ends it, the last lines say what still exists and costs money.
    """
    self._vm.create()  # raises for missing options before anything is sent
    with runner.stoppable():
      try:
        failure = self._run_to_its_end()
        if self._is_to_be_deleted(failure):
          runner.say(f"{failure or 'finished'}: deleting {self._vm.name}")
          self._delete()
          if failure:
            resumes = ": the same command creates it again and resumes" if self._is_late() else ""
            failure = XmcapError(f"{failure}; {self._vm.name} was deleted{resumes}")
      finally:
        if self._exists is not False:
          if self._started and not self._is_over:
            runner.say(
              f"the run on {self._vm.name} goes on: see it with --action=logs or status, end it with stop"
            )
          lifetime.say_what_remains(self._vm, self._price, self._exists is True, self._known_deletion())
    if failure:
      raise failure

  def _is_to_be_deleted(self, failure: XmcapError | None) -> bool:
    """Whether the slice is to be deleted now; waits for its time if it cannot delete itself."""
    if self._exists is False or not (self._is_used or self._is_late()):
      return False
    when = self._following.delete_when_done
    if self._is_late() or when == "always" or (when == "finished" and not failure):
      return True
    if math.isinf(self._end) or self._deletes_itself:
      return False
    runner.say(
      f"{failure or 'finished'}: waiting for --delete_after, since {self._vm.name} cannot delete itself"
    )
    lifetime.say_what_remains(self._vm, self._price, self._exists is True)
    while not self._is_late():
      # In parts: a laptop that sleeps stops the clock of a long one.
      self._sleep(max(0.0, min(_POLL_SECONDS, self._end - self._clock())))
    return True

  def _run_to_its_end(self) -> XmcapError | None:
    """Returns why the run is not finished, None if it is; signals go through."""
    try:
      self._run()
    except XmcapError as error:
      return error
    except Exception as error:
      # Here, and not at the end of the command, so that its last lines are about the slice.
      traceback.print_exc()
      return XmcapError(f"{type(error).__name__} of xmcap itself, see above")
    return None

  def _run(self) -> None:
    for attempt in itertools.count():
      self._make_ready(first=attempt == 0)
      outcome = self._attempt(first=attempt == 0)
      if outcome.kind == "finished":
        return
      if outcome.kind == "failed":
        raise XmcapError(f"{outcome.why}: see the log above, or --action=logs")
      again = self._restarts.next()
      if not again:
        raise XmcapError(f"{outcome.why}: {self._restarts.spent}")
      runner.say(f"{outcome.why}: {again}")

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

  def _create(self) -> list[str]:
    """The request waits no longer than this command does, since nobody would use what comes later."""
    left = min(3600 * self._following.wait, self._end - self._clock())
    return self._vm.create(max(1, round(left)), self._delete_at())

  def _delete_at(self) -> int:
    return 0 if math.isinf(self._end) else math.ceil(self._end)

  def _known_deletion(self) -> int:
    return self._delete_at() if self._deletes_itself else 0

  def _make_ready(self, first: bool) -> None:
    """Waits for the slice; creates it if there is none or it was taken away."""
    name, begun, last = self._vm.name, self._clock(), ""
    wait = 3600 * self._following.wait
    while self._clock() - begun <= wait:
      self._check_time()
      state, complaint = self._state()
      self._check_time()
      if state in lifetime.READY:
        self._is_used = True
        return
      if state != last:
        runner.say(f"{name}: {state.lower()}")
        last = state
      if state == lifetime.UNKNOWN and first:
        raise XmcapError(f"gcloud cannot tell the state of {name}: {complaint}")
      if state in lifetime.NEVER_READY:
        raise XmcapError(f"{name} is {state}: delete it with --action=delete, then run again")
      if state == lifetime.ABSENT or state in lifetime.GONE:
        try:
          if state == lifetime.ABSENT:
            self._exists, self._is_used, self._deletes_itself = None, True, False
            runner.run(self._create(), self._limit(lifetime.CREATE_SECONDS))
          else:
            runner.run(self._vm.delete(), self._limit(lifetime.DELETE_SECONDS))
          self._workers, self._started = Workers(self._vm, self._restarts.read), False
          continue
        except runner.LateError as error:
          self._check_time()
          runner.say(f"{error}: looking whether it goes on")
        except XmcapError as error:
          self._check_time()
          # Later on, capacity may be missing for a while; the first time, a wrong option is more likely.
          if first and self._state()[0] in (lifetime.ABSENT, lifetime.UNKNOWN):
            advice = "" if self._vm.queued else "; if there is no capacity now, wait for it with --queued"
            raise XmcapError(f"{error}{advice}") from None
      self._sleep(_POLL_SECONDS)
    raise XmcapError(f"{name} was not ready after {self._following.wait:g} hours")

  def _state(self) -> tuple[str, str]:
    """Returns the state of the slice and, if gcloud failed, its error message."""
    state, complaint = lifetime.state(self._vm, self._limit(lifetime.ANSWER_SECONDS))
    if state == lifetime.ABSENT:
      self._exists = False
    elif state in lifetime.GONE or (state == lifetime.UNKNOWN and not self._exists):
      self._exists = None
    elif state != lifetime.UNKNOWN:
      self._exists = True
    return state, complaint

  def _attempt(self, first: bool) -> Outcome:
    """Installs, starts and follows the run; if the slice goes away at any point, the outcome is `again`."""
    try:
      self._set_timer()
      for label, argv in self.preparation():
        runner.say(label)
        runner.run(argv, self._limit(lifetime.STEP_SECONDS))
        self._check_time()
    except _TimeIsUpError:
      raise
    except XmcapError:
      self._check_time()
      if first and self._state()[0] in lifetime.READY:
        raise
      return Outcome("again", f"{self._vm.name} went away before the command ran")
    self._started, self._is_over = True, False
    outcome = self._follow()
    self._is_over = True
    return outcome

  def _set_timer(self) -> None:
    if math.isinf(self._end):
      return
    answer = runner.capture(self._vm.timer(self._delete_at()), self._limit(lifetime.ANSWER_SECONDS))
    self._check_time()
    self._deletes_itself = answer.returncode == 0
    if not self._deletes_itself:
      runner.say(
        f"{self._vm.name} cannot delete itself, only this command can (docs/pods.md): {runner.complaint(answer)}"
      )

  def _follow(self) -> Outcome:
    silent = 0
    while True:
      self._sleep(_POLL_SECONDS)
      self._check_time()
      workers = self._workers.states(self._limit(lifetime.ANSWER_SECONDS))
      self._adopt_deletion()
      self._check_time()
      self._workers.print_log(self._limit(lifetime.ANSWER_SECONDS))
      if workers is None:
        state, complaint = self._state()
        if state == lifetime.ABSENT or state in lifetime.GONE:
          return Outcome("again", f"{self._vm.name} was taken away ({state.lower()})")
        if state == lifetime.UNKNOWN:
          runner.say(f"gcloud does not answer, trying on: {complaint}")
          lifetime.say_what_remains(self._vm, self._price, False, self._known_deletion())
        silent += state in lifetime.READY
        if silent == _MOST_SILENT:
          self._deletes_itself = False
          raise XmcapError(f"{self._vm.name} is {state}, but its workers do not answer: try --action=status")
        continue
      silent = 0
      outcome = judge(workers)
      if outcome is None:
        continue
      if outcome.kind == "again":
        # The other workers save, and are free for the next start.
        runner.capture(self._vm.stop(), self._limit(lifetime.STOP_SECONDS))
        # A worker that failed while the others were being stopped may be the actual cause.
        outcome = judge(self._workers.states(self._limit(lifetime.ANSWER_SECONDS)) or workers) or outcome
        self._workers.print_log(self._limit(lifetime.ANSWER_SECONDS))
      return outcome

  def _adopt_deletion(self) -> None:
    """An earlier command may have set when the slice deletes itself, after which it must not be made anew."""
    if self._workers.delete_at and not self._following.delete_after:
      self._end, self._deletes_itself = float(self._workers.delete_at), True

  def _limit(self, seconds: float) -> float:
    """Seconds that a call may take: until the slice is to be deleted, at most."""
    return max(1.0, min(seconds, self._end - self._clock()))

  def _is_late(self) -> bool:
    return self._clock() >= self._end

  def _check_time(self) -> None:
    if self._is_late():
      hours = self._following.delete_after
      raise _TimeIsUpError(
        f"stopped after the {hours:g} hours of --delete_after"
        if hours
        else "stopped by an earlier --delete_after"
      )

  def _delete(self) -> None:
    """Stops the run, if it goes on, and deletes the slice, however long that takes."""
    if self._started and not self._is_over:
      self._is_over = True
      runner.capture(self._vm.stop(), lifetime.STOP_SECONDS)
      self._workers.print_log(_LAST_LOG_SECONDS)
    if self._exists is None and self._is_used:
      # What was asked for may only now appear.
      lifetime.delete(self._vm, self._sleep)
      self._sleep(_POLL_SECONDS)
    lifetime.delete(self._vm, self._sleep)
    self._exists = False


def control(
  action: str, vm: TpuVm, worker: str = "0", dry_run: bool = False, price: float | None = None
) -> None:
  """Runs `logs` (follows a worker's log), `status`, `stop` (SIGTERM on all workers) or `delete`, or prints it."""
  check_text("number", worker, "worker")
  lifetime.check_price(price)
  if action == "delete":
    lifetime.delete_now(vm, price, dry_run)
    return
  argvs = {
    "logs": [vm.ssh("logs", worker=worker)],
    "status": [vm.describe(), vm.ssh("status")],
    "stop": [vm.stop()],
  }[action]
  limit = {"logs": None, "status": lifetime.ANSWER_SECONDS, "stop": lifetime.STOP_SECONDS}[action]
  if price is not None and action == "status":
    if dry_run:
      argvs = [*vm.creations(), *argvs]
    else:
      print(lifetime.cost(vm, price), flush=True)
  if dry_run:
    print("\n".join(runner.listing([(action, argv)]) for argv in argvs))
    return
  try:
    with runner.stoppable():
      for argv in argvs:
        runner.run(argv, limit)
  finally:
    if action == "stop":
      lifetime.say_what_remains(vm, price, certain=False)
