"""How the batches of a stream are made: on threads or in processes, with a count of what they lost."""

import copy
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from absl import logging

from xmcap import processes as processes_lib
from xmcap.data import workers as workers_lib
from xmcap.data.skipped_images import SkippedImages
from xmcap.data.workers import Decoders
from xmcap.errors import UsageError, XmcapError

UNDECODABLE = "pictures that cannot be decoded"


class BatchRows(NamedTuple):
  """N rows of a batch without what it has of the images.

  `keys` are those of the images, `fields` has the arrays [N, ...] by name, `lost` the keys of the images that lost
  something, by reason, and `undecodable` those that cannot be decoded, with the error.
  """

  keys: Sequence[str]
  fields: Mapping[str, np.ndarray]
  lost: Mapping[str, Sequence[str]]
  undecodable: Mapping[str, str]


def weights_of(keys: Sequence[str], counted: np.ndarray, undecodable: Collection[str]) -> np.ndarray:
  """Returns float32 [N]: 0 for images that cannot be decoded or are not counted, else 1."""
  return np.array([key not in undecodable for key in keys], np.float32) * counted


def choose_workers(stream: Any, can_use_processes: bool) -> tuple[int, bool]:
  """Returns `workers` and `processes` of a stream, where it leaves the choice; UsageError if it has no such choice."""
  cores, workers, processes = processes_lib.available_cores(), stream.workers, stream.processes
  able = can_use_processes and hasattr(os, "memfd_create")
  if processes and not able:
    raise UsageError(
      f"{type(stream).__name__}.processes: processes make batches only on Linux, where pictures are decoded, and for a "
      "CaptionStream or TagStream: leave it out"
    )
  if processes is None:
    # A class of the caller's program cannot be imported in another process.
    processes = able and cores >= workers_lib.CORES and type(stream).__module__ != "__main__"
    workers = workers or (min(cores, workers_lib.MOST) if processes else cores)
  return workers or cores, processes


class BatchMaker:
  """The threads or processes of a stream, and what the batches lost that they made.

  Args:
    workers: number of threads or processes.
    decoders: the processes, which start when they are needed; None: threads.
    skipped: treats images that cannot be decoded.

  Attributes: as the arguments.
  """

  def __init__(self, workers: int, decoders: Decoders | None, skipped: SkippedImages):
    self.workers = workers
    self.decoders = decoders
    self.skipped = skipped
    self._counts = True
    self._lock = threading.Lock()
    self._lost: dict[str, int] = {}

  def apart(self) -> Self:
    """Returns one with the same workers, which counts for itself."""
    maker = copy.copy(self)
    maker.skipped, maker._lost = SkippedImages(self.skipped.on_bad, self.skipped.limit), {}
    return maker

  def uncounted(self) -> Self:
    """Returns one for a trial: with the same workers, it counts nothing, and ends at an image that it cannot decode."""
    maker = self.apart()
    maker.skipped, maker._counts = SkippedImages(), False
    return maker

  def in_threads(self) -> Self:
    """Returns one that uses threads, and counts with this one."""
    maker = copy.copy(self)
    maker.decoders = None
    return maker

  def count(self, parts: Sequence[BatchRows]) -> None:
    """Counts what the parts of a batch lost; XmcapError as `SkippedImages.add`."""
    for rows in parts:
      for key, reason in rows.undecodable.items():
        self.skipped.add(key, XmcapError(reason))
      for reason, keys in {UNDECODABLE: [*rows.undecodable], **rows.lost}.items():
        self._count(reason, keys)

  def _count(self, reason: str, keys: Sequence[str]) -> None:
    """Counts losses, one per key, and logs the first with a reason."""
    if not keys or not self._counts:
      return
    with self._lock:
      is_first = reason not in self._lost
      self._lost[reason] = self._lost.get(reason, 0) + len(keys)
    if is_first:
      logging.warning("%s: first in picture %s; later ones are only counted", reason, keys[0])

  @property
  def lost(self) -> dict[str, int]:
    """Reason -> number of losses in the batches made so far, including prefetched ones."""
    with self._lock:
      return dict(self._lost)
