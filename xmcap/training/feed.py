"""Feeds the training step: waits for the stream's batches, with a timeout, and places them on the mesh."""

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

from xmcap.data.workers import reading_rate
from xmcap.errors import RestartError
from xmcap.files import ramp
from xmcap.training import sharding
from xmcap.training.hosts import watch


class Feed:
  """The batches of a stream (see `loop.train`). This process reads and places only its own rows.

  It waits at most `timeout` seconds for a batch (0: no limit), and lists images that the stream skips in `model_dir`.
  """

  def __init__(self, stream: Any, mesh: Mesh, timeout: float, model_dir: str | os.PathLike):
    self.stream = stream
    self.mesh = mesh
    self.timeout = timeout
    self.rows = sharding.process_rows(mesh, stream.num_images)
    self.seconds_waited = 0.0
    self._stalled = False
    self._batches: Any = None
    ramp.share(jax.process_count())
    if skipped := getattr(stream, "skipped", None):
      skipped.list_in(os.path.join(model_dir, f"skipped-pictures-{jax.process_index()}.jsonl"))

  def sample(self) -> dict[str, np.ndarray]:
    """The numeric arrays of the first batch, used for their shapes."""
    return sharding.numeric(self._wait_for(lambda: self.stream.batch(0, self.rows), "start"))

  def reading_rate(self, start_step: int) -> float:
    """Images per second that this host can read, measured briefly; 0 if unknown."""
    return self._wait_for(lambda: reading_rate(self.stream, len(self.rows), start_step), "start")

  def begin(self, start_step: int) -> None:
    """Starts to read ahead from `start_step`."""
    self._batches = self.stream.batches(start_step, self.rows)

  def next(self, step: int) -> dict[str, jax.Array]:
    """The next batch, on the devices. Sets `seconds_waited` to the time that the host waited for it.

    Raises:
      RestartError: no batch came within the timeout.
    """
    began = time.monotonic()
    batch = self._wait_for(lambda: next(self._batches), f"step {step}")
    self.seconds_waited = time.monotonic() - began
    watch.progress("step", f"step {step}")  # a device may hang while the batch is placed
    return sharding.put_batch(batch, self.mesh, self.stream.num_images, self.rows)

  def close(self) -> None:
    """Stops reading ahead, unless a read hangs."""
    if self._stalled:
      return
    for reader in (self._batches, self.stream):
      if hasattr(reader, "close"):
        reader.close()

  def _wait_for(self, read: Callable[[], Any], when: str) -> Any:
    result = futures.Future()

    def work() -> None:
      try:
        result.set_result(read())
      except BaseException as error:
        result.set_exception(error)

    # A daemon thread, so that a hanging read does not keep the process alive.
    threading.Thread(target=work, name="data", daemon=True).start()
    with watch.during("data", f"waiting for data: {when}"):
      done, _ = futures.wait([result], self.timeout or None)
    if done:
      return result.result()
    self._stalled = True
    watch.write_stacks(f"{when}: no data came")
    raise RestartError(
      f"{when}: waited {self.timeout:g} s for data from {self._source()} on {socket.gethostname()}: check that its"
      " storage can be reached (train.data_timeout sets the limit); saved checkpoints are kept"
    )

  def _source(self) -> str:
    name = type(self.stream).__name__
    source: Any = getattr(self.stream, "source", None)
    return f"{name} ({source.split} of {source.directory})" if hasattr(source, "directory") else name
