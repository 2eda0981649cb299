"""The share of a run's time in which the device waits for data: from this machine, and from a bucket.

usage: python benchmarks/data_wait.py [--model=tiny|bb --data=FOLDER --steps=N --ks K ... --gin NAME=VALUE ...
                                       --json=FILE]
Trains in one process on emoji36: from the stream, and from one fixed batch. Without options, it is the tiny model of
quickstart.sh for 300 steps. On a GPU, benchmarks/gpu gives it BB, which reads larger pictures and is much faster.

Without --json it also trains from an object store on loopback, another process that takes 30 ms for a request: with no
cache, and with a cache of 16 MB, which holds a part of the corpus.
"""

import argparse
import itertools
import json
import pathlib
import tempfile
from collections.abc import Sequence

import common
import gin
import photographs
import report

from xmcap import configuration
from xmcap.data.stream import CaptionStream
from xmcap.files.range_cache import RecordCache
from xmcap.training import loop
from xmcap.training.hooks import hooks
from xmcap.training.reporting.writers import Writers
from xmcap.training.run import Start

# Compiled as one layer: that takes a tenth of the time.
_BB = (
  "BATCH_SIZE=128",
  "TARGET_LENGTH=32",
  "T5Config.vocab_size=250112",
  "ViTConfig.scan=True",
  "T5Config.scan=True",
)


_LATENCY = 0.03  # seconds of a request
_CACHE = 16_000_000  # bytes


class _SameBatch:
  """A stream that costs nothing: the batch of step 0 at every step."""

  def __init__(self, stream: CaptionStream):
    self.num_images = stream.num_images
    self._batch = stream.batch(0)

  def batch(self, step, rows=None):
    return self._batch

  def batches(self, start_step=0, rows=None):
    return itertools.repeat(self._batch)


def train(stream, steps: int) -> dict[str, float]:
  """The metrics of the last third of a run (the beginning compiles)."""
  with tempfile.TemporaryDirectory() as model_dir:
    result = loop.train(
      model_dir=model_dir, stream=stream, total_steps=steps, hooks=hooks(log_every=max(1, steps * 2 // 3)),
      pretrained=(), writers=Writers(tensorboard=False), start=Start(say=lambda line: None),
    )  # fmt: skip
  return result.metrics


def configure(
  model: str, data: pathlib.Path, captions_per_image: int | None, bindings: Sequence[str]
) -> None:
  """Parses the configuration of the quickstart, or of BB on the same corpus."""
  files = common.FILES
  options = [
    f"DATA_DIR={data}", "CaptionStream.bucket_window=1", "CaptionStream.target_lengths=(%TARGET_LENGTH,)",
    "CheckpointPolicy.every=0",
  ]  # fmt: skip
  if model == "bb":
    files = ("models/bb.gin", "data/emoji36.gin", "runs/train.gin")
    options += _BB
  if captions_per_image is not None:
    options.append(f"CaptionStream.captions_per_image={captions_per_image}")
  configuration.parse(files, [*options, *bindings])


def _bind(name: str, value: str | int) -> None:
  with gin.unlock_config():
    gin.bind_parameter(name, value)


def write_bucket(corpus: pathlib.Path, local: dict[str, float], steps: int) -> None:
  """Trains from a bucket, with and without a cache, and writes the result beside that of this machine."""
  metrics = {"this machine": local}
  with tempfile.TemporaryDirectory() as folder, photographs.served(corpus.parent, _LATENCY):
    _bind("emoji36.data_dir", f"s3://{corpus.name}")
    _bind("RecordCache.directory", folder)
    for cache, size in (("no cache", 0), ("with a cache", _CACHE)):
      _bind("RecordCache.bytes", size)
      metrics[f"bucket, {1e3 * _LATENCY:.0f} ms per request, {cache}"] = train(CaptionStream(), steps)
    cached = RecordCache().open().disk_bytes()
  records = sum(file.stat().st_size for file in corpus.glob("*train.array_record-*-of-?????"))
  report.write(
    "bucket",
    "Time spent waiting for data from a bucket (tiny model)",
    [
      (name, f"{run['waiting_for_data']:.2%}", f"{run['captions_per_second']:.0f}")
      for name, run in metrics.items()
    ],
    columns=("records", "waiting for data", "captions per second"),
    notes=[
      f"The cache held {cached / 1e6:.1f} MB of {records / 1e6:.1f} MB of records; its limit was "
      f"{_CACHE / 1e6:.1f} MB. The server of the bucket runs on the same cores."
    ],
  )


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument("--model", choices=("tiny", "bb"), default="tiny")
  parser.add_argument("--data", type=pathlib.Path, help="emoji36; default: one that is built")
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--ks", type=int, nargs="+", help="captions per image; default: the recipe's")
  parser.add_argument("--gin", nargs="+", default=[], metavar="NAME=VALUE", help="further bindings")
  parser.add_argument("--json", type=pathlib.Path, help="write the figures here, not as a result")
  arguments = parser.parse_args()
  data, found = arguments.data or common.corpus(), []
  for captions_per_image in arguments.ks or [None]:
    configure(arguments.model, data, captions_per_image, arguments.gin)
    streamed = train(CaptionStream(), arguments.steps)
    repeated = train(_SameBatch(CaptionStream()), arguments.steps)
    waiting, ratio = (
      streamed["waiting_for_data"], streamed["captions_per_second"] / repeated["captions_per_second"],
    )  # fmt: skip
    print(f"waiting for data: {waiting:.1%} of the time")
    print(f"ratio of captions/s, stream / one batch again and again: {ratio:.2f}", flush=True)
    found.append({
      "model": arguments.model, "captions_per_image": captions_per_image, "waiting_for_data": waiting,
      "captions_per_second": streamed["captions_per_second"], "of_repeated": ratio,
    })  # fmt: skip
    if arguments.json is not None:
      arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
  if arguments.json is None:
    report.write(
      "data_wait",
      f"Time spent waiting for data ({arguments.model} model)",
      [
        ("share of time that the device waits", f"{waiting:.1%}"),
        ("captions per second, stream / the same batch repeated", f"{ratio:.2f}"),
      ],
    )
    write_bucket(data, streamed, arguments.steps // 2)


if __name__ == "__main__":
  main()
