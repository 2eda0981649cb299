"""The stream of training examples against a bare loop that only decodes and resizes the same pictures.

usage: python benchmarks/stream.py [--pictures=512] [--turns=9] [--captions_per_image=1]
Pictures of 640 x 480 as JPEG with five captions in each of 35 languages (175 a picture, as COCO-35L), to 224 x 224,
read, tokenised and batched by `CaptionStream`, on one thread. The bare loop decodes JPEG files that lie in memory, as
the stream does (scaled in the DCT domain) or whole, and resizes them. All take turns, a batch each, and are measured in
seconds of CPU. Then the time from nothing to the first batch, at position 0 and at position 10^9.

Then pictures a second of `CaptionStream.batches` on 1, 2, 4 ... all cores, with a thread a core, beside the bare loop
on as many threads; and for each part of the work on a picture its time on one thread, and how many times as much a
thread a core does: a part that gains nothing holds the interpreter lock. Then pictures of 16 x 16 pixels, which cost
little more than the lock, on 1 to 64 threads: what no number of cores exceeds. `--only=cores` measures this alone.
"""

import argparse
import io
import itertools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent import futures

import gin
import numpy as np
import photographs
import report
from PIL import Image

from xmcap.data import images
from xmcap.data.columns import parse_columns
from xmcap.data.registry import register_corpus
from xmcap.data.stream import CaptionStream

_SIZE = 224
_FAR = 10**9
_BATCH = 64
_THREADS = (1, 2, 4, 16, 64)
_PART = 8  # pictures that a thread takes at a time


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


def _cores() -> list[int]:
  """1, 2, 4 ... and all."""
  available = len(os.sched_getaffinity(0))
  return sorted({available, *itertools.takewhile(lambda n: n < available, (2**k for k in range(10)))})


def _on(cores: int, run: Callable[[], float]) -> float:
  """What `run` returns on so many cores; the threads that it starts stay on them too."""
  available = os.sched_getaffinity(0)
  os.sched_setaffinity(0, sorted(available)[:cores])
  try:
    return run()
  finally:
    os.sched_setaffinity(0, available)


def _stream_rate(stream: CaptionStream, seconds: float) -> float:
  """Pictures a second of batches made ahead, once the first are there."""
  batches = stream.batches()
  for _ in range(2):
    next(batches)
  began, made = time.perf_counter(), 0
  while time.perf_counter() - began < seconds:
    next(batches)
    made += _BATCH
  elapsed = time.perf_counter() - began
  batches.close()
  return made / elapsed


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


def _parts(stream: CaptionStream) -> dict[str, tuple[Callable[[int], object], int]]:
  """Name -> (what does a part of the work on the pictures of a number, how many numbers there are)."""
  indices = stream.indices(np.arange(len(stream.source))).reshape(-1, _PART)
  raw = [stream.source.read(part, bytes) for part in indices]
  columns = [[parse_columns(data) for data in part] for part in raw]
  data = [[record.image for record in part] for part in columns]
  decoded = [[_decoded(picture) for picture in part] for part in data]
  resized = [[_resized(image) for image in part] for part in decoded]
  pixels = np.empty((len(data), _PART, _SIZE, _SIZE, 3), np.uint8)

  def each(items: Sequence[Sequence], function: Callable) -> Callable[[int], object]:
    return lambda part: [function(item) for item in items[part]]

  def copy(part: int) -> None:
    for row, image in zip(pixels[part], resized[part], strict=True):
      row[...] = np.asarray(image)

  runs = {
    "read the record": lambda part: stream.source.read(indices[part], bytes),
    "parse the record": each(raw, parse_columns),
    "decode": each(data, _decoded),
    "resize": each(decoded, _resized),
    "pixels to numpy": copy,
  }
  return {name: (run, len(indices)) for name, run in runs.items()}


def _decoded(data: bytes) -> Image.Image:
  image = Image.open(io.BytesIO(data))
  image.draft(None, (image.width // 2, image.height // 2))
  image.load()
  return image


def _resized(image: Image.Image) -> Image.Image:
  return image.resize((_SIZE, _SIZE), Image.Resampling.BILINEAR)


def _measure_cores(make: Callable[..., CaptionStream], turns: int, seconds: float = 1.5) -> None:
  """Prints the two tables: by cores, and by part of the work."""
  stream = make()
  parts = _parts(stream)
  data = [record.image for record in stream.source]
  bare = [data[start : start + _PART] for start in range(0, len(data), _PART)]
  cores = _cores()
  rates: dict[tuple, list[float]] = {}

  def note(name: str, count: int, run: Callable[[], float]) -> None:
    rates.setdefault((name, count), []).append(_on(count, run))

  for _ in range(turns):
    for n in cores:
      note("stream", n, lambda n=n: _stream_rate(make(workers=n), seconds))
      note("bare", n, lambda n=n: _part_rate(lambda k: _bare(bare[k], True), len(bare), n, seconds))
    for n in (1, cores[-1]):
      for name, (run, count) in parts.items():
        note(name, n, lambda run=run, count=count, n=n: _part_rate(run, count, n, seconds / 4))
    for threads in _THREADS:
      tiny = make(side=16, workers=threads)
      rates.setdefault(("lock", threads), []).append(_stream_rate(tiny, seconds / 2))
  middle = {key: statistics.median(values) for key, values in rates.items()}

  print(
    f"\n{'cores':>5} {'stream, pictures/s':>20} {'times one core':>15} {'bare loop':>10} {'times one core':>15}"
  )
  for n in cores:
    columns = [(middle[name, n], middle[name, n] / middle[name, 1]) for name in ("stream", "bare")]
    print("{:>5} {:>20.0f} {:>15.2f} {:>10.0f} {:>15.2f}".format(n, *columns[0], *columns[1]))

  rows = [
    (str(n), *(f"{cell:.{digits}f}" for name in ("stream", "bare") for cell, digits in
               ((middle[name, n], 0), (middle[name, n] / middle[name, 1], 2))))
    for n in cores
  ]  # fmt: skip
  whole = 1e3 / middle["stream", 1]
  print(f"\n{'part of a picture':<20} {'ms on one core':>15} {'share':>6} {'times one core, on all':>23}")
  gain = {name: middle[name, cores[-1]] / middle[name, 1] for name in (*parts, "bare")}
  for name in parts:
    one = 1e3 / middle[name, 1]
    print(f"{name:<20} {one:>15.3f} {one / whole:>6.0%} {gain[name]:>23.2f}")
  rest = whole - sum(1e3 / middle[name, 1] for name in parts)
  print(f"{'captions, the rest':<20} {rest:>15.3f} {rest / whole:>6.0%}")
  # Half as much as decoding and resizing gain: on a busy machine these do not gain all of the cores either.
  locked = [name for name in parts if gain[name] < (1 + gain["bare"]) / 2]
  held = sum(1e3 / middle[name, 1] for name in locked)
  print(f"hold the lock: {', '.join(locked) or 'none'}: {held:.2f} of {whole:.2f} ms a picture")
  counts = ", ".join(f"{middle['lock', threads]:,.0f} on {threads}" for threads in _THREADS)
  print(f"pictures of 16 x 16 pixels a second, by threads: {counts}")
  report.write(
    "stream_cores",
    "Pictures per second by number of cores",
    rows,
    columns=("cores", "stream", "relative to one core", "decode and resize only", "relative to one core"),
    notes=[
      f"A picture takes {whole:.1f} ms on one core: "
      + ", ".join(f"{name} {1e3 / middle[name, 1] / whole:.0%}" for name in parts)
      + f"; {held:.1f} ms of it hold the interpreter lock ({', '.join(locked) or 'none'}).",
      f"Upper limit for any number of cores, in pictures of 16 x 16 pixels a second by threads: {counts}.",
    ],
  )


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
  parser.add_argument("--only", choices=("core", "cores"), help="one core, or how it scales; by default both")
  arguments = parser.parse_args()
  register_corpus("photographs")

  def make(side: int = _SIZE, **options) -> CaptionStream:
    # Of pictures of 16 x 16 pixels, nothing but what surrounds the decoding and resizing is left to do.
    size = (16, 16) if side == 16 else (640, 480)
    gin.bind_parameter("photographs.data_dir", str(photographs.corpus(arguments.pictures, *size)))
    return CaptionStream(
      "photographs", batch_size=_BATCH * arguments.captions_per_image, target_length=64, image_size=side,
      captions_per_image=arguments.captions_per_image, **options,
    )  # fmt: skip

  if arguments.only != "cores":
    _measure_core(make, arguments.pictures, arguments.turns)
  if arguments.only != "core":
    _measure_cores(make, arguments.turns)


if __name__ == "__main__":
  main()
