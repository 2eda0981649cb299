"""XM3600's questions, 3,600 pictures in 36 languages, asked of an endpoint that answers 64 at once in 0.3 seconds each.

usage: python benchmarks/endpoint.py [--pictures=3600] [--slots=64] [--seconds=0.3]
The endpoint is a process of its own. It keeps pictures by their ids, as vLLM does, or does not, as most do.
"""

import argparse
import asyncio
import base64
import json
import multiprocessing
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import numpy as np
import report
from PIL import Image

from xmcap.languages import LANGUAGES

_SIDES = (480, 360)  # of noise, which as a JPEG has the bytes of a picture of XM3600
_ASKED = 6  # requests under way for four answers at once, so that some wait at the endpoint
_FEWER = 6  # of the pictures are sent with every question
_BARE = 60  # questions of each connection, for the endpoint's own rate
_SAMPLED = 2.0  # seconds between two looks at the memory
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Run(NamedTuple):
  """What a run took: seconds, also of its process, bytes sent, GiB early and at its end; the endpoint's own rate."""

  seconds: float
  cpu: float
  requests: int
  sent: int
  early: float
  late: float
  own: float


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--pictures", type=int, default=3_600)
  parser.add_argument("--slots", type=int, default=64)
  parser.add_argument("--seconds", type=float, default=0.3)
  arguments = parser.parse_args()
  rows = []
  with tempfile.TemporaryDirectory() as folder:
    for ids, pictures in ((True, arguments.pictures), (False, arguments.pictures // _FEWER)):
      corpus = _corpus(pathlib.Path(folder, f"corpus_{pictures}"), pictures)
      run = _run(corpus, pathlib.Path(folder, f"ids_{ids}"), ids, arguments.slots, arguments.seconds)
      rate = run.requests / run.seconds
      rows.append((
        "by id after the first" if ids else "with every question", f"{pictures:,}", f"{run.requests:,}",
        f"{run.sent / 1e9:.2f} GB",
        f"{rate:,.0f}", f"{rate / run.own:.2f}", f"{1e3 * run.cpu / run.requests:.2f} ms",
        f"{run.early:.2f}", f"{run.late:.2f}",
      ))  # fmt: skip
      print(*rows[-1], sep="  ", flush=True)
  report.write(
    "endpoint",
    f"Pictures asked about in {len(LANGUAGES)} languages at an endpoint",
    rows,
    columns=(
      "pictures are sent", "pictures", "requests", "bytes sent", "requests a second", "of the endpoint's own rate",
      "CPU time a request", "GiB at a tenth", "GiB at the end",
    ),
    notes=[
      f"The endpoint is a stub on this machine: {arguments.slots} answers at once in {arguments.seconds:g} s. Half as"
      " many more requests wait there. Its own rate is that of such bytes by bare sockets, on as many connections. Ours"
      " is of the whole command, with its start and the writing of captions."
    ],
  )  # fmt: skip


def _corpus(folder: pathlib.Path, pictures: int) -> pathlib.Path:
  (folder / "images").mkdir(parents=True)
  random = np.random.default_rng(0)
  with open(folder / "captions.jsonl", "w", encoding="utf-8") as lines:
    for number in range(pictures):
      key = f"{number:016x}"
      small = random.integers(0, 256, (_SIDES[1] // 2, _SIDES[0] // 2, 3), np.uint8)
      Image.fromarray(small).resize(_SIDES).save(folder / f"images/{key}.jpg", quality=80)
      captions = {language: {"caption": ["a caption"]} for language in LANGUAGES}
      lines.write(json.dumps({"image/key": key, **captions}) + "\n")
  return folder


def _run(corpus: pathlib.Path, out: pathlib.Path, ids: bool, slots: int, seconds: float) -> Run:
  ours, theirs = multiprocessing.Pipe()
  server = multiprocessing.get_context("spawn").Process(
    target=_serve, args=(theirs, ids, slots, seconds), daemon=True
  )
  server.start()
  out.mkdir()
  port, most = ours.recv(), slots * _ASKED // 4
  own = asyncio.run(
    _bare(port, most, "" if ids else base64.b64encode(next(corpus.glob("images/*")).read_bytes()).decode())
  )
  command = [
    sys.executable, "-m", "xmcap.cli", "caption", f"--endpoint=http://127.0.0.1:{port}/v1", "--model=stub",
    f"--corpus={corpus}", "--languages=all", "--prompt=xmcap", f"--max_requests={most}",
    f"--out={out}/captions.jsonl",
  ]  # fmt: skip
  began = time.perf_counter()
  total = len(LANGUAGES) * sum(1 for _ in (corpus / "captions.jsonl").open())
  journal, early, late, cpu = out / "captions.answers.jsonl", 0.0, 0.0, 0.0
  with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
    while process.poll() is None:
      status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
      if size := re.search(r"VmRSS:\s+(\d+)", status):
        late = max(late, int(size[1]) / 2**20)
      if not early and journal.exists() and sum(1 for _ in journal.open("rb")) > total / 10:
        early = late
      fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
      cpu = max(cpu, (int(fields[11]) + int(fields[12])) / 100)
      time.sleep(_SAMPLED)
  took = time.perf_counter() - began
  server.terminate()
  server.join()
  if process.returncode:
    raise SystemExit(f"xmcap caption ended with {process.returncode}")
  about = json.loads((out / "captions.provenance.json").read_text())
  return Run(took, cpu, about["requests"], about["bytes_sent"], early, late, own)


async def _bare(port: int, connections: int, picture: str) -> float:
  """Requests a second of the endpoint, of questions that are made beforehand."""
  text = {
    "type": "text",
    "text": "Describe this picture in Thai, in one short sentence. Write the sentence alone.",
  }
  image = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}, "uuid": "0" * 32}
  body = json.dumps(
    {"model": "stub", "messages": [{"role": "user", "content": [image, text]}], "max_tokens": 96}
  ).encode()
  head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n".encode()

  async def ask() -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(_BARE):
      writer.write(head + body)
      length = _LENGTH.search(await _head(reader))
      await reader.readexactly(int(length[1]))
    writer.close()

  began = time.perf_counter()
  await asyncio.gather(*(ask() for _ in range(connections)))
  return _BARE * connections / (time.perf_counter() - began)


# ---- the endpoint ----------------------------------------------------------------------------------


def _serve(connection, ids: bool, slots: int, seconds: float) -> None:
  asyncio.run(_listen(connection, ids, slots, seconds))


async def _listen(connection, ids: bool, slots: int, seconds: float) -> None:
  places, kept = asyncio.Semaphore(slots), {}

  async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await _head(reader):
      length = _LENGTH.search(head)
      body = await reader.readexactly(int(length[1])) if length else b""
      status, content = (
        (200, {"data": [{"id": "stub"}]}) if not body else _answer(json.loads(body), ids, kept)
      )
      async with places:
        await asyncio.sleep(seconds if body else 0)
      data = json.dumps(content).encode()
      writer.write(
        b"HTTP/1.1 %d .\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(data))
        + data
      )
      await writer.drain()
    writer.close()

  server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 22)
  connection.send(server.sockets[0].getsockname()[1])
  await server.serve_forever()


async def _head(reader: asyncio.StreamReader) -> bytes:
  try:
    return await reader.readuntil(b"\r\n\r\n")
  except (asyncio.IncompleteReadError, ConnectionError):
    return b""


def _answer(asked, ids: bool, kept: dict[str, str]):
  """A caption that names the picture, so that the model is believed to see."""
  picture, text = asked["messages"][-1]["content"]
  url, name = (picture["image_url"] or {}).get("url"), picture.get("uuid") if ids else None
  if url is None and name not in kept:
    return 400, {"error": {"message": "Cache miss for image 0" if ids else "Invalid base64 value"}}
  about = url[-40:-20] if url else kept[name]
  if name:
    kept[name] = about
  message = {"role": "assistant", "content": f"{text['text'].split()[0]} {about}"}
  usage = {"prompt_tokens": 300, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 256}}
  return 200, {
    "model": "stub",
    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    "usage": usage,
  }


if __name__ == "__main__":
  main()
