"""Measures briefly how many pictures per second a stream makes on this host."""

import contextlib
import time
from typing import Any

import gin

from xmcap.data.skipped import SkippedPictures
from xmcap.errors import XmcapError

_BATCHES = 16  # limit in batches of the run: for small pictures they take less than a second


@gin.configurable
def reading_rate(stream: Any, rows: int, start_step: int = 0, seconds: float = 1.0) -> float:
  """Measures how many pictures per second this host makes with all workers of a stream; 0 if it makes none.

  The batches are discarded and not counted in `stream.lost`. An error ends the measurement; the run raises it when it
  reaches that picture. Streams other than `PictureStream` are not measured.

  Args:
    stream: the stream of the run.
    rows: rows of a batch that this process reads.
    start_step: first step of the run; the measurement reads near it.
    seconds: longest time of the measurement; 0 turns it off.
  """
  workers = getattr(stream, "workers", 0)
  if not workers or seconds <= 0:
    return 0.0
  # Small batches, so that the time limit is met, with some pictures for each worker.
  at_once = min(8 * workers, rows)
  trial = stream.resized(at_once)
  trial.counts_losses = False
  trial.skipped = SkippedPictures()  # a bad picture ends the measurement, and is not listed
  trial.begin()
  first, made = start_step * stream.pictures // at_once, 0
  with contextlib.suppress(XmcapError):
    trial.batch(first)  # not counted: it opens files, and may read a dictionary
  began = time.monotonic()
  batches = trial.batches(first, num_steps=-(-_BATCHES * rows // at_once))
  with contextlib.closing(batches), contextlib.suppress(XmcapError):
    for _ in batches:
      made += at_once
      if time.monotonic() - began >= seconds:
        break
  return made / (time.monotonic() - began)
