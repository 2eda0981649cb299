"""The workers of a slice: what they run, and the log of worker 0."""

import codecs
import re
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xmcap.launch import local, runner
from xmcap.launch.gcloud import TpuVm

_MOST_LOG = 1_000_000  # bytes that launch/tpu_vm_logs.sh prints


class Outcome(NamedTuple):
  """How the command ended on all workers: `finished`, `again` or `failed`, and the reason in words."""

  kind: str
  why: str = ""


class Workers:
  """Asks the workers; `read` is called with the text that `print_log` prints.

  Attributes:
    delete_at: the time, in seconds since 1970, at which worker 0 deletes the slice; 0: never, as far as is known.
  """

  def __init__(self, vm: TpuVm, read: Callable[[str], None]):
    self._vm, self._read = vm, read
    self._printed = 0  # bytes of worker 0's log
    self.delete_at = 0

  def states(self, limit: float) -> list[tuple[str, str, str]] | None:
    """Returns (host, state, exit code) of each worker, or None if not all of them answer in `limit` seconds."""
    answer = runner.capture(self._vm.ssh("status"), limit)
    lines = [line.split() for line in answer.stdout.decode("utf-8", "replace").splitlines()]
    for line in lines:
      if len(line) == 4 and line[0] == "xmcap-deletion" and re.fullmatch("[0-9]{1,11}", line[2]):
        self.delete_at = int(line[2])
    workers = [(line[1], line[2], line[3]) for line in lines if len(line) == 4 and line[0] == "xmcap-status"]
    return workers if answer.returncode == 0 and workers else None

  def print_log(self, limit: float) -> None:
    """Prints the new whole lines in the log of worker 0; of more than a megabyte, the last ones.

    What nobody reads now is offered again by the next call.
    """
    answer = runner.capture(self._vm.ssh("logs", [str(self._printed + 1)], "0"), limit)
    first, _, new = answer.stdout.partition(b"\n")
    if answer.returncode or not re.fullmatch(rb"[0-9]{1,18}", first):
      return
    if len(new) < _MOST_LOG:
      new = new[: new.rfind(b"\n") + 1]
    if not new:
      return
    self._read(new.decode("utf-8", "replace"))
    skipped = int(first) - 1 - self._printed
    if skipped > 0:
      where = f"worker 0 in ~/xmcap/{self._vm.name}/log"
      runner.say(f"{skipped:,} bytes of the log are not printed: all of it is on {where}")
    self._printed += skipped
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    for start in range(0, len(new), runner.MOST_OFFERED):
      part = new[start : start + runner.MOST_OFFERED]
      if not runner.offer(sys.stdout, decode(part)):
        return
      self._printed += len(part)


def judge(workers: Sequence[tuple[str, str, str]]) -> Outcome | None:
  """Returns the outcome for the workers' states, (host, state, exit code) each; None: the run goes on.

  A worker that failed takes precedence over those that only lost it.
  """
  codes = [
    (host, int(code))
    for host, state, code in workers
    if state == "exited" and re.fullmatch("[0-9]{1,3}", code)
  ]
  for kind in ("failed", "again"):
    for host, code in codes:
      if code and (kind == "again" or not local.is_restartable(code)):
        return Outcome(kind, f"{host} ended with exit code {code}")
  for host, state, _ in workers:
    if state in ("lost", "absent"):
      return Outcome("again", f"{host} lost its process")
  return Outcome("finished") if len(codes) == len(workers) else None
