"""What asks a run to stop before its end: signals, and the notice that a rented machine is taken back.

A preempted TPU VM is shut down like any machine: its processes get SIGTERM and, 30 seconds later, SIGKILL. The metadata
server says the same (https://cloud.google.com/compute/docs/instances/preemptible), and also to a process whose parent
keeps signals to itself. Kubernetes and SLURM send SIGTERM.
"""

import contextlib
import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import jax
from absl import logging

from xmcap.training.hosts import watch

NOTICE = "a preemption notice"
_PREEMPTED = "/computeMetadata/v1/instance/preempted?wait_for_change=true&timeout_sec=60&last_etag="


class EvaluationStopped(BaseException):
  """An evaluation is left before its end, because the run is asked to stop.

  The evaluation's hook catches it. It is no `Exception`, so that an evaluator that catches those does not.
  """


class Stop:
  """Whether something has asked the run to end.

  Attributes:
    name: of what asked; "" where nothing has.
  """

  def __init__(self):
    self.name = ""
    self._looks = 0
    self._stopped = False

  def note(self, number: int, _frame: Any) -> None:
    self.name = self.name or signal.Signals(number).name
    # Asked twice, a process that hangs must end.
    signal.signal(number, signal.SIG_DFL)
    if jax.process_count() > 1:
      os.kill(os.getpid(), signal.SIGTERM)

  def asked(self) -> bool:
    """Whether to end now: of several processes, the same answer for all. Once it is True it stays so.

    All processes look at the same points: after each step, and between the batches of an evaluation.
    """
    if self._stopped or jax.process_count() == 1:
      return self._stopped or bool(self.name)
    # jax agrees on a look that no process has come to yet: the largest number that one has named, plus one. So a number
    # that is left out, as when only steps were counted, might be the one.
    self._looks += 1
    from jax.experimental import multihost_utils

    self._stopped = multihost_utils.reached_preemption_sync_point(self._looks)
    if self._stopped:
      self.name = self.name or "SIGTERM"
    return self._stopped


_current: Stop | None = None


def evaluation_batch(what: str) -> None:
  """Before each batch of an evaluation: marks the progress (`watch.py`), and within a training run looks for a stop.

  Args:
    what: names the batch, such as `batch 7 of LossEvaluator`. All processes of a run must come here equally often.

  Raises:
    EvaluationStopped: the run is asked to stop.
  """
  watch.progress("evaluation", what)
  if _current is not None and _current.asked():
    raise EvaluationStopped


@contextlib.contextmanager
def stop_requests() -> Iterator[Stop]:
  """SIGTERM, SIGINT and a preemption notice end the loop after the step that runs, or the batch of an evaluation;
  a second signal ends the process."""
  global _current
  with _signals() as stop:
    _current = stop
    try:
      yield stop
    finally:
      _current = None


@contextlib.contextmanager
def _signals() -> Iterator[Stop]:
  stop = Stop()
  if threading.current_thread() is not threading.main_thread():
    logging.warning("training outside the main thread: SIGTERM will not save")
    yield stop
    return
  # With several processes JAX's own service watches for SIGTERM and agrees on the step.
  numbers = (signal.SIGINT,) if jax.process_count() > 1 else (signal.SIGTERM, signal.SIGINT)
  before = {number: signal.signal(number, stop.note) for number in numbers}
  ended = threading.Event()
  if server := metadata_server():
    threading.Thread(target=_watch, args=(server, stop, ended), name="preemption", daemon=True).start()
  try:
    yield stop
  finally:
    ended.set()
    for number, handler in before.items():
      signal.signal(number, handler)


def metadata_server() -> str | None:
  """HOST[:PORT] of the server that tells a TPU VM about itself; None on any other machine.

  GKE's pods see TPUs, but no such server: their TPU_SKIP_MDS_QUERY says so.
  """
  if given := os.environ.get("GCE_METADATA_HOST"):
    return given
  if jax.default_backend() == "tpu" and "TPU_SKIP_MDS_QUERY" not in os.environ:
    return os.environ.get("GCE_METADATA_IP", "metadata.google.internal")
  return None


def _watch(server: str, stop: Stop, ended: threading.Event) -> None:
  # No proxy: the server is known to this machine alone.
  opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
  etag = "0"
  while not ended.is_set():
    request = urllib.request.Request(
      f"http://{server}{_PREEMPTED}{etag}", headers={"Metadata-Flavor": "Google"}
    )
    try:
      with opener.open(request, timeout=90) as answer:
        etag, preempted = answer.headers.get("ETag", "0"), answer.read().decode().strip() == "TRUE"
    except (OSError, ValueError):
      # Absent on some machines, silent at times; SIGTERM comes all the same.
      ended.wait(5)
      continue
    if preempted and not ended.is_set():
      logging.warning("this machine is being preempted: saving")
      stop.name = stop.name or NOTICE
      if jax.process_count() > 1:
        os.kill(os.getpid(), signal.SIGTERM)
      return
