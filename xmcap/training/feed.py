"""What feeds a training step: the stream's batches, waited for within a limit, placed on the mesh."""

import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from xmcap.data.probe import reading_rate
from xmcap.errors import RestartError
from xmcap.training import sharding
from xmcap.training.hosts import watch


class Feed:
  """The batches of a stream (see `loop.train`), of which this process reads and places its rows.

  It waits `timeout` seconds for a batch (0: for ever), and lists pictures that the stream skips in `model_dir`.
  """

  def __init__(self, stream: Any, mesh: Mesh, timeout: float, model_dir: str | os.PathLike):
    self.stream = stream
    self.mesh = mesh
    self.timeout = timeout
    self.rows = sharding.process_rows(mesh, stream.pictures)
    self.seconds_waited = 0.0
    self._stalled = False
    self._batches: Any = None
    if skipped := getattr(stream, "skipped", None):
      skipped.list_in(os.path.join(model_dir, f"skipped-pictures-{jax.process_index()}.jsonl"))

  def sample(self) -> dict[str, np.ndarray]:
    """The numeric arrays of the first batch, for their shapes."""
    return sharding.numeric(self._wait_for(lambda: self.stream.batch(0, self.rows), "start"))

  def reading_rate(self, start_step: int) -> float:
    """Pictures a second that this host can read, tried for a moment; 0: unknown."""
    return self._wait_for(lambda: reading_rate(self.stream, len(self.rows), start_step), "start")

  def begin(self, start_step: int) -> None:
    """Begins to read ahead at a step."""
    self._batches = self.stream.batches(start_step, self.rows)

  def next(self, step: int) -> dict[str, jax.Array]:
    """The next batch, on the devices; `seconds_waited` says how long the host took to have it.

    Raises:
      RestartError: it takes longer than the timeout; the message names the step.
    """
    began = time.monotonic()
    batch = self._wait_for(lambda: next(self._batches), f"step {step}")
    self.seconds_waited = time.monotonic() - began
    watch.progress("step", f"step {step}")  # a device may hang while the batch is placed
    return sharding.put_batch(batch, self.mesh, self.stream.pictures, self.rows)

  def close(self) -> None:
    """Ends the reading, unless a read hangs."""
    if not self._stalled and hasattr(self._batches, "close"):
      self._batches.close()

  def _wait_for(self, read: Callable[[], Any], when: str) -> Any:
    result = futures.Future()

    def work() -> None:
      try:
        result.set_result(read())
      except BaseException as error:
        result.set_exception(error)

    # A daemon, so that a read that never returns does not keep the process alive.
    threading.Thread(target=work, name="data", daemon=True).start()
    with watch.during("data", f"waiting for data: {when}"):
      done, _ = futures.wait([result], self.timeout or None)
    if done:
      return result.result()
    self._stalled = True
    watch.write_stacks(f"{when}: no data came")
    raise RestartError(
      f"{when}: waited {self.timeout:g} s for data from {self._source()} on {socket.gethostname()}: is its storage"
      " within reach? train.data_timeout is the limit; what was saved before stays"
    )

  def _source(self) -> str:
    name = type(self.stream).__name__
    source: Any = getattr(self.stream, "source", None)
    return f"{name} ({source.split} of {source.directory})" if hasattr(source, "directory") else name
