"""Converts epochs to steps."""

import functools
from typing import Any

import gin

from xmcap.data.records import RecordSource, spread
from xmcap.errors import UsageError

_SAMPLE = 1_000  # pictures; reading a split of 100 GB to count it would take too long


@gin.configurable
def epochs(stream: Any = gin.REQUIRED, count: float = 1) -> int:
  """Returns the number of steps for `count` epochs, for `train.total_steps`.

  An epoch is a pass over the captions, as in Thapliyal et al. (2022) and in seqio: with one caption per image and step,
  a picture with five captions in 35 languages is shown 175 times. In a stream without captions, an epoch shows each
  picture once.

  Args:
    stream: the stream of the run.
    count: number of epochs.
  """
  if not count > 0:
    raise UsageError(f"epochs.count is {count}: give a number above 0")
  return max(1, round(count * examples(stream) / batch_size(stream)))


def examples(stream: Any) -> int:
  """Returns the number of captions in a stream's split and languages, or of pictures if it has no captions.

  For more than 1,000 pictures it is an estimate from 1,000 evenly spaced ones, exact if all have equally many captions.
  """
  if not hasattr(stream, "languages"):
    return len(stream.source)
  return _captions(stream.source, frozenset(stream.languages))


def batch_size(stream: Any) -> int:
  """Returns the captions per global batch; pictures, if the stream has no captions."""
  return stream.pictures * getattr(stream, "captions_per_image", 1)


@functools.lru_cache(maxsize=8)
def _captions(source: RecordSource, languages: frozenset[str]) -> int:
  sample = spread(source, _SAMPLE)
  counted = sum(
    caption.language in languages for record in source.iterate(sample) for caption in record.captions
  )
  return max(1, round(counted * len(source) / len(sample)))
