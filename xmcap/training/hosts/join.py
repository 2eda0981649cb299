"""The processes of one run: how they join, and how they wait for each other.

`cluster.py` says where a process stands among them, `heartbeat.py` notices that one is gone or hangs. One process is
the same code with nothing to wait for.
"""

import collections
import contextlib
import dataclasses
import json
import os
import re
import socket
import traceback
from collections.abc import Iterator, Mapping, Sequence

import gin
import jax
from absl import logging

from xmcap import terminal
from xmcap.errors import RestartError, UsageError, XmcapError
from xmcap.training.hosts import jax_internals, watch
from xmcap.training.hosts.cluster import find_place
from xmcap.training.hosts.heartbeat import BEAT, Heartbeat
from xmcap.training.hosts.roll_call import roll_call

# jax's own watch over the processes ends this one without a word about hosts, so ours comes first.
_JAX_LATER = 12
_LOST = re.compile(
  r"gloo|nccl|connection (closed|reset|refused)|socket closed|broken pipe|UNAVAILABLE|heartbeat|unhealthy|"
  r"coordination|barrier timed out|DEADLINE_EXCEEDED|_(complete|finished) barrier",
  re.IGNORECASE,
)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class HostTimeouts:
  """Seconds that processes of one run wait for each other.

  Attributes:
    start: for all of them to be there when the run starts.
    lost: after so long without a sign of life a process counts as lost, and the others end.
    barrier: for all to reach the same point: a checkpoint restored, the end of the run.
  """

  start: float = 300
  lost: float = 40
  barrier: float = 900

  def __post_init__(self):
    if self.start <= 0 or self.lost < 2 * BEAT or self.barrier <= 0:
      raise UsageError(
        f"HostTimeouts: start {self.start}, lost {self.lost}, barrier {self.barrier}: give lost at least"
        f" {2 * BEAT:g} and the others more than 0"
      )


class Hosts:
  """The processes of this run, joined. Made by `joined`.

  Attributes:
    names: of the hosts, by process number.
    index: of this process.
  """

  def __init__(
    self, names: Sequence[str], index: int, timeouts: HostTimeouts, limits: watch.HangLimits | None = None
  ):
    self.names = list(names)
    self.index = index
    self.timeouts = timeouts
    self._client = jax_internals.coordination_client()
    self._count: dict[str, int] = {}
    own = watch.Watch(limits) if limits else None
    self._heartbeat = Heartbeat(self._client, index, len(names), timeouts.lost, own, self.describe)

  def describe(self, numbers: Sequence[int]) -> str:
    """`process 3 (HOST)`, or several."""
    return ", ".join(f"process {number} ({self.names[number]})" for number in numbers)

  def barrier(self, what: str, seconds: float | None = None) -> None:
    """Returns when all have come; `what` names the point, for the message.

    Raises:
      RestartError: some have not; names them.
    """
    seconds = seconds or self.timeouts.barrier
    self._count[what] = self._count.get(what, 0) + 1
    try:
      self._client.wait_at_barrier(f"xmcap/{what}/{self._count[what]}", int(seconds * 1000))
    except jax.errors.JaxRuntimeError as error:
      raise RestartError(
        f"{what}: waited {seconds:g} s for {self._missing(str(error))}; the others have come"
      ) from error

  def agree(self, what: str, mine: str) -> list[str]:
    """What each process has to say, by number; all must call it.

    Raises:
      RestartError: see `barrier`.
    """
    self._count[f"{what}?"] = turn = self._count.get(f"{what}?", 0) + 1
    self._client.key_value_set(f"xmcap/said/{what}/{turn}/{self.index}", mine)
    self.barrier(what)
    found = {
      int(key.rsplit("/", 1)[1]): said
      for key, said in self._client.key_value_dir_get(f"xmcap/said/{what}/{turn}/")
    }
    return [found[number] for number in range(len(self.names))]

  def _missing(self, text: str) -> str:
    listed = text.partition("timed out task names:")[2]
    numbers = [int(word) for word in re.findall(r"^(?:.*task:)?(\d+)\s*$", listed, re.MULTILINE)]
    numbers = [number for number in numbers if number < len(self.names)]
    return self.describe(numbers) if numbers else f"another process ({_one_line(text)})"

  def tell_failure(self, code: int, line: str) -> None:
    """Ends the others with the same exit code and this line."""
    # What gin adds stands after the first line of an error.
    self._heartbeat.tell_failure(code, _one_line(line.split("\n  In call to configurable")[0]))

  def await_end(self) -> None:
    """Does not return where this process is being ended for another one's sake."""
    self._heartbeat.await_end()

  def leave(self) -> None:
    """Waits for the others and parts from them.

    Raises:
      RestartError: see `barrier`.
    """
    self.barrier("end of the run")
    self._heartbeat.stop()
    jax.distributed.shutdown()


_current: Hosts | None = None


def current() -> Hosts | None:
  """The processes of this run, while there are several."""
  return _current


def agree(what: str, mine: str) -> list[str]:
  """`Hosts.agree`; of one process, what it says."""
  return _current.agree(what, mine) if _current else [mine]


def total(what: str, mine: Mapping[str, int]) -> dict[str, int]:
  """The sums of counts by name over all processes; all must call it.

  Raises:
    RestartError: see `Hosts.barrier`.
  """
  counts = collections.Counter()
  for said in agree(what, json.dumps(dict(mine))):
    counts.update(json.loads(said))
  return dict(counts)


def barrier(what: str) -> None:
  """`Hosts.barrier`; of one process, nothing."""
  if _current:
    _current.barrier(what)


@contextlib.contextmanager
def joined(
  address: str | None = None,
  count: int | None = None,
  index: int | None = None,
  preemption: bool = True,
  timeouts: HostTimeouts | None = None,
  limits: watch.HangLimits | None = None,
) -> Iterator[Hosts | None]:
  """Within it the processes of the run are one jax; of one process, it does nothing. Before any use of jax.

  A failure of one ends all, with its exit code, and each says whose it was.

  Args:
    address, count, index: see `find_place`.
    preemption: jax turns SIGTERM of one into a step at which all stop.
    timeouts: made, with what gin binds, where None is given.
    limits: a process that makes no progress for so long is ended, and with it the others; None: nobody looks.

  Raises:
    UsageError: see `find_place` and `roll_call`.
    RestartError: processes are missing at the start or at the end, or are lost on the way.
  """
  global _current
  timeouts = timeouts or HostTimeouts()
  place = find_place(address, count, index, timeouts.start)
  watch.progress("start" if limits else "")
  if place is None:
    with watch.alone(limits) if limits else contextlib.nullcontext():
      yield None
    return
  names = roll_call(place.address, place.count, place.index, timeouts.start, _name())
  jax.config.update("jax_enable_preemption_service", preemption)
  if jax.config.jax_cpu_collectives_implementation is None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
  jax.distributed.initialize(
    place.address,
    place.count,
    place.index,
    local_device_ids=place.devices,
    cluster_detection_method="deactivate",
    heartbeat_timeout_seconds=int(timeouts.lost) + _JAX_LATER,
  )
  _current = hosts = Hosts(names, place.index, timeouts, limits)
  if place.index == 0:
    logging.info("%d processes: %s", place.count, ", ".join(names))
  try:
    yield hosts
    hosts.leave()
  except XmcapError as error:
    hosts.await_end()
    hosts.tell_failure(error.exit_code, str(error))
    raise
  except Exception as error:
    hosts.await_end()
    lost = as_lost(error)
    if lost is None:
      traceback.print_exc()
      hosts.tell_failure(1, f"{type(error).__name__}: {error}")
      os._exit(1)
    hosts.tell_failure(lost.exit_code, str(lost))
    raise lost from error
  _current = None


def as_lost(error: BaseException) -> RestartError | None:
  """What stands for an error that comes of a process that is gone; None for any other.

  A collective of jax and a barrier of Orbax each have their own words for it.
  """
  known = isinstance(error, jax.errors.JaxRuntimeError | OSError | RuntimeError)
  # What breaks while a program is handed to a CPU comes as a ValueError.
  if _current is None or not (known or (isinstance(error, ValueError) and "Gloo" in str(error))):
    return None
  texts, seen = [], error
  while seen is not None:
    texts.append(str(seen))
    seen = seen.__cause__ or seen.__context__
  text = " ".join(texts)
  if not _LOST.search(text):
    return None
  if "timed out task names:" in text:
    return RestartError(f"waited in vain for {_current._missing(text)}")
  return RestartError(f"another process of the run is gone ({_one_line(str(error))})")


def _name() -> str:
  return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _one_line(text: str) -> str:
  return terminal.shown(" ".join(text.split()), limit=240)
