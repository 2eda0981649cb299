"""Joins the processes of one run, and lets them wait for each other and agree.

`cluster.py` finds which process this is, `roll_call.py` names missing processes, and `heartbeat.py` notices when one is
gone or hangs. A run of one process uses the same code and waits for nobody.
"""

import collections
import contextlib
import dataclasses
import json
import math
import os
import re
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence

import gin
import jax
from absl import logging

from xmcap import terminal
from xmcap.errors import RestartError, UsageError, XmcapError
from xmcap.files import refusals
from xmcap.files.bucket_paths import epath
from xmcap.training.hosts import cluster, devices, proxies, watch
from xmcap.training.hosts.heartbeat import BEAT, Alone, Heartbeat
from xmcap.training.hosts.roll_call import roll_call, split_address

# jax would end a process without naming the lost host, so its timeout is later than ours.
_JAX_LATER = 12
_FOLDER_SECONDS = 15  # for a network disk to show a new file
_LOST = re.compile(
  r"gloo|nccl|connection (closed|reset|refused)|socket closed|broken pipe|UNAVAILABLE|heartbeat|unhealthy|"
  r"coordination|barrier timed out|DEADLINE_EXCEEDED|_(complete|finished) barrier",
  re.IGNORECASE,
)


@gin.configurable
@dataclasses.dataclass(frozen=True)
class HostTimeouts:
  """Seconds that the processes of one run wait for each other.

  Attributes:
    start: for all processes to start.
    lost: for a sign of life from another process, which then counts as lost.
    barrier: at a barrier.
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
  """The joined processes of this run: the `names` of the hosts by process number, and the `index` of this one."""

  def __init__(self, names: Sequence[str], index: int, timeouts: HostTimeouts, own_watch: watch.Watch | None):
    self.names = list(names)
    self.index = index
    self.timeouts = timeouts
    self._client = cluster.coordination_client()
    self._turns: collections.Counter[str] = collections.Counter()
    self.heartbeat = Heartbeat(self._client, index, len(names), timeouts.lost, own_watch, self.describe)

  def describe(self, numbers: Sequence[int]) -> str:
    """Names processes: `process 3 (HOST)`, ..."""
    return ", ".join(f"process {number} ({self.names[number]})" for number in numbers)

  def barrier(self, name: str) -> None:
    """Waits for all processes; on a timeout, RestartError names `name` and the missing processes."""
    seconds = self.timeouts.barrier
    self._turns[name] += 1
    try:
      self._client.wait_at_barrier(f"xmcap/{name}/{self._turns[name]}", int(seconds * 1000))
    except jax.errors.JaxRuntimeError as error:
      raise RestartError(
        f"{name}: waited {seconds:g} s for {self.missing(str(error))}; the others are there"
      ) from error

  def agree(self, name: str, mine: str) -> list[str]:
    """Returns every process's `mine`, by process number; all must call this. Raises as `barrier`."""
    folder = f"xmcap/said/{name}/{self._turns[name]}/"
    self._client.key_value_set(f"{folder}{self.index}", mine)
    self.barrier(name)
    said = {int(key.rsplit("/", 1)[1]): said for key, said in self._client.key_value_dir_get(folder)}
    return [said[number] for number in range(len(self.names))]

  def missing(self, text: str) -> str:
    """Names the processes that jax lists by number in a barrier's error message."""
    listed = text.partition("timed out task names:")[2]
    numbers = [int(word) for word in re.findall(r"^(?:.*task:)?(\d+)\s*$", listed, re.MULTILINE)]
    numbers = [number for number in numbers if number < len(self.names)]
    return self.describe(numbers) if numbers else f"another process ({_one_line(text)})"

  def leave(self) -> None:
    """Waits for the others and disconnects; raises as `barrier`."""
    self.barrier("end of the run")
    self.heartbeat.stop()
    jax.distributed.shutdown()


_current: Hosts | None = None


def current() -> Hosts | None:
  """The processes of this run; None if there is only one."""
  return _current


def agree(name: str, mine: str) -> list[str]:
  """`Hosts.agree`; with one process, `[mine]`."""
  return _current.agree(name, mine) if _current else [mine]


def total(name: str, mine: Mapping[str, int]) -> dict[str, int]:
  """Sums counts by name over all processes; all must call this."""
  counts = collections.Counter()
  for said in agree(name, json.dumps(dict(mine))):
    counts.update(json.loads(said))
  return dict(counts)


def here() -> str:
  """Names this process and its host, with one process only the host."""
  return _current.describe([_current.index]) if _current else _host_name()


def barrier(name: str) -> None:
  """`Hosts.barrier`; with one process, nothing."""
  if _current:
    _current.barrier(name)


def check_folder(directory: epath.Path) -> None:
  """Makes a folder inside the run's folder and tries to write there; all processes of the run must call this.

  Raises XmcapError if it cannot be written, or a host does not see what process 0 writes there: a checkpoint whose
  parts are on different disks could not be read.
  """
  folder = directory.parent
  file = folder / agree("name of a test file", f".write-test-{os.getpid()}-{time.time_ns()}")[0]
  try:
    directory.mkdir(parents=True, exist_ok=True)
    if jax.process_index() == 0:
      file.write_text("")
  except OSError as error:
    raise XmcapError(
      f"{directory}: cannot be written ({error.strerror or error}): give a writable folder"
    ) from None
  barrier("test file written")
  deadline = time.monotonic() + _FOLDER_SECONDS
  while not (seen := file.exists()) and time.monotonic() < deadline:
    time.sleep(0.2)
  reports = agree("test file seen", str(seen))
  if jax.process_index() == 0:
    file.unlink()
  if blind := [number for number, report in enumerate(reports) if report != "True"]:
    assert _current is not None  # a single process always sees its own file
    raise XmcapError(
      f"{folder}: {_current.describe(blind)} does not see what process 0 ({_current.names[0]}) writes there: give a"
      " folder that all hosts share, such as gs://... or a network disk"
    )


@contextlib.contextmanager
def joined(
  address: str | None = None,
  count: int | None = None,
  index: int | None = None,
  preemption: bool = True,
  limits: watch.HangLimits | None = None,
) -> Iterator[None]:
  """Joins the processes of the run; enter it before any use of jax.

  A failure of one process ends all with its exit code, and each names the process that failed. RestartError if
  processes are missing at the start or the end, or are lost in between.

  Args:
    address, count, index: see `cluster.find_process`.
    preemption: whether a SIGTERM to one process makes all stop at a common step, by jax's preemption service.
    limits: end all processes when one makes no progress for this long; None: no limits.
  """
  timeouts = HostTimeouts()
  process = cluster.find_process(address, count, index, timeouts.start)
  watch.progress("start" if limits else "")
  own_watch = watch.Watch(limits) if limits else None
  if process is None:
    heartbeat = Heartbeat(Alone(), 0, 1, math.inf, own_watch, lambda _: "this process")
    try:
      yield
    finally:
      heartbeat.stop()
      watch.progress("")
  else:
    yield from _joined(process, preemption, timeouts, own_watch)


def _joined(
  process: cluster.ClusterProcess, preemption: bool, timeouts: HostTimeouts, own_watch: watch.Watch | None
) -> Iterator[None]:
  global _current
  names = roll_call(
    process.coordinator_address, process.num_processes, process.process_id, timeouts.start, _host_name()
  )
  proxies.go_past(split_address(process.coordinator_address)[0], "no_grpc_proxy")
  jax.config.update("jax_enable_preemption_service", preemption)
  jax.config.update("jax_check_proxy_envs", False)  # its warning, that they may hang a start
  # After its own timeout, jax would abort the process.
  overdue = threading.Timer(timeouts.start, _end_overdue, (process, timeouts.start))
  overdue.daemon = True
  overdue.start()
  try:
    jax.distributed.initialize(
      **dataclasses.asdict(process),
      cluster_detection_method="deactivate",
      initialization_timeout=int(timeouts.start) + _JAX_LATER,
      heartbeat_timeout_seconds=int(timeouts.lost) + _JAX_LATER,
    )
  finally:
    overdue.cancel()
  if process.process_id == 0:
    logging.info("%d processes: %s", process.num_processes, ", ".join(names))
  _current = hosts = Hosts(names, process.process_id, timeouts, own_watch)
  try:
    yield
    hosts.leave()
    _current = None
  except Exception as error:
    # If another process is the cause, the heartbeat ends this one.
    hosts.heartbeat.await_end()
    failure = error if isinstance(error, XmcapError) else refusals.explained(error) or as_lost(error)
    if failure is None:
      traceback.print_exc()
      hosts.heartbeat.tell_failure(XmcapError.exit_code, _one_line(f"{type(error).__name__}: {error}"))
      os._exit(XmcapError.exit_code)
    # Gin adds the chain of callers after the first line of an error.
    line = _one_line(str(failure).split("\n  In call to configurable")[0], limit=1000)
    hosts.heartbeat.tell_failure(failure.exit_code, line)
    if failure is error:
      raise
    raise failure from error


def _end_overdue(process: cluster.ClusterProcess, seconds: float) -> None:
  """Ends this process, which all others could reach but whose jax has not connected."""
  names = proxies.proxies()
  proxy = f"; these name a proxy: {', '.join(names)}" if names else ""
  watch.end(
    RestartError.exit_code,
    f"process {process.process_id}: all processes are there, but jax has not connected them for {seconds:g} s: it talks"
    f" gRPC with process 0 at {process.coordinator_address}{proxy}",
  )


def as_lost(error: BaseException) -> RestartError | None:
  """Returns a RestartError if `error`, from jax or Orbax, says that a device failed or a process is gone, else None."""
  if fault := devices.fault(error):
    return RestartError(f"a device of {_host_name()} failed: {fault}")
  is_known = isinstance(error, jax.errors.JaxRuntimeError | OSError | RuntimeError)
  # On CPUs, dispatching a program that has lost a peer raises ValueError.
  if _current is None or not (is_known or (isinstance(error, ValueError) and "Gloo" in str(error))):
    return None
  texts, cause = [], error
  while cause is not None:
    texts.append(str(cause))
    cause = cause.__cause__ or cause.__context__
  text = " ".join(texts)
  if not _LOST.search(text):
    return None
  if "timed out task names:" in text:
    return RestartError(f"timed out waiting for {_current.missing(text)}")
  return RestartError(f"another process of the run is gone ({_one_line(str(error))})")


def _host_name() -> str:
  return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _one_line(text: str, limit: int = 240) -> str:
  return terminal.shown(" ".join(text.split()), limit)
