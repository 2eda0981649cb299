"""What a slice is and costs: its state, its deletion, and the lines that say what goes on after a command."""

import dataclasses
import datetime
import itertools
import time
from collections.abc import Callable, Sequence

from xmcap.errors import UsageError, XmcapError
from xmcap.launch import quoting, runner
from xmcap.launch.gcloud import TpuVm, slice_of

# States of a node and of a queued resource (cloud.google.com/tpu/docs/reference/rest/v2), and two more.
READY = {"READY", "ACTIVE"}
GONE = {"PREEMPTED", "TERMINATED", "SUSPENDED"}
NEVER_READY = {"FAILED", "STOPPED", "HIDDEN", "HIDING"}
ABSENT = "ABSENT"
UNKNOWN = "UNKNOWN"

# Seconds that gcloud may take: to answer, to create, to do something on the workers, to stop the run, to delete.
ANSWER_SECONDS = 180
CREATE_SECONDS = 1800
STEP_SECONDS = 3600
STOP_SECONDS = 240
DELETE_SECONDS = 600
_ATTEMPTS = 4  # of --action=delete, in little more than a minute unless gcloud hangs
_PAUSES = (10, 600)  # seconds between attempts to delete: at first and at most


def state(vm: TpuVm, limit: float = ANSWER_SECONDS) -> tuple[str, str]:
  """Returns the state of the slice and, if gcloud failed, its error message."""
  name, complaint = _described(vm.describe(), limit)
  if name == "ACTIVE" and vm.num_slices == 1:
    # A queued resource may stay active after its node was preempted or deleted.
    name, complaint = _described(vm.describe_node(), limit)
    if name == ABSENT:
      name = "SUSPENDED"
  return name, complaint


def _described(argv: Sequence[str], limit: float = ANSWER_SECONDS) -> tuple[str, str]:
  answer = runner.capture(argv, limit)
  if answer.returncode == 0:
    return answer.stdout.decode("utf-8", "replace").strip() or UNKNOWN, ""
  return (ABSENT if b"NOT_FOUND" in answer.stderr else UNKNOWN), runner.complaint(answer)


def deletions(vm: TpuVm) -> dict[str, list[str]]:
  """Returns the commands that delete whatever there is of this name."""
  return {
    "queued resource": dataclasses.replace(vm, queued=True).delete(),
    "TPU VM": dataclasses.replace(vm, queued=False, num_slices=1).delete(),
  }


def delete(vm: TpuVm, sleep: Callable[[float], None], attempts: int | None = None) -> None:
  """Deletes the queued resource and the TPU VM of this name, whichever there are; tries again with growing pauses.

  Raises:
    XmcapError: the last of the `attempts` failed; None: there is always another one.
  """
  pause, most = _PAUSES
  for attempt in itertools.count(1):
    complaints = _delete_once(vm)
    if not complaints:
      return
    if attempt == attempts:
      raise XmcapError(f"{vm.name} could not be deleted: {'; '.join(complaints)}")
    runner.say(
      f"{vm.name} is not deleted and costs money: {'; '.join(complaints)}: trying again in {pause:g} seconds"
    )
    sleep(pause)
    pause = min(2 * pause, most)


def _delete_once(vm: TpuVm) -> list[str]:
  """Returns why what may exist could not be deleted."""
  complaints, deleted = [], 0
  for kind, argv in deletions(vm).items():
    answer = runner.capture(argv, DELETE_SECONDS)
    if answer.returncode == 0:
      deleted += 1
      runner.say(f"the {kind} {vm.name} is deleted")
    elif b"NOT_FOUND" not in answer.stderr:
      complaints.append(f"{kind}: {runner.complaint(answer)}")
  if not (deleted or complaints):
    runner.say(f"there is neither a queued resource nor a TPU VM {vm.name} in {vm.project}, {vm.zone}")
  return complaints


def delete_now(vm: TpuVm, price: float | None = None, dry_run: bool = False) -> None:
  """Deletes the slice, or prints the commands; if that fails or is stopped, says what it costs."""
  if dry_run:
    parts = [(f"delete the {kind}, if there is one", argv) for kind, argv in deletions(vm).items()]
    print(runner.listing(parts))
    return
  try:
    with runner.stoppable():
      delete(vm, time.sleep, _ATTEMPTS)
  except BaseException:
    say_what_remains(vm, price, certain=False)
    raise


def say_what_remains(
  vm: TpuVm, price: float | None = None, certain: bool = True, delete_at: float = 0
) -> None:
  """Says that the slice exists (or may exist), what an hour costs, when it ends, and the command that ends it.

  Args:
    vm: the slice.
    price: for a chip and hour.
    certain: whether it is known to exist.
    delete_at: the time, in seconds since 1970, at which it deletes itself; 0: never.
  """
  parts = [f"{vm.name} still exists and costs money" if certain else f"{vm.name} may exist and cost money"]
  if vm.accelerator_type:
    chips = vm.num_slices * slice_of(vm.accelerator_type).chips
    parts.append(f"{chips} chips ({vm.accelerator_type})")
    if price is not None:
      parts[-1] += f", {chips * price:,.2f} an hour"
  if delete_at:
    date = datetime.datetime.fromtimestamp(delete_at, datetime.UTC)
    parts.append(f"it deletes itself at {date:%Y-%m-%d %H:%M} UTC")
  runner.say(": ".join([", ".join(parts), "delete it with", delete_command(vm)]))


def delete_command(vm: TpuVm) -> str:
  """Returns the command of this package that deletes the slice, for a shell."""
  words = [
    "xmcap",
    "launch",
    "tpu-vm",
    *(f"--{name}={getattr(vm, name)}" for name in ("name", "project", "zone")),
  ]
  return quoting.words([*words, *(["--queued"] if vm.queued else []), "--action=delete"])


def check_price(price: float | None) -> None:
  """UsageError for a price that is no amount."""
  if price is not None and not 0 <= price < 1e6:
    raise UsageError(f"--price={price}: give the price of a chip for an hour")


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
      hours = (datetime.datetime.now(datetime.UTC) - begun).total_seconds() / 3600
    except (ValueError, TypeError):  # TypeError: a time without a zone
      raise XmcapError(
        f"gcloud does not say when {vm.name} was created, with a time zone: {complaint or answer[:80]}"
      ) from None
    chip_hours, chips, since = chip_hours + of_slice * hours, chips + of_slice, since or created
  return f"{chips} chips since {since}: {chip_hours:,.1f} chip-hours at {price:g} = {chip_hours * price:,.2f} so far"
