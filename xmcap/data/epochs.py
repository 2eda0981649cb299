"""The length of a run in passes over the captions of its corpus."""

import functools
from typing import Any

import gin

from xmcap.data.records import RecordSource, spread
from xmcap.errors import UsageError

_SAMPLE = 1_000  # pictures; a split of 100 GB should not be read to count it


@gin.configurable
def epochs(stream: Any = gin.REQUIRED, count: float = 1) -> int:
  """The steps in which a stream gives `count` times as many captions as its split holds: a `train.total_steps`.

  An epoch is of captions, as in Thapliyal et al. (2022) and in seqio: with one caption an image a step, a picture with
  five captions in 35 languages comes up 175 times. An epoch of a stream without captions shows each picture once.

  Args:
    stream: of the run.
    count: epochs.
  """
  if not count > 0:
    raise UsageError(f"epochs.count is {count}: give a number above 0")
  return max(1, round(count * examples(stream) / batch_size(stream)))


def examples(stream: Any) -> int:
  """The captions in a stream's split and languages, or its pictures if it has no captions.

  Of more than 1,000 pictures, 1,000 evenly spaced ones are counted: an estimate, exact where all have as many captions.
  """
  if not hasattr(stream, "languages"):
    return len(stream.source)
  return _captions(stream.source, frozenset(stream.languages))


def batch_size(stream: Any) -> int:
  """Captions in a batch of all hosts; pictures, if the stream has no captions."""
  return stream.pictures * getattr(stream, "captions_per_image", 1)


@functools.lru_cache(maxsize=8)
def _captions(source: RecordSource, languages: frozenset[str]) -> int:
  sample = spread(source, _SAMPLE)
  counted = sum(
    caption.language in languages for record in source.iterate(sample) for caption in record.captions
  )
  return max(1, round(counted * len(source) / len(sample)))
