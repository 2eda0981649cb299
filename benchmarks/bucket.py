"""The share of a run's time in which the device waits for data: records on this machine, and in a bucket.

usage: python benchmarks/bucket.py [--latency=SECONDS] [--steps=N]
Trains the tiny model of quickstart.sh three times: from records on this machine; from an object store on loopback,
another process that takes 30 ms for a request, with no cache; and from it with a cache of 16 MB, which holds a part of
the corpus. Prints the shares, and the cache's size on the disk beside its limit.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import common
import gin
import report as results

from xmcap.data.stream import CaptionStream
from xmcap.files import object_store
from xmcap.files.range_cache import RecordCache
from xmcap.training import loop
from xmcap.training.hooks import hooks
from xmcap.training.reporting.writers import Writers
from xmcap.training.run import Start

_CACHE = 16_000_000
_REPOSITORY = pathlib.Path(__file__).parents[1]


def train(data_dir: str, steps: int) -> dict[str, float]:
  """The metrics of the last two thirds of a run (the first third compiles)."""
  with gin.unlock_config():
    gin.bind_parameter("emoji36.data_dir", data_dir)
  with tempfile.TemporaryDirectory() as model_dir:
    result = loop.train(
      model_dir=model_dir, stream=CaptionStream(), total_steps=steps, pretrained=(),
      hooks=hooks(log_every=steps * 2 // 3), writers=Writers(tensorboard=False), start=Start(say=lambda line: None),
    )  # fmt: skip
  return result.metrics


@contextlib.contextmanager
def served(folder: pathlib.Path, latency: float) -> Iterator[None]:
  """An object store in a process of its own; the variables by which it is found are set."""
  command = [sys.executable, "-m", "tests.loopback_store", str(folder), f"--latency={latency}"]
  with subprocess.Popen(command, cwd=_REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
    try:
      os.environ["AWS_ENDPOINT_URL"] = process.stdout.readline().strip()
      os.environ["AWS_ACCESS_KEY_ID"] = os.environ["AWS_SECRET_ACCESS_KEY"] = "loopback"
      object_store._backend_of.cache_clear()
      yield
    finally:
      process.terminate()


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--latency", type=float, default=0.03, metavar="SECONDS", help="of a request")
  parser.add_argument("--steps", type=int, default=240, metavar="N", help="of each run, a multiple of 3")
  arguments = parser.parse_args()
  corpus = common.configure(
    "CaptionStream.bucket_window=1", "CaptionStream.target_lengths=(24,)", "CheckpointPolicy.every=0"
  )

  rows = []

  def report(name: str, metrics: dict[str, float]) -> None:
    print(
      f"{name}: waiting for data {metrics['waiting_for_data']:.2%} of the time, "
      f"{metrics['captions_per_second']:.0f} captions/s",
      flush=True,
    )
    rows.append((name, f"{metrics['waiting_for_data']:.2%}", f"{metrics['captions_per_second']:.0f}"))

  report("this machine", train(str(corpus), arguments.steps))
  with tempfile.TemporaryDirectory() as folder, served(corpus.parent, arguments.latency):
    address = f"s3://{corpus.name}"
    with gin.unlock_config():
      gin.bind_parameter("RecordCache.directory", folder)
      gin.bind_parameter("RecordCache.bytes", 0)
    report(f"bucket, {arguments.latency * 1000:.0f} ms a request, no cache", train(address, arguments.steps))
    with gin.unlock_config():
      gin.bind_parameter("RecordCache.bytes", _CACHE)
    report("bucket, 30 ms per request, with a cache", train(address, arguments.steps))
    records = sum(file.stat().st_size for file in corpus.glob("*train.array_record-*-of-?????"))
    held = RecordCache().open().disk_bytes()
    print(
      f"cache: {held / 1e6:.1f} MB on the disk, limit {_CACHE / 1e6:.1f} MB; records: {records / 1e6:.1f} MB"
    )
  results.write(
    "bucket",
    "Time spent waiting for data from a bucket (tiny model)",
    rows,
    columns=("records", "waiting for data", "captions per second"),
    notes=[
      f"The cache held {held / 1e6:.1f} MB of {records / 1e6:.1f} MB of records; its limit was {_CACHE / 1e6:.1f} MB. "
      "The server of the bucket runs on the same cores."
    ],
  )


if __name__ == "__main__":
  main()
