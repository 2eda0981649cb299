"""Limits on uploads to `xmcap serve`: decompression bombs, sizes, slow bodies, timeouts and full queues."""

import asyncio
import contextlib
import select
import socket
import struct
import threading
import time
import zlib
from urllib.parse import urlsplit

import pytest

from tests.make import images
from tests.serving import servers
from xmcap import processes
from xmcap.serving import limits as limits_lib


@pytest.fixture(scope="module")
def server():
  with servers.fake(upload_bytes=1 << 20, pixels=1_000_000, upload_seconds=2, idle_seconds=2) as running:
    yield running
    assert running.ask(servers.picture()).status == 200
    assert running.process.poll() is None


def many_scans():
  """A progressive JPEG whose last scan comes 300 times."""
  whole = images.noise((64, 64), kind="JPEG", progressive=True)
  last = whole.rindex(b"\xff\xda")
  return whole[:last] + whole[last:-2] * 300 + whole[-2:]


ZEROS = zlib.compress(bytes(30_000_000), 9)
BOMBS = {
  "many pixels, honestly": servers.picture(size=(2000, 600)),
  "many pixels, by the header": images.png(60_000, 60_000, (b"IDAT", ZEROS)),
  "more data than pixels": images.huge(900, 900),
  "a large text": images.png(9, 9, *[(b"zTXt", b"k\0\0" + ZEROS)] * 3, (b"IDAT", b"")),
  "a wide GIF": b"GIF89a" + struct.pack("<HH", 65_535, 65_535) + b"\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\0;",
  "a tall BMP": b"BM"
  + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, 50_000, 50_000, 1, 24, 0, 0, 0, 0, 0, 0),
  "many scans": many_scans(),
  "a script that begins as a GIF": b"GIF89a/*\0\0\0,*/=1;alert(document.domain)//" + bytes(99),
  "a page": b"<html><script>alert(1)</script></html>",
  "an SVG that names a file": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
  "a program in PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n",
  "half a picture": servers.picture(size=(300, 300))[:200],
  "an archive": b"PK\x03\x04" + bytes(200),
}


@pytest.mark.parametrize("name", BOMBS)
def test_upload_of_a_bomb_or_non_image_is_422(server, name):
  answer = server.ask(BOMBS[name])
  assert answer.status == 422 and not answer.error.startswith("picture")


def test_upload_of_an_address_is_not_followed(server):
  answer = server.ask(b"http://169.254.169.254/latest/meta-data")
  assert answer.status == 415 and "address" in answer.error


@pytest.mark.parametrize("tail", [b"PK\x03\x04" + bytes(99), b"<script>alert(1)</script>"])
def test_upload_of_a_polyglot_image_is_captioned_as_json(server, tail):
  answer = server.ask(servers.picture(50) + tail)
  assert answer.json["captions"] == {"en": "en 50 1 greedily"}
  assert answer.headers["content-type"] == "application/json"
  assert answer.headers["x-content-type-options"] == "nosniff"


def test_upload_of_100_megabytes_is_413(server):
  whole, chunks = bytes(100 << 20), (bytes(1 << 20) for _ in range(100))
  for answer in map(server.ask, (whole, chunks)):
    assert answer.status == 413 and "1,048,576 bytes" in answer.error


def sent(server, *parts, pause=0.2):
  """What comes back for bytes that are sent part by part."""
  place = urlsplit(server.address)
  with socket.create_connection((place.hostname, place.port), timeout=120) as connection:
    with contextlib.suppress(ConnectionError):
      for part in parts:
        connection.sendall(part)
        time.sleep(pause)
    return b"".join(iter(lambda: connection.recv(65_536), b""))


HEAD = b"POST /v1/captions HTTP/1.1\r\nHost: localhost\r\n"


def test_slow_upload_is_408(server):
  came = sent(server, HEAD + b"Content-Length: 1000\r\n\r\n", *[b"x"] * 5, pause=0.6)
  assert came.startswith(b"HTTP/1.1 408 ") and b"did not arrive within 2 s" in came


def test_upload_shorter_than_content_length_leaves_the_server_running(server):
  with contextlib.closing(server.connect()) as connection:
    connection.connect()
    connection.sock.sendall(HEAD + b"Content-Length: 1000\r\n\r\nx")
  assert server.ask(servers.picture()).status == 200


@pytest.mark.parametrize(
  "head",
  [
    b"\x16\x03\x01\x02\x00\x01" * 9 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000,
    HEAD + b"Content-Length: -1\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
  ],
)
def test_malformed_http_request_is_400(server, head):
  came = sent(server, head, pause=0)
  assert came.startswith(b"HTTP/1.1 400 ") and came.endswith(b'{"error": "invalid http request received"}')


def test_slow_request_head_is_disconnected(server):
  place = urlsplit(server.address)
  with socket.create_connection((place.hostname, place.port), timeout=120) as connection:
    with contextlib.suppress(ConnectionError):
      while not select.select([connection], [], [], 0.1)[0]:
        connection.sendall(b"G")
    with contextlib.suppress(ConnectionError):
      assert connection.recv(99) == b""


def test_full_queue_is_429_with_retry_after():
  with servers.fake(delay=4, queue=2) as running:
    held = [running.connect() for _ in range(2)]
    for connection in held:
      connection.request("POST", "/v1/captions", servers.picture())
    while running.metric("xmcap_queue") < 2:
      time.sleep(0.02)
    answer = running.ask(servers.picture())
    assert (
      answer.status == 429 and answer.headers["retry-after"] and "2 requests are in progress" in answer.error
    )
    assert [connection.getresponse().status for connection in held] == [200, 200]
    assert running.ask(servers.picture()).status == 200


def test_caption_timeout_is_504():
  with servers.fake(delay=1.0, caption_seconds=0.3) as running:
    answer = running.ask(servers.picture())
    assert answer.status == 504 and "0.3 s" in answer.error


def test_decoding_of_a_small_image_does_not_wait_for_large_images(monkeypatch):
  wait = threading.Event()

  def load(data, key, size, max_pixels):
    if data != small:
      wait.wait(120)
    return data

  monkeypatch.setattr(limits_lib.images, "load", load)
  monkeypatch.setattr(limits_lib, "LARGE", 1_000)
  small, large = servers.picture(size=(20, 20)), servers.picture(size=(40, 40))
  decoders = limits_lib.DecodingThreads(limits_lib.Limits(queue=2 * (processes.available_cores() + 1)))

  async def main():
    held = [asyncio.create_task(decoders.decode(large, 8)) for _ in range(processes.available_cores() + 1)]
    try:
      assert await asyncio.wait_for(decoders.decode(small, 8), 120) == small
      with pytest.raises(limits_lib.Refused, match="large pictures are in progress"):
        await decoders.decode(large, 8)
    finally:
      wait.set()
    assert await asyncio.gather(*held) == [large] * len(held)
    assert await decoders.decode(large, 8) == large

  asyncio.run(main())
  decoders.shutdown()
