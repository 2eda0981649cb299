import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tests.make.tiny_corpus import NUM_PICTURES, SIDE, tiny_record, write_corpus
from xmcap.data.stream import CaptionStream
from xmcap.data.workers import reading_rate


def captions(corpus, **options) -> CaptionStream:
  return CaptionStream(
    corpus.name, **{"batch_size": 6, "target_length": 24, "image_size": SIDE, "processes": False, **options}
  )


def reading(stream, monkeypatch) -> list[int]:
  """The indices of the records that are read from here on."""
  read = []
  iterate = stream.source.iterate
  monkeypatch.setattr(
    stream.source, "iterate", lambda indices, parse: read.extend(indices) or iterate(indices, parse)
  )
  return read


def test_reading_rate_reads_the_steps_of_the_run(tiny, monkeypatch):
  stream = captions(tiny, workers=2, target_length=3)
  read = reading(stream, monkeypatch)
  assert reading_rate(stream, 6, start_step=5, seconds=60) > 0
  # Turns of 16 batches, one after the other.
  turns = len(read) // (16 * 6)
  assert 3 <= turns <= 5
  assert sorted(read) == sorted(stream.indices(np.arange(5 * 6, (5 + 16 * turns) * 6)))
  assert stream.lost == {} and stream.num_images == 6
  assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
  stream.batch(0)
  assert stream.lost["captions truncated at the target length"] > 0


def test_reading_rate_ends_after_its_seconds(tiny, monkeypatch):
  stream = captions(tiny, workers=1, batch_size=NUM_PICTURES, depth=2)
  read = reading(stream, monkeypatch)
  assert reading_rate(stream, NUM_PICTURES, seconds=1e-9) > 0
  # Of each turn the first part, and what was begun beside it.
  assert len(read) <= 5 * 8 * (1 + 2)


class SlowAtFirst:
  """Makes a batch in a millisecond, but those of some steps in a fifth of a second, as a dictionary takes."""

  workers, lanes, num_images = 1, 1, 4

  def __init__(self, *slow_steps):
    self.slow_steps = slow_steps
    self.maker = SimpleNamespace(uncounted=lambda: None)

  def resized(self, images):
    return self

  def begin(self):
    pass

  def batches(self, start_step, num_steps):
    for step in range(start_step, start_step + num_steps):
      time.sleep(0.2 if step in self.slow_steps else 0.001)
      yield step


@pytest.mark.parametrize("slow_steps", [(), (0,), (1,), (16,), (3, 17)])
def test_reading_rate_leaves_out_what_workers_read_once(slow_steps):
  assert reading_rate(SlowAtFirst(*slow_steps), 4, seconds=10) > 1000


def test_reading_rate_of_0_seconds_reads_nothing(tiny, monkeypatch):
  stream = captions(tiny)
  read = reading(stream, monkeypatch)
  assert reading_rate(stream, 6, seconds=0) == 0
  assert not read


def test_reading_rate_of_an_unknown_stream_is_0():
  assert reading_rate(object(), 6) == 0


@pytest.mark.parametrize("bad", [[3], range(4)])
def test_reading_rate_leaves_undecodable_images_to_the_run(tmp_path, register, bad):
  pictures = [tiny_record(index) for index in range(4)]
  for index in bad:
    pictures[index].image = pictures[index].image[:40]
  stream = captions(register(write_corpus(tmp_path, pictures)), batch_size=1, workers=1)
  indices = stream.indices(np.arange(16))
  before = next(step for step in range(15) if indices[step] != 3 and indices[step + 1] == 3)
  assert (reading_rate(stream, 1, start_step=before) > 0) == (0 not in bad)
