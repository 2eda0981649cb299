"""The stream of training examples against a bare loop that only decodes and resizes the same pictures.

usage: python benchmarks/stream.py [--pictures=512] [--turns=9] [--captions_per_image=1]
Pictures of 640 x 480 as JPEG with five captions in each of 35 languages (175 a picture, as COCO-35L), to 224 x 224,
read, tokenised and batched by `CaptionStream`, on one thread. The bare loop decodes JPEG files that lie in memory, as
the stream does (scaled in the DCT domain) or whole, and resizes them. All take turns, a batch each, and are measured in
seconds of CPU. Then the time from nothing to the first batch, at position 0 and at position 10^9.
"""

import argparse
import io
import pathlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable

import gin
import numpy as np
from PIL import Image

from xmcap import languages
from xmcap.data import images, record_writer, records, vocabulary
from xmcap.data.corpora import emoji_sources
from xmcap.data.stream import CaptionStream
from xmcap.data.tasks import register_corpus

_SIZE = 224
_WORDS = (4, 8)  # names of emoji a caption, about ten words
_FAR = 10**9


def picture(seed: int, width: int = 640, height: int = 480) -> bytes:
  """A JPEG with the spectrum of a photograph (amplitude 1 / frequency), of about the bytes of one of MSCOCO's."""
  rng = np.random.default_rng(seed)
  frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
  frequency[0, 0] = 1
  planes = []
  for amplitude in (60, 18, 18):  # luma and chroma
    phases = rng.normal(size=frequency.shape) + 1j * rng.normal(size=frequency.shape)
    plane = np.fft.irfft2(phases / frequency**1.2, s=(height, width))
    planes.append(128 + amplitude * (plane - plane.mean()) / plane.std())
  pixels = np.stack(planes, -1).clip(0, 255).astype(np.uint8)
  data = io.BytesIO()
  Image.fromarray(pixels, "YCbCr").save(data, "JPEG", quality=90)
  return data.getvalue()


def corpus(pictures: int) -> pathlib.Path:
  """The folder of the records, made once in the temporary folder."""
  out = pathlib.Path(tempfile.gettempdir()) / f"xmcap-benchmark-stream-{pictures}"
  if not (out / "vocabulary.model").exists():
    names = emoji_sources.find().cldr.names
    split = record_writer.write_split(
      out, "train", [range(pictures)], lambda numbers: (_record(n, names) for n in numbers),
      dataset="photographs", processes=1,
    )  # fmt: skip
    record_writer.write_metadata(out, [split], dataset="photographs")
    text = out / "text.txt"
    text.write_text("\n".join(name for code in languages.TRAINED for name in names[code].values()), "utf-8")
    vocabulary.train_vocabulary(str(text), str(out / "vocabulary.model"), size=16_000)
  return out


def _record(number: int, names) -> records.Record:
  rng = random.Random(number)
  captions = [
    records.Caption(code, " ".join(rng.choices(list(names[code].values()), k=rng.randint(*_WORDS))), "", "mt")
    for code in languages.TRAINED
    for _ in range(5)
  ]
  return records.Record(f"{number:012d}", picture(number), captions)


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


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--pictures", type=int, default=512)
  parser.add_argument("--turns", type=int, default=9)
  parser.add_argument("--captions_per_image", type=int, default=1)
  arguments = parser.parse_args()
  out = corpus(arguments.pictures)
  register_corpus("photographs")
  gin.bind_parameter("photographs.data_dir", str(out))
  batch = 64

  def make(**options) -> CaptionStream:
    return CaptionStream(
      "photographs", batch_size=batch * arguments.captions_per_image, target_length=64, image_size=_SIZE,
      captions_per_image=arguments.captions_per_image, **options,
    )  # fmt: skip

  stream = make()
  steps = arguments.pictures // batch
  data = [record.image for record in stream.source]
  print(
    f"{len(data)} pictures, {sum(map(len, data)) / len(data) / 1e3:.0f} kB each; {steps} batches of {batch}"
  )
  cropped = make(augment=images.InceptionCrop())
  # In the same order as the stream's, so that all read as far from where they read before.
  order = stream.source.read(stream._indices(np.arange(steps * batch)))
  parts = [[record.image for record in order[start : start + batch]] for start in range(0, len(order), batch)]
  runs = {
    "stream": stream.batch,
    "stream, inception crop": cropped.batch,
    "bare decode (scaled) + resize": lambda step: _bare(parts[step], True),
    "bare decode (whole) + resize": lambda step: _bare(parts[step], False),
  }
  times: dict[str, list[float]] = {name: [] for name in runs}
  for turn in range(arguments.turns + 1):
    for step in range(steps):
      for name, run in runs.items():
        seconds = _cpu_seconds(lambda run=run, step=step: run(step))
        if turn:  # the first is not counted: files are read for the first time
          times[name].append(seconds)
  for name, values in times.items():
    print(f"{name:<32} {batch / statistics.median(values):>8.0f} pictures/s a core")
  mine, crop, scaled, whole = times.values()
  for name, ours in (("stream", mine), ("with inception crop", crop)):
    ratios = [statistics.median(b / a for a, b in zip(ours, bare, strict=True)) for bare in (scaled, whole)]
    print(f"ratio of pictures/s, {name} / bare scaled: {ratios[0]:.2f}; / bare whole: {ratios[1]:.2f}")

  first: dict[int, list[float]] = {0: [], _FAR: []}
  for _ in range(2 * arguments.turns):
    for position, values in first.items():
      values.append(_seconds(lambda position=position: make().batch(position // batch)))
  near, far = (statistics.median(values) for values in first.values())
  print(f"from nothing to the first batch at position 0: {near * 1e3:.0f} ms; at 10^9: {far * 1e3:.0f} ms; "
        f"ratio {far / near:.2f}")  # fmt: skip


if __name__ == "__main__":
  main()
