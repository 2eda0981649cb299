"""The length of a run in passes over the captions of its corpus."""

import functools
from typing import Any

import gin
import numpy as np

from xmcap.data.records import RecordSource
from xmcap.errors import UsageError

_SAMPLE = 1_000  # pictures; more are not read, for a split of 100 GB should not be read to count it


@gin.configurable
def epochs(stream: Any = gin.REQUIRED, count: float = 1) -> int:
  """The steps in which a stream gives as many captions as its split holds, times `count`: a `train.total_steps`.

  An epoch is of captions, as in Thapliyal et al. (2022) and in seqio, not of pictures: with one caption an image
  a step, a picture with five captions in 35 languages comes up 175 times.

  Args:
    stream: a `CaptionStream`, or a stream of pictures alone: then an epoch shows each picture once.
    count: of epochs, above 0.

  Raises:
    UsageError: `count` is not above 0, or the corpus is not there.
    XmcapError: a record cannot be read.
  """
  if not count > 0:
    raise UsageError(f"epochs.count is {count}: give a number above 0")
  return max(1, round(count * examples(stream) / batch_size(stream)))


def examples(stream: Any) -> int:
  """What an epoch of a stream holds: the captions of its split in its languages; pictures, if it has none.

  Of more than 1,000 pictures, 1,000 evenly spaced ones are counted, and the sum is an estimate: always the same, and
  exact where all pictures have as many.
  """
  if not hasattr(stream, "languages"):
    return len(stream.source)
  return _captions(stream.source, frozenset(stream.languages))


def batch_size(stream: Any) -> int:
  """Captions in a batch of all hosts; pictures, if the stream has no captions."""
  return stream.pictures * getattr(stream, "captions_per_image", 1)


@functools.lru_cache(maxsize=8)
def _captions(source: RecordSource, languages: frozenset[str]) -> int:
  sample = np.unique(np.linspace(0, len(source) - 1, min(len(source), _SAMPLE)).astype(np.int64))
  counted = sum(
    caption.language in languages
    for start in range(0, len(sample), 64)  # pictures are read with their captions: not all at once
    for record in source.read(sample[start : start + 64])
    for caption in record.captions
  )
  return max(1, round(counted * len(source) / len(sample)))
