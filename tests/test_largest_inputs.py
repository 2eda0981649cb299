"""Memory that the largest inputs take which are allowed; docs/security.md and docs/serving.md give the figures."""

import io
import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import text_files
from xmcap.data import images
from xmcap.families.dual import tokenizer_files
from xmcap.reading import arrow_files
from xmcap.reading.inputs import MAX_LINE, Input
from xmcap.serving.limits import Limits

pytestmark = [pytest.mark.slow, pytest.mark.full]

ROOT = pathlib.Path(__file__).parents[1]
MOST_MIB = 900
MOST_BYTES_A_PIXEL = 19
SIDE = 9_459
"""Of a square of nearly as many pixels as are allowed."""
SERVED = (5_000, Limits().pixels // 5_000)


def write_png(path, depth, colour_type, channels):
  """A black PNG of SIDE x SIDE pixels."""

  def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

  packed = zlib.compressobj(9)
  row = bytes(1 + SIDE * channels * depth // 8)
  rows = b"".join(packed.compress(row) for _ in range(SIDE)) + packed.flush()
  head = struct.pack(">IIBBBBB", SIDE, SIDE, depth, colour_type, 0, 0, 0)
  path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def write_texts(path):
  """64 rows of Parquet, each with the longest text."""
  text = "x" * (arrow_files.MAX_TEXT - 1)
  pq.write_table(pa.table({"caption": pa.DictionaryArray.from_arrays(pa.array([0] * 64), [text])}), path)


def write_batch(path):
  table = pa.table({"image": [bytes(arrow_files.MAX_BATCH // 17)] * 16})
  with pa.ipc.new_stream(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
    writer.write_table(table)


def write_tokenizer(path):
  words = {"[UNK]": 0, **{f"word {number:012d}": number + 1 for number in range(2_200_000)}}
  model = {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}
  path.write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))


def write_served(path, mode, form, options):
  """A picture with the most pixels that `xmcap serve` takes."""
  colour = 9 if mode in ("P", "I;16") else (9, 99, 9, 9)
  data = io.BytesIO()
  Image.new(mode, SERVED, colour).save(data, form, **options)
  path.write_bytes(data.getvalue())


def read_all(rows):
  for _ in rows:
    pass


def read_picture(path):
  images.load(path.read_bytes(), "a", 224)


def read_served(path):
  # So large a side that no JPEG is decoded at a smaller scale.
  images.load(path.read_bytes(), "a", 2_600, max_pixels=Limits().pixels)


def read_line(path):
  with Input(path) as source:
    read_all(source.rows())


def turned():
  exif = Image.Exif()
  exif[0x0112] = 6
  return exif


INPUTS = {
  "picture of 16 bits": (lambda path: write_png(path, 16, 0, 1), read_picture),
  "transparent picture": (lambda path: write_png(path, 8, 6, 4), read_picture),
  "texts in Parquet": (write_texts, lambda path: read_all(arrow_files.rows(path))),
  "compressed batch of Arrow": (write_batch, lambda path: read_all(arrow_files.rows(path))),
  "line of JSONL": (lambda path: path.write_text(json.dumps({"caption": "x" * (MAX_LINE - 100)}) + "\n"), read_line),
  "cell of CSV": (lambda path: path.write_text(f"image,caption\na.jpg,{'x' * (MAX_LINE - 100)}\n"),
                  lambda path: read_all(text_files.read(path, path.name, Problems()))),
  "tokenizer.json": (write_tokenizer, tokenizer_files.read_tokenizer),
}  # fmt: skip
SERVED_PICTURES = {
  "PNG, RGBA": ("RGBA", "PNG", {"compress_level": 1}),
  "PNG, RGBA, turned by EXIF": ("RGBA", "PNG", {"compress_level": 1, "exif": turned()}),
  "PNG, 16 bits": ("I;16", "PNG", {"compress_level": 1}),
  "JPEG, CMYK, progressive": ("CMYK", "JPEG", {"progressive": True}),
  "JPEG, CMYK, progressive, turned by EXIF": ("CMYK", "JPEG", {"progressive": True, "exif": turned()}),
  "GIF": ("P", "GIF", {"transparency": 0}),
  "WebP, RGBA, lossless": ("RGBA", "WEBP", {"lossless": True, "method": 0}),
}


def grown(name, path):
  """Bytes by which a process of its own grows that reads the input; another one has written it."""
  for step in ("write", "read"):
    command = [sys.executable, "-m", "tests.test_largest_inputs", step, name, str(path)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
  return int(done.stdout.split()[-1])


@pytest.mark.parametrize("name", INPUTS)
def test_largest_allowed_input_takes_less_than_a_gigabyte(tmp_path, name):
  assert grown(name, tmp_path / "captions.csv") < MOST_MIB << 20


@pytest.mark.parametrize("name", SERVED_PICTURES)
def test_decoding_an_uploaded_picture_takes_at_most_19_bytes_a_pixel(tmp_path, name):
  assert grown(name, tmp_path / "picture") < MOST_BYTES_A_PIXEL * Limits().pixels


def peak():
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(step, name, path):
  if name in INPUTS:
    write, read = INPUTS[name]
  else:
    write, read = (lambda path: write_served(path, *SERVED_PICTURES[name])), read_served
  before = peak()
  (write if step == "write" else read)(path)
  print(peak() - before, flush=True)
  os._exit(0)


if __name__ == "__main__":
  main(*sys.argv[1:3], pathlib.Path(sys.argv[3]))
