"""How many pictures a second a stream makes on this host, tried for a moment."""

import time
from typing import Any

import gin

from xmcap.data.skipped import SkippedPictures
from xmcap.errors import XmcapError

_BATCHES = 16  # of the run: a stream of small pictures needs no whole second


@gin.configurable
def reading_rate(stream: Any, rows: int, start_step: int = 0, seconds: float = 1.0) -> float:
  """Tries how many pictures a second this host makes with all the workers of a stream.

  What is made is thrown away, and nothing of it is counted in `stream.lost`: a stream has no state, so that the run
  reads the same afterwards, with or without a try.

  Args:
    stream: a `PictureStream`; of another kind of stream nothing is known.
    rows: of a batch, read by this process.
    start_step: where the run goes on; about here the try reads.
    seconds: that it lasts at most; 0: none is made.

  Returns:
    Pictures a second; 0 where none were made. An error ends the try, and is raised when the run comes to that picture.
  """
  workers = getattr(stream, "workers", 0)
  if not workers or seconds <= 0:
    return 0.0
  # Little enough at a time that the try can end, and something for each worker.
  at_once = min(8 * workers, rows)
  trial = stream.resized(at_once)
  trial.counts_losses = False
  # A picture that cannot be decoded ends the try; the run says it, and once.
  trial.skipped = SkippedPictures()
  made = 0
  began = time.monotonic()
  batches = trial.batches(start_step * stream.pictures // at_once, num_steps=-(-_BATCHES * rows // at_once))
  try:
    for _ in batches:
      made += at_once
      if time.monotonic() - began >= seconds:
        break
  except XmcapError:
    pass
  finally:
    batches.close()
  return made / (time.monotonic() - began)
