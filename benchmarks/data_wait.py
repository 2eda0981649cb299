"""The share of a run's time in which the device waits for data, against a run that reads one batch again and again.

usage: python benchmarks/data_wait.py
Trains the tiny model of quickstart.sh for 300 steps twice in one process: from the stream, and from one fixed batch.
"""

import itertools
import tempfile

import common
import report

from xmcap.data.stream import CaptionStream
from xmcap.training import loop
from xmcap.training.hooks import hooks
from xmcap.training.reporting.writers import Writers

_STEPS = 300


class _SameBatch:
  """A stream that costs nothing: the batch of step 0 at every step."""

  def __init__(self, stream: CaptionStream):
    self.pictures = stream.pictures
    self._batch = stream.batch(0)

  def batch(self, step, rows=None):
    return self._batch

  def batches(self, start_step=0, rows=None):
    return itertools.repeat(self._batch)


def train(stream) -> dict[str, float]:
  """The metrics of the last two thirds of a run (the first third compiles)."""
  with tempfile.TemporaryDirectory() as model_dir:
    result = loop.train(
      model_dir=model_dir, stream=stream, total_steps=_STEPS, hooks=hooks(log_every=_STEPS * 2 // 3), pretrained=(),
      writers=Writers(tensorboard=False), say=lambda line: None,
    )  # fmt: skip
  return result.metrics


def main():
  common.configure(
    "CaptionStream.bucket_window=1", "CaptionStream.target_lengths=(24,)", "CheckpointPolicy.every=0"
  )
  streamed = train(CaptionStream())
  repeated = train(_SameBatch(CaptionStream()))
  print(f"waiting for data: {streamed['waiting_for_data']:.1%} of the time")
  ratio = streamed["captions_per_second"] / repeated["captions_per_second"]
  print(f"ratio of captions/s, stream / one batch again and again: {ratio:.2f}")
  report.write(
    "data_wait",
    "Time spent waiting for data (tiny model)",
    [
      ("share of time that the device waits", f"{streamed['waiting_for_data']:.1%}"),
      ("captions per second, stream / the same batch repeated", f"{ratio:.2f}"),
    ],
  )


if __name__ == "__main__":
  main()
