"""Records as COCO-35L's: pictures that cost as much as photographs, with five captions in each of 35 languages."""

import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
from PIL import Image

from xmcap import languages
from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.data import record_writer, records, vocabulary
from xmcap.files import object_store

_WORDS = (4, 8)  # names of emoji a caption, about ten words


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


def corpus(pictures: int, width: int = 640, height: int = 480, files: int = 1) -> pathlib.Path:
  """The folder of the records, made once in the temporary folder."""
  name = f"xmcap-benchmark-stream-{pictures}-{width}x{height}" + (f"-{files}" if files > 1 else "")
  out = pathlib.Path(tempfile.gettempdir()) / name
  if not (out / "vocabulary.model").exists():
    names = emoji_sources.find().cldr.names
    split = record_writer.write_split(
      out, "train", [range(file, pictures, files) for file in range(files)],
      lambda numbers: (_record(n, names, width, height) for n in numbers), dataset="photographs",
      processes=1,
    )  # fmt: skip
    record_writer.write_metadata(out, [split], dataset="photographs")
    text = out / "text.txt"
    text.write_text("\n".join(name for code in languages.TRAINED for name in names[code].values()), "utf-8")
    vocabulary.train_vocabulary(str(text), str(out / "vocabulary.model"), size=16_000)
  return out


@contextlib.contextmanager
def served(folder: pathlib.Path, latency: float) -> Iterator[None]:
  """An object store in a process of its own, with so many seconds a request; the variables that lead to it are set."""
  command = [sys.executable, "-m", "tests.loopback_store", str(folder), f"--latency={latency}"]
  repository = pathlib.Path(__file__).parents[1]
  with subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True) as process:
    assert process.stdout is not None
    try:
      os.environ.update(json.loads(process.stdout.readline()))
      object_store._backend_of.cache_clear()
      yield
    finally:
      process.terminate()


def _record(number: int, names, width: int, height: int) -> records.Record:
  rng = random.Random(number)
  captions = [
    records.Caption(code, " ".join(rng.choices(list(names[code].values()), k=rng.randint(*_WORDS))), "", "mt")
    for code in languages.TRAINED
    for _ in range(5)
  ]
  return records.Record(f"{number:012d}", picture(number, width, height), captions)
