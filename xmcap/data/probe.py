"""A short try of how many pictures a second a stream makes on this host."""

import contextlib
import time
from typing import Any

import gin

from xmcap.data.skipped import SkippedPictures
from xmcap.errors import XmcapError

_BATCHES = 16  # of the run: a stream of small pictures needs no whole second


@gin.configurable
def reading_rate(stream: Any, rows: int, start_step: int = 0, seconds: float = 1.0) -> float:
  """Tries how many pictures a second this host makes with all the workers of a stream; 0 where none were made.

  The batches are thrown away, and nothing of them is counted in `stream.lost`. An error ends the try, and is raised
  when the run comes to that picture. A stream that is no `PictureStream` is not tried.

  Args:
    stream: of the run.
    rows: of a batch, read by this process.
    start_step: of the run; the try reads about here.
    seconds: longest time of the try; 0: none is made.
  """
  workers = getattr(stream, "workers", 0)
  if not workers or seconds <= 0:
    return 0.0
  # Few enough pictures at a time that the try can end, and some for each worker.
  at_once = min(8 * workers, rows)
  trial = stream.resized(at_once)
  trial.counts_losses = False
  trial.skipped = SkippedPictures()  # ends the try at a bad picture, and lists nothing
  made = 0
  began = time.monotonic()
  batches = trial.batches(start_step * stream.pictures // at_once, num_steps=-(-_BATCHES * rows // at_once))
  with contextlib.closing(batches), contextlib.suppress(XmcapError):
    for _ in batches:
      made += at_once
      if time.monotonic() - began >= seconds:
        break
  return made / (time.monotonic() - began)
