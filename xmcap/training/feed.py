"""What feeds a training step: the stream's batches, waited for within a limit, placed on the mesh."""

import os
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from xmcap.data.probe import reading_rate
from xmcap.training import sharding
from xmcap.training.hosts import stall, watch


class Feed:
  """The batches of a stream, of which this process reads and places its rows.

  Args:
    stream: see `loop.train`.
    mesh: of `Partitioning`.
    timeout: seconds to wait for a batch; 0: for ever.
    model_dir: pictures that the stream skips are listed in this folder.

  Raises:
    UsageError: the pictures of a batch do not divide over the mesh.
  """

  def __init__(self, stream: Any, mesh: Mesh, timeout: float, model_dir: str | os.PathLike):
    self.stream = stream
    self.mesh = mesh
    self.rows = sharding.process_rows(mesh, stream.pictures)
    self.seconds_waited = 0.0
    self._patience = stall.Patience(timeout, stall.describe(stream))
    self._batches: Any = None
    if skipped := getattr(stream, "skipped", None):
      skipped.list_in(os.path.join(model_dir, f"skipped-pictures-{jax.process_index()}.jsonl"))

  def sample(self) -> dict[str, np.ndarray]:
    """The numeric arrays of the first batch, for their shapes."""
    batch = self._patience.call(lambda: self.stream.batch(0, self.rows), "start")
    return {name: array for name, array in batch.items() if np.asarray(array).dtype.kind in "biuf"}

  def reading_rate(self, start_step: int) -> float:
    """Pictures a second that this host can read, tried for a moment; 0: unknown."""
    return self._patience.call(lambda: reading_rate(self.stream, len(self.rows), start_step), "start")

  def begin(self, start_step: int) -> None:
    """Begins to read ahead at a step."""
    self._batches = self.stream.batches(start_step, self.rows)

  def next(self, step: int) -> dict[str, jax.Array]:
    """The next batch, on the devices; `seconds_waited` says how long the host took to have it.

    Raises:
      RestartError: it takes longer than the timeout; the message names the step.
    """
    began = time.monotonic()
    batch: Mapping[str, np.ndarray] = self._patience.call(lambda: next(self._batches), f"step {step}")
    self.seconds_waited = time.monotonic() - began
    watch.progress("step", f"step {step}")  # a device may hang while the batch is placed
    return sharding.put_batch(batch, self.mesh, self.stream.pictures, self.rows)

  def close(self) -> None:
    """Ends the reading."""
    self._patience.close(self._batches)
