"""Memory that the largest allowed inputs take: a picture, a cell, a batch, a line, a tokenizer.

usage: python benchmarks/bounds.py [--only=NAME]

Each input is made as large as its limit allows, and read in a process of its own, whose largest memory is measured
beside what it had at the start.
"""

import argparse
import json
import os
import pathlib
import resource
import struct
import tempfile
import zlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import report

from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import text_files
from xmcap.data import images
from xmcap.families.dual import tokenizer_files
from xmcap.reading import arrow_files
from xmcap.reading.inputs import MAX_LINE, Input

_SIDE = 9_459  # of a square of nearly as many pixels as are allowed
_ROWS = 64


def _png(path: pathlib.Path, depth: int, kind: int, channels: int) -> None:
  """Writes a black PNG; `kind` is its colour type."""

  def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

  packed = zlib.compressobj(9)
  row = bytes(1 + _SIDE * channels * depth // 8)
  rows = b"".join(packed.compress(row) for _ in range(_SIDE)) + packed.flush()
  head = struct.pack(">IIBBBBB", _SIDE, _SIDE, depth, kind, 0, 0, 0)
  path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def _texts(path: pathlib.Path) -> None:
  text = "x" * (arrow_files.MAX_TEXT - 1)
  pq.write_table(pa.table({"caption": pa.DictionaryArray.from_arrays(pa.array([0] * _ROWS), [text])}), path)


def _batch(path: pathlib.Path) -> None:
  table = pa.table({"image": [bytes(arrow_files.MAX_BATCH // 17)] * 16})
  with pa.ipc.new_stream(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
    writer.write_table(table)


def _line(path: pathlib.Path) -> None:
  path.write_text(json.dumps({"caption": "x" * (MAX_LINE - 100)}) + "\n")


def _cell(path: pathlib.Path) -> None:
  path.write_text(f"image,caption\na.jpg,{'x' * (MAX_LINE - 100)}\n")


def _tokenizer(path: pathlib.Path) -> None:
  words = {"[UNK]": 0, **{f"word {number:012d}": number + 1 for number in range(2_200_000)}}
  model = {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}
  path.write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))


def _all_of(rows) -> None:
  for _ in rows:
    pass


def _read_line(path: pathlib.Path) -> None:
  with Input(path) as source:
    _all_of(source.rows())


BOUNDS: dict[str, tuple[Callable[[pathlib.Path], None], Callable[[pathlib.Path], object]]] = {
  "a picture of 16 bits, 89 million pixels": (
    lambda path: _png(path, 16, 0, 1),
    lambda path: images.load(path.read_bytes(), "a", 224),
  ),
  "a picture with transparency, 89 million pixels": (
    lambda path: _png(path, 8, 6, 4),
    lambda path: images.load(path.read_bytes(), "a", 224),
  ),
  f"{_ROWS} rows of Parquet, each with a text of 16 MiB": (
    _texts,
    lambda path: _all_of(arrow_files.rows(path)),
  ),
  "a compressed batch of Arrow of 480 MiB": (_batch, lambda path: _all_of(arrow_files.rows(path))),
  "a line of JSONL of 16 MiB": (_line, _read_line),
  "a cell of CSV of 16 MiB": (_cell, lambda path: _all_of(text_files.read(path, path.name, Problems()))),
  "a tokenizer.json of 64 MiB": (_tokenizer, tokenizer_files.read_tokenizer),
}
"""What is read -> what makes it, and what reads it."""


def _memory(read: Callable[[pathlib.Path], object], path: pathlib.Path) -> int:
  """Returns the MiB that a process takes more at its largest than at its start."""
  began = os.open(path.with_suffix(".began"), os.O_RDWR | os.O_CREAT)
  process = os.fork()
  if process == 0:
    code = 1
    try:
      os.write(began, str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss).encode())
      read(path)
      code = 0
    finally:
      os._exit(code)
  _, status, usage = os.wait4(process, 0)
  if status:
    raise RuntimeError(f"{path} was not read")
  return (usage.ru_maxrss - int(os.pread(began, 100, 0))) >> 10


def main() -> None:
  parser = argparse.ArgumentParser()
  parser.add_argument("--only", default="")
  options = parser.parse_args()
  rows = []
  for name, (make, read) in BOUNDS.items():
    if options.only in name:
      with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "captions.csv")
        maker = os.fork()  # what it takes to make the input is not counted
        if maker == 0:
          make(path)
          os._exit(0)
        os.waitpid(maker, 0)
        rows.append((name, f"{path.stat().st_size / 1e6:,.2f} MB", f"{_memory(read, path):,} MiB"))
        print(*rows[-1], sep="  ", flush=True)
  report.write("bounds", "Memory of the largest allowed inputs", rows, ("input", "file", "memory"))


if __name__ == "__main__":
  main()
