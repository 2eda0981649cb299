"""The stream of training examples against a bare loop that only decodes and resizes the same pictures.

usage: python benchmarks/stream.py [--pictures=512] [--turns=9] [--captions_per_image=1]
Pictures of 640 x 480 as JPEG with five captions in each of 35 languages (175 a picture, as COCO-35L), to 224 x 224,
read, tokenised and batched by `CaptionStream`, on one thread. The bare loop decodes JPEG files that lie in memory, as
the stream does (scaled in the DCT domain) or whole, and resizes them. All take turns, a batch each, and are measured in
seconds of CPU. Then the time from nothing to the first batch, at position 0 and at position 10^9.

Then (`--only=cores`, two minutes) pictures a second of `CaptionStream.batches` on 1 core and on all, up to 8: with a
thread a core, with a process a core, and the bare loop on as many threads. And what is needed to say it for more cores:

  lock       the milliseconds of a picture outside of the three calls that release the interpreter lock
  threads    pictures a second of 8 to 240 threads whose decoding and resizing sleep as long as these calls take on a
             core, so that they need no core: what the lock alone allows
  parent     milliseconds of the main process for a picture that another process makes

Model of n threads: the lower of n times one core's rate and what the lock allows. Model of n processes, of which a
stream takes `decoders.MOST` at most: n times one core's rate, times what each of the measured cores reached of it, but
not more than one picture in the time of `parent`, as if all of that held the lock. What it leaves out: bandwidth of the
memory beyond the measured cores, and two virtual cores that share a real one.

With `--only=bucket` alone: pictures a second of one decoding process from this machine, and from an object store on
loopback that takes 80 and 200 ms for a request, without a cache. The store runs on the same cores.
"""

import argparse
import contextlib
import functools
import io
import itertools
import os
import pathlib
import shutil
import statistics
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from typing import Any

import gin
import numpy as np
import photographs
import report
from PIL import Image

from xmcap.data import images, workers
from xmcap.data.registry import register_corpus
from xmcap.data.stream import CaptionStream

_SIZE = 224
_FAR = 10**9
_BATCH = 64
_PART = 8  # pictures that a thread takes at a time
_MOST_MEASURED = 8  # cores
_MODELLED = (8, 16, 48, 240)  # cores
_LATENCIES = (0.08, 0.2)  # seconds of a request
_NEED = 2_148  # pictures a second of each host that BB takes at K = 1 on v4-128 (docs/benchmarks.md)


def _bare(pictures: list[bytes], scaled: bool) -> None:
  for data in pictures:
    with Image.open(io.BytesIO(data)) as image:
      if scaled:
        image.draft(None, (_SIZE, _SIZE))
      np.asarray(image.resize((_SIZE, _SIZE), Image.Resampling.BILINEAR))


def _cpu_seconds(run: Callable[[], object]) -> float:
  began = time.process_time()
  run()
  return time.process_time() - began


def _seconds(run: Callable[[], object]) -> float:
  began = time.perf_counter()
  run()
  return time.perf_counter() - began


def _on(cores: int, run: Callable[[], Any]) -> Any:
  """What `run` returns on so many cores; the threads and processes that it starts stay on them too."""
  available = os.sched_getaffinity(0)
  os.sched_setaffinity(0, sorted(available)[:cores])
  try:
    return run()
  finally:
    os.sched_setaffinity(0, available)


def _stream_rate(stream: CaptionStream, seconds: float) -> tuple[float, float]:
  """Pictures a second of batches made ahead, once the first are there, and this process's seconds of CPU for each."""
  with contextlib.closing(stream), contextlib.closing(stream.batches()) as batches:
    # What was made ahead while the workers started does not count.
    for _ in range(stream.batches_ahead(_BATCH)):
      next(batches)
    began, cpu, made = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
      next(batches)
      made += _BATCH
    return made / (time.perf_counter() - began), (time.process_time() - cpu) / made


def _part_rate(run: Callable[[int], object], parts: int, cores: int, seconds: float) -> float:
  """Pictures a second where each of so many threads calls `run(part)` for one part after the other."""
  end = time.perf_counter() + seconds

  def work(first: int) -> float:
    began, done = time.perf_counter(), 0
    for part in itertools.count(first):
      run(part % parts)
      done += _PART
      if time.perf_counter() >= end:
        return done / (time.perf_counter() - began)

  with futures.ThreadPoolExecutor(cores) as pool:
    return sum(pool.map(work, range(0, parts, parts // cores)[:cores]))


@contextlib.contextmanager
def _around(decode: Callable, resize: Callable) -> Iterator[None]:
  """Calls `decode(call)` and `resize(call, size)` in place of Pillow's decoders and its resizing, which are `call`."""
  decoder_of, resized = Image._getdecoder, Image.Image.resize

  def wrapped(*arguments):
    decoder = decoder_of(*arguments)
    fields = {name: getattr(decoder, name) for name in ("setimage", "cleanup", "pulls_fd")}
    return types.SimpleNamespace(decode=lambda data: decode(lambda: decoder.decode(data)), **fields)

  def resizing(image, size, *arguments, **options):
    return resize(lambda: resized(image, size, *arguments, **options), size)

  Image._getdecoder, Image.Image.resize = wrapped, resizing
  try:
    yield
  finally:
    Image._getdecoder, Image.Image.resize = decoder_of, resized


def _milliseconds(stream: CaptionStream, steps: int) -> dict[str, float]:
  """Milliseconds of a core for a picture, on this thread: `whole`, and of it `decode`, `resize`, `read` and `lock`."""
  spent = {"decode": 0.0, "resize": 0.0}

  def timed(name: str, call: Callable[[], object]) -> object:
    began = time.thread_time()
    result = call()
    spent[name] += time.thread_time() - began
    return result

  stream.batch(0)
  with _around(functools.partial(timed, "decode"), lambda call, size: timed("resize", call)):
    whole = _cpu_seconds(lambda: [stream.batch(step) for step in range(steps)])
  indices = [stream.indices(np.arange(_BATCH) + step * _BATCH) for step in range(steps)]
  read = _cpu_seconds(lambda: [stream.source.read(some, len) for some in indices])
  found = {"whole": whole, **spent, "read": read}
  found = {name: 1e3 * seconds / (steps * _BATCH) for name, seconds in found.items()}
  return {**found, "lock": found["whole"] - found["decode"] - found["resize"] - found["read"]}


def _allowed_by_the_lock(stream: CaptionStream, spent: Mapping[str, float], seconds: float) -> float:
  """Pictures a second of the stream's threads if decoding and resizing took no core."""
  blank = Image.new("RGB", (_SIZE, _SIZE))

  def decode(call: Callable[[], object]) -> tuple[int, int]:
    time.sleep(spent["decode"] / 1e3)
    return -1, 0  # the end of the picture, and no error

  def resize(call: Callable[[], object], size: tuple[int, int]) -> Image.Image:
    time.sleep(spent["resize"] / 1e3)
    return blank

  with _around(decode, resize):
    return _stream_rate(stream, seconds)[0]


def _measure_cores(make: Callable[..., CaptionStream], turns: int, seconds: float) -> None:
  """Prints what the docstring says of cores."""
  spent = _milliseconds(make(processes=False), steps=4)
  data = [record.image for record in make().source]
  bare = [data[start : start + _PART] for start in range(0, len(data), _PART)]
  most = min(_MOST_MEASURED, len(os.sched_getaffinity(0)))
  rates: dict[tuple, list[float]] = {}
  parent = []
  for _ in range(turns):
    for n in sorted({1, most}):
      for name in ("threads", "processes"):
        stream = make(workers=n, processes=name == "processes")
        rate, own = _on(n, lambda stream=stream: _stream_rate(stream, seconds))
        rates.setdefault((name, n), []).append(rate)
        if name == "processes":
          parent.append(own)
      rates.setdefault(("bare", n), []).append(
        _on(n, lambda n=n: _part_rate(lambda k: _bare(bare[k], True), len(bare), n, seconds))
      )
    for n in _MODELLED:
      stream = make(workers=n, processes=False, depth=max(16, n // 4))  # some parts for each thread
      rates.setdefault(("lock", n), []).append(_allowed_by_the_lock(stream, spent, seconds))
  middle = {key: statistics.median(values) for key, values in rates.items()}
  own = 1e3 * statistics.median(parent)
  kept = min(1.0, middle["processes", most] / (most * middle["processes", 1]))

  rows = [
    (str(n), *(f"{middle[name, n]:,.0f}" for name in ("threads", "processes", "bare")))
    for n in sorted({1, most})
  ]
  for n in _MODELLED:
    threads = min(n * middle["threads", 1], middle["lock", n])
    processes = min(min(n, workers.MOST) * kept * middle["processes", 1], 1e3 / own)
    rows.append((f"{n}, model", f"{threads:,.0f}", f"{processes:,.0f}", ""))
  columns = ("cores", "threads", "processes", "decode and resize only, threads")
  pixels = _SIZE * _SIZE * 3 / 1e3
  shares = ", ".join(f"{name} {spent[name] / spent['whole']:.0%}" for name in ("decode", "resize", "read"))
  locked = ", ".join(f"{middle['lock', n]:,.0f} on {n}" for n in _MODELLED)
  notes = [
    f"A picture takes {spent['whole']:.2f} ms of a core: {shares}, which release the interpreter lock; "
    f"{spent['lock']:.2f} ms ({spent['lock'] / spent['whole']:.0%}) do not.",
    f"What the lock allows threads, in pictures a second with sleep in place of decoding and resizing: {locked}.",
    f"With processes, the main process spends {own:.3f} ms on a picture, and {most} cores reach {kept:.0%} of {most} "
    f"times one. The pixels of a picture, {pixels:.0f} kB, are copied out of Pillow (twice), into the batch and, with "
    "processes, out of the shared memory.",
    f"Model: docstring of benchmarks/stream.py. BB at K = 1 takes {_NEED:,} pictures a second of each host; 1.2 times "
    f"that are {1.2 * _NEED:,.0f}.",
  ]
  for row in (columns, *rows):
    print("{:>12} {:>10} {:>10} {:>32}".format(*row))
  print(*notes, sep="\n")
  report.write("stream_cores", "Pictures per second by number of cores", rows, columns=columns, notes=notes)


def _measure_bucket(make: Callable[..., CaptionStream], turns: int, seconds: float) -> None:
  """Prints the rates of one process from this machine, and from a bucket of each latency."""
  # The store reads a whole file for each range of it.
  corpus = photographs.corpus(256, files=64)
  gin.bind_parameter("RecordCache.bytes", 0)

  def rate(place: str) -> float:
    gin.bind_parameter("photographs.data_dir", place)
    return _stream_rate(make(workers=1, processes=True), seconds)[0]

  turned = []
  with tempfile.TemporaryDirectory() as buckets:
    shutil.copytree(corpus, pathlib.Path(buckets, "photographs"))
    for _ in range(turns):
      turned.append([rate(str(corpus))])
      for latency in _LATENCIES:
        with photographs.served(pathlib.Path(buckets), latency):
          turned[-1].append(rate("s3://photographs"))
  names = ("this machine", *(f"bucket, {1e3 * latency:.0f} ms a request" for latency in _LATENCIES))
  rows = []
  for column, name in enumerate(names):
    ratio = statistics.median(rates[column] / rates[0] for rates in turned)
    rows.append((name, f"{statistics.median(rates[column] for rates in turned):.0f}", f"{ratio:.2f}"))
    print("{:<28} {:>6} pictures/s, {} of this machine".format(*rows[-1]))
  report.write(
    "stream_bucket", "Pictures per second of one decoding process from a bucket", rows,
    columns=("records", "pictures per second", "of this machine's, in the same turn"),
    notes=[f"Medians of {turns} turns. The store runs on the same cores."],
  )  # fmt: skip


def _measure_core(make: Callable[..., CaptionStream], pictures: int, turns: int) -> None:
  """Prints the rates on one thread, by seconds of CPU, and the time to the first batch."""
  stream = make()
  steps = pictures // _BATCH
  data = [record.image for record in stream.source]
  print(
    f"{len(data)} pictures, {sum(map(len, data)) / len(data) / 1e3:.0f} kB each; {steps} batches of {_BATCH}"
  )
  cropped = make(augment=images.InceptionCrop())
  # In the same order as the stream's, so that all read as far from where they read before.
  order = stream.source.read(stream.indices(np.arange(steps * _BATCH)))
  parts = [
    [record.image for record in order[start : start + _BATCH]] for start in range(0, len(order), _BATCH)
  ]
  runs = {
    "stream": stream.batch,
    "stream, inception crop": cropped.batch,
    "bare decode (scaled) + resize": lambda step: _bare(parts[step], True),
    "bare decode (whole) + resize": lambda step: _bare(parts[step], False),
  }
  times: dict[str, list[float]] = {name: [] for name in runs}
  for turn in range(turns + 1):
    for step in range(steps):
      for name, run in runs.items():
        seconds = _cpu_seconds(lambda run=run, step=step: run(step))
        if turn:  # the first is not counted: files are read for the first time
          times[name].append(seconds)
  for name, values in times.items():
    print(f"{name:<32} {_BATCH / statistics.median(values):>8.0f} pictures/s a core")
  mine, crop, scaled, whole = times.values()
  rows = []
  for name, ours in (("stream", mine), ("with inception crop", crop)):
    ratios = [statistics.median(b / a for a, b in zip(ours, bare, strict=True)) for bare in (scaled, whole)]
    print(f"ratio of pictures/s, {name} / bare scaled: {ratios[0]:.2f}; / bare whole: {ratios[1]:.2f}")
    rows += [
      (f"{name} / {bare}", f"{ratio:.2f}")
      for bare, ratio in zip(("decode (scaled) and resize", "decode (whole) and resize"), ratios, strict=True)
    ]

  first: dict[int, list[float]] = {0: [], _FAR: []}
  for _ in range(2 * turns):
    for position, values in first.items():
      values.append(_seconds(lambda position=position: make().batch(position // _BATCH)))
  near, far = (statistics.median(values) for values in first.values())
  print(f"from nothing to the first batch at position 0: {near * 1e3:.0f} ms; at 10^9: {far * 1e3:.0f} ms; "
        f"ratio {far / near:.2f}")  # fmt: skip
  rates = [
    (f"{name}, pictures per second", f"{_BATCH / statistics.median(values):.0f}")
    for name, values in times.items()
  ]
  rows.append(("time to the first batch at position 10^9 / at position 0", f"{far / near:.2f}"))
  report.write(
    "stream", "Data stream compared with a bare loop of decode and resize, one core", [*rates, *rows]
  )


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--pictures", type=int, default=512)
  parser.add_argument("--turns", type=int, default=9)
  parser.add_argument("--captions_per_image", type=int, default=1)
  parser.add_argument("--only", choices=("core", "cores", "bucket"), help="a part; by default the first two")
  parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement of `cores`")
  arguments = parser.parse_args()
  register_corpus("photographs")

  gin.bind_parameter("photographs.data_dir", str(photographs.corpus(arguments.pictures)))

  def make(**options) -> CaptionStream:
    return CaptionStream(
      "photographs", batch_size=_BATCH * arguments.captions_per_image, target_length=64, image_size=_SIZE,
      captions_per_image=arguments.captions_per_image, **options,
    )  # fmt: skip

  if arguments.only == "bucket":
    _measure_bucket(make, min(arguments.turns, 5), arguments.seconds)
    return
  if arguments.only != "cores":
    _measure_core(make, arguments.pictures, arguments.turns)
  if arguments.only != "core":
    _measure_cores(make, min(arguments.turns, 3), arguments.seconds)


if __name__ == "__main__":
  main()
