"""Stops a run early, on a signal or a preemption notice.

A preempted TPU VM gets SIGTERM, and SIGKILL 30 seconds later. If a parent process does not pass signals on, the
metadata server still announces the preemption (https://cloud.google.com/compute/docs/instances/preemptible).
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
from jax.experimental import multihost_utils

from xmcap.training.hosts import watch

NOTICE = "a preemption notice"
_SECONDS = 5  # between two queries of the metadata server


class EvaluationStopped(BaseException):
  """Ends an evaluation because the run was asked to stop; not an `Exception`, so that no evaluator catches it."""


class Stop:
  """Whether a run was asked to stop; `name` is that of the signal or notice, "" if there was none."""

  def __init__(self):
    self.name = ""
    self._looks = 0
    self._stopped = False

  def on_signal(self, number: int, _frame: Any) -> None:
    """Asks the run to stop; a second signal ends the process."""
    signal.signal(number, signal.SIG_DFL)
    self.ask(signal.Signals(number).name)

  def ask(self, name: str) -> None:
    """Asks all processes of the run to stop."""
    self.name = self.name or name
    if jax.process_count() > 1:
      # jax's preemption service tells the others.
      os.kill(os.getpid(), signal.SIGTERM)

  def asked(self) -> bool:
    """Whether to stop now; once True, always True. All processes get the same answer.

    They must ask at the same points: after each step, and between the batches of an evaluation.
    """
    if jax.process_count() == 1:
      return bool(self.name)
    if not self._stopped:
      # jax picks a future number as the point to stop at, so the numbers must have no gaps.
      self._looks += 1
      self._stopped = multihost_utils.reached_preemption_sync_point(self._looks)
    if self._stopped:
      self.name = self.name or "SIGTERM"
    return self._stopped


_current: Stop | None = None


def evaluation_batch(label: str) -> None:
  """Marks progress (`watch.py`) before each batch of an evaluation; EvaluationStopped if the run was asked to stop.

  All processes must call this the same number of times; `label` names the batch, as in `batch 7 of LossEvaluator`.
  """
  watch.progress("evaluation", label)
  stop_if_asked()


def stop_if_asked() -> None:
  """EvaluationStopped if the run was asked to stop; all processes must call this the same number of times."""
  if _current is not None and _current.asked():
    raise EvaluationStopped


@contextlib.contextmanager
def stop_requests() -> Iterator[Stop]:
  """Makes SIGTERM, SIGINT and a preemption notice stop the run after the current step or batch of an evaluation."""
  global _current
  if threading.current_thread() is not threading.main_thread():
    logging.warning("training outside the main thread: no checkpoint is saved on SIGTERM")
    yield Stop()
    return
  _current = stop = Stop()
  # With several processes, jax's own service handles SIGTERM and makes all stop at the same step.
  numbers = (signal.SIGINT,) if jax.process_count() > 1 else (signal.SIGTERM, signal.SIGINT)
  before = {number: signal.signal(number, stop.on_signal) for number in numbers}
  ended = threading.Event()
  if server := metadata_server():
    threading.Thread(target=_await_notice, args=(server, stop, ended), daemon=True).start()
  try:
    yield stop
  finally:
    _current = None
    ended.set()
    for number, handler in before.items():
      signal.signal(number, handler)


def metadata_server() -> str | None:
  """HOST[:PORT] of a TPU VM's metadata server; None elsewhere.

  Pods on GKE have TPUs but no such server; they set TPU_SKIP_MDS_QUERY.
  """
  if address := os.environ.get("GCE_METADATA_HOST"):
    return address
  if jax.default_backend() == "tpu" and "TPU_SKIP_MDS_QUERY" not in os.environ:
    return os.environ.get("GCE_METADATA_IP", "metadata.google.internal")
  return None


def _await_notice(server: str, stop: Stop, ended: threading.Event) -> None:
  opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy reaches this server
  url, headers = f"http://{server}/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"}
  while not ended.wait(_SECONDS):
    # The server may be absent or not answer; SIGTERM still comes.
    with contextlib.suppress(OSError, ValueError):
      with opener.open(urllib.request.Request(url, headers=headers), timeout=_SECONDS) as answer:
        preempted = answer.read().strip() == b"TRUE"
      if preempted and not ended.is_set():
        logging.warning("this machine is being preempted: saving")
        stop.ask(NOTICE)
        return
