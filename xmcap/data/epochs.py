"""Converts epochs to steps."""

import functools
from typing import Any

import gin

from xmcap.data.mixture import StreamPart, parts_of
from xmcap.data.records import RecordSource, spread
from xmcap.errors import UsageError

_SAMPLE = 1_000  # images; reading a split of 100 GB to count it would take too long


@gin.configurable
def epochs(stream: Any = gin.REQUIRED, count: float = 1) -> int:
  """Returns the number of steps for `count` epochs, for `train.total_steps`.

  An epoch is a pass over the captions, as in Thapliyal et al. (2022) and in seqio: with one caption per image and step,
  an image with five captions in 35 languages is shown 175 times. In a stream without captions, an epoch shows each
  image once. An epoch of several corpora has as many captions as all of them together, whatever their rates.

  Args:
    stream: the stream of the run.
    count: number of epochs.
  """
  if not count > 0:
    raise UsageError(f"epochs.count is {count}: give a number above 0")
  return max(1, round(count * examples(stream) / batch_size(stream)))


def examples(stream: Any) -> int:
  """Returns the number of captions in a stream's split, languages and sources, or of images if it has no captions.

  For more than 1,000 images of a corpus it is an estimate from 1,000 evenly spaced ones, exact if all have equally
  many captions.
  """
  if not hasattr(stream, "languages"):
    return len(stream.source if hasattr(stream, "source") else stream)  # pairs of texts have no records
  return sum(
    _captions(part.source, frozenset(part.weights), frozenset(part.sources)) for part in parts_of(stream)
  )


def batch_size(stream: Any) -> int:
  """Returns the captions per global batch; images, if the stream has no captions."""
  return stream.num_images * getattr(stream, "captions_per_image", 1)


@functools.lru_cache(maxsize=8)
def _captions(source: RecordSource, languages: frozenset[str], sources: frozenset[str]) -> int:
  sample = spread(source, _SAMPLE)
  part = StreamPart("", source, dict.fromkeys(languages, 1.0), tuple(sources))
  counted = sum(len(part.captions(record)) for record in source.iterate(sample))
  return max(1, round(counted * len(source) / len(sample)))
