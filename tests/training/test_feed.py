"""`feed`: batches of a stream, and a stream that stalls."""

import inspect
import threading

import jax
import pytest

from xmcap.errors import RestartError
from xmcap.files.object_store import ObjectStore
from xmcap.training.feed import Feed
from xmcap.training.loop import train
from xmcap.training.sharding import Partitioning


class Source:
  directory, split = "gs://bucket/coco35l", "train"


class Stream:
  source, num_images, closed = Source(), 1, False

  def __init__(self, batches):
    self.made = batches

  def batches(self, start_step, rows):
    try:
      yield from self.made
    finally:
      self.closed = True


def feed(stream, seconds, folder):
  found = Feed(stream, Partitioning().mesh(jax.devices()[:1]), seconds, folder)
  found.begin(0)
  return found


def test_stalled_stream_is_named(tmp_path):
  stream = Stream(threading.Event().wait() for _ in range(1))
  stalled = feed(stream, 0.1, tmp_path)
  with pytest.raises(
    RestartError, match=r"^step 7: waited 0.1 s for data from Stream \(train of gs://bucket/coco35l\) on"
  ):
    stalled.next(7)
  stalled.close()
  assert not stream.closed, "closing would wait for the read that hangs"


@pytest.mark.parametrize("seconds", [30, 0])
def test_feed_passes_batches_and_errors_in_order(tmp_path, seconds):
  stream = Stream({"x": [float(n)]} for n in range(3))
  found = feed(stream, seconds, tmp_path)
  assert [found.next(n)["x"].item() for n in range(2)] == [0, 1]
  assert not stream.closed
  found.next(2)
  with pytest.raises(StopIteration):
    found.next(3)
  found.close()
  assert stream.closed


def test_a_bucket_names_its_outage_before_the_data_are_overdue():
  waits = inspect.signature(train).parameters["data_timeout"].default
  assert waits >= ObjectStore.seconds + 2 * ObjectStore.timeout_seconds + 60
