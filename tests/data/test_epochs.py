"""Length of an epoch: the examples of a split, and steps from epochs."""

import pytest

from tests.make import small_corpus
from xmcap.data import epochs
from xmcap.errors import UsageError


class Source:
  """5,000 pictures with five captions in each of three languages, the last with one fewer."""

  def __init__(self):
    self.read_indices = []

  def __len__(self):
    return 5_000

  def iterate(self, indices):
    self.read_indices += list(indices)
    return [
      small_corpus.record(0, ("de", "en", "th"), captions=5 - (index == len(self) - 1)) for index in indices
    ]


class Stream:
  def __init__(self):
    self.source, self.languages, self.num_images, self.captions_per_image = Source(), ("de", "th"), 100, 2


def test_epochs_of_a_large_split_are_counted_by_a_sample():
  stream = Stream()
  assert epochs.examples(stream) == 49_990  # 9,998 captions in 1,000 pictures, times 5
  assert len(stream.source.read_indices) == 1_000
  assert epochs.epochs(stream, 2) == 500


def test_epochs_of_a_stream_without_captions_count_images():
  stream = Stream()
  del stream.languages, stream.captions_per_image
  assert epochs.epochs(stream, 1) == 50
  assert stream.source.read_indices == []


@pytest.mark.parametrize("count", [0, -1])
def test_epoch_count_below_1_is_refused(count):
  with pytest.raises(UsageError, match="epochs.count is"):
    epochs.epochs(Stream(), count)
