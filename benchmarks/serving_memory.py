"""The largest memory of `xmcap serve`: the largest pictures that it takes, in as many requests as it takes.

usage: python benchmarks/serving_memory.py [--queue=128] [--seconds=60]
First each kind of picture with the most pixels is decoded in a process of its own. Then a server, with a stand-in for
its model, holds the bodies of all requests that it takes, each as large as it may be, and decodes them. The pictures
are of the kind that takes the most memory.
"""

import argparse
import contextlib
import io
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

import report
from PIL import Image
from serving_attacks import ROOT, Memory, Server, head_of_picture

from xmcap.data import images
from xmcap.serving.limits import Limits

LIMITS = Limits()
SHAPE = 5_000, LIMITS.pixels // 5_000
SIDE = 2_600  # of the model's pictures: so large that no JPEG is decoded at a smaller scale
KINDS = {
  "PNG, RGBA": ("RGBA", "PNG", {"compress_level": 1}),
  "PNG, RGBA, turned by EXIF": ("RGBA", "PNG", {"compress_level": 1, "exif": True}),
  "PNG, 16 bits": ("I;16", "PNG", {"compress_level": 1}),
  "JPEG, CMYK, progressive": ("CMYK", "JPEG", {"progressive": True}),
  "JPEG, CMYK, progressive, turned by EXIF": ("CMYK", "JPEG", {"progressive": True, "exif": True}),
  "GIF": ("P", "GIF", {"transparency": 0}),
  "WebP, RGBA, lossless": ("RGBA", "WEBP", {"lossless": True, "method": 0}),
}


def _picture(kind: str) -> bytes:
  mode, format, options = KINDS[kind]
  if options.get("exif"):
    exif = Image.Exif()
    exif[0x0112] = 6
    options = {**options, "exif": exif}
  data = io.BytesIO()
  Image.new(mode, SHAPE, 9 if mode in ("P", "I;16") else (9, 99, 9, 9)).save(data, format, **options)
  return data.getvalue()


def _decode(path: pathlib.Path) -> None:
  """Prints by how many bytes a pixel the memory of this process grows."""
  data = path.read_bytes()
  own = Memory(os.getpid())
  before = own.forget_peak()
  images.load(data, "k", SIDE, max_pixels=LIMITS.pixels)
  print((own.peak() - before) * 2**20 / LIMITS.pixels)


def _bytes_a_pixel(path: pathlib.Path) -> float:
  return float(subprocess.check_output([sys.executable, __file__, f"--decode={path}"], cwd=ROOT))


def _held(server: Server, data: bytes, queue: int, seconds: float) -> tuple[float, float, float]:
  """MiB of a server at rest; with the bodies of all requests but their last bytes; and when it has them whole."""
  place = urlsplit(server.place)
  rest = server.memory.forget_peak()
  with contextlib.ExitStack() as stack:
    connections = []
    for _ in range(queue):
      connection = stack.enter_context(socket.create_connection((place.hostname or "", place.port or 0)))
      connection.sendall(head_of_picture(len(data)) + data[:-1])
      connections.append(connection)
    held = server.memory.peak()
    for connection in connections:
      connection.sendall(data[-1:])
    time.sleep(seconds)
    return rest, held, server.memory.peak()


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--queue", type=int, default=LIMITS.queue)
  parser.add_argument("--seconds", type=float, default=60, help="for which the server decodes")
  parser.add_argument("--decode", type=pathlib.Path, help=argparse.SUPPRESS)
  options = parser.parse_args()
  if options.decode:
    return _decode(options.decode)
  found = {}
  with tempfile.TemporaryDirectory() as folder:
    for kind in KINDS:
      path = pathlib.Path(folder, re.sub(r"\W+", "_", kind))
      path.write_bytes(_picture(kind))
      found[kind] = _bytes_a_pixel(path), path
      print(kind, found[kind][0], flush=True)
    worst = max(found, key=lambda kind: found[kind][0])
    # The bytes behind the end of a picture are not looked at.
    data = found[worst][1].read_bytes().ljust(LIMITS.upload_bytes, b"\0")[: LIMITS.upload_bytes]
    server = Server(ROOT, None, pathlib.Path(folder, "log"), upload_seconds=600, queue=options.queue)
    try:
      rest, held, most = _held(server, data, options.queue, options.seconds)
    finally:
      server.end()
  bodies, cores = options.queue * LIMITS.upload_bytes / 2**20, len(os.sched_getaffinity(0))
  rows = [(f"decoding {kind}", f"{value:.1f} bytes a pixel") for kind, (value, _) in found.items()]
  rows += [
    ("the server at rest", f"{rest:,.0f} MiB"),
    (f"with {options.queue} bodies of {LIMITS.upload_bytes >> 20} MiB more", f"{held - rest:,.0f} MiB"),
    (f"with them, and decoding ({worst})", f"{most - rest:,.0f} MiB"),
    ("the bodies alone have", f"{bodies:,.0f} MiB"),
  ]
  notes = [
    f"Pictures of {LIMITS.pixels / 1e6:g} million pixels. The server has a stand-in for its model, and {cores} cores,"
    " half of which decode large pictures."
  ]
  report.write("serving_memory", "Memory of a server with all requests that it takes", rows, notes=notes)


if __name__ == "__main__":
  main()
