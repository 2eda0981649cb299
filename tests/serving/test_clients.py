"""Slow, idle and malformed clients of `xmcap serve`: limits on connections, sends, uploads and request heads."""

import contextlib
import json
import socket
import time
from urllib.parse import urlsplit

import pytest

from tests.serving import servers
from xmcap.serving import app as app_lib


def connected(server, **options):
  connection = socket.socket()
  for option, value in options.items():
    connection.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
  place = urlsplit(server.address)
  connection.connect((place.hostname, place.port))
  connection.settimeout(120)
  return connection


def request(body=b"", path="/v1/captions", method="POST", extra=b""):
  return b"%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s" % (
    method.encode(), path.encode(), extra, len(body), body,
  )  # fmt: skip


def until(condition, seconds=120):
  began = time.monotonic()
  while not condition():
    assert time.monotonic() - began < seconds
    time.sleep(0.05)


def is_ended(connection, data):
  """Sends data without waiting for room; returns whether the server has ended the connection."""
  try:
    while connection.send(data):
      pass
  except BlockingIOError:
    return False
  except ConnectionError:
    return True


def test_server_closes_the_connection_of_a_client_that_does_not_read():
  asked = request(path="/page.js", method="GET")
  with (
    servers.fake(send_seconds=0.5) as server,
    contextlib.closing(connected(server, SO_RCVBUF=1024)) as connection,
  ):
    connection.setblocking(False)
    until(lambda: is_ended(connection, asked))


def test_server_answers_others_while_a_client_does_not_read():
  asked = request(servers.picture(), "/v1/captions?languages=all&stream=true")
  with (
    servers.fake(queue=1, send_seconds=60) as server,
    contextlib.closing(connected(server, SO_RCVBUF=1024)) as connection,
  ):
    connection.setblocking(False)
    for _ in range(20):
      is_ended(connection, asked)
      time.sleep(0.1)
    until(lambda: server.ask(servers.picture()).status == 200)


def test_server_closes_idle_connections_at_the_limit():
  with servers.fake(descriptors=260, idle_seconds=600) as server, contextlib.ExitStack() as stack:
    for _ in range(400):
      stack.enter_context(contextlib.closing(connected(server)))
    assert server.ask(servers.picture()).status == 200
    server.process.terminate()
    assert "too many open files" not in server.process.communicate(timeout=120)[1]


def test_server_refuses_connections_beyond_the_limit_with_503():
  with servers.fake(delay=4, descriptors=200, idle_seconds=60) as server, contextlib.ExitStack() as stack:
    busy = [stack.enter_context(contextlib.closing(connected(server))) for _ in range(8)]  # 200 - 128 - 64
    for connection in busy:
      connection.sendall(request(servers.picture()))
    time.sleep(0.3)
    with contextlib.closing(connected(server)) as late:
      came = b"".join(iter(lambda: late.recv(4096), b""))
    assert came.startswith(b"HTTP/1.1 503 ") and json.loads(came.partition(b"\r\n\r\n")[2])[
      "error"
    ].startswith("8 ")
    assert all(connection.recv(4096).startswith(b"HTTP/1.1 200 ") for connection in busy)


def test_server_closes_connections_that_do_not_read_at_the_limit():
  asked = request(path="/page.js", method="GET") * 9
  with (
    servers.fake(descriptors=200, idle_seconds=60, send_seconds=60) as server,
    contextlib.ExitStack() as stack,
  ):
    for _ in range(8):  # 200 - 128 - 64
      connection = stack.enter_context(contextlib.closing(connected(server, SO_RCVBUF=1024)))
      connection.setblocking(False)
      for _ in range(20):
        is_ended(connection, asked)
        time.sleep(0.05)
    assert server.ask(servers.picture()).status == 200


def test_server_drops_the_slowest_upload_when_the_queue_is_full():
  with servers.fake(queue=2, upload_seconds=60) as server, contextlib.ExitStack() as stack:
    slow, slower = [stack.enter_context(contextlib.closing(connected(server))) for _ in range(2)]
    slow.sendall(request(bytes(1000))[:-1])
    slower.sendall(request(bytes(1000))[:-500])
    until(lambda: server.metric("xmcap_queue") == 2)
    time.sleep(0.3)
    assert server.ask(servers.picture()).status == 200
    came = b"".join(iter(lambda: slower.recv(4096), b""))
    assert came.startswith(b"HTTP/1.1 408 ")
    assert "arrived slowest" in json.loads(came.partition(b"\r\n\r\n")[2])["error"]
    slow.sendall(b"\0")
    assert slow.recv(4096).startswith(b"HTTP/1.1 422 ")


@pytest.fixture(scope="module")
def server():
  with servers.fake(delay=0.3) as running:
    yield running


def test_server_answers_a_half_closed_connection(server):
  with contextlib.closing(connected(server)) as connection:
    connection.sendall(request(servers.picture(50)))
    connection.shutdown(socket.SHUT_WR)
    came = b"".join(iter(lambda: connection.recv(4096), b""))
  assert json.loads(came.partition(b"\r\n\r\n")[2])["captions"] == {"en": "en 50 1 greedily"}


@pytest.mark.parametrize("where", ["path", "query", "header", "method", "megabyte"])
def test_server_refuses_an_oversized_request_head(server, where):
  large = "x" * 20_000
  asked = {
    "path": request(path=f"/{large}", method="GET"),
    "query": request(path=f"/health?{large}", method="GET"),
    "header": request(path="/health", method="GET", extra=f"X: {large}\r\n".encode()),
    "method": request(path="/health", method=large),
    "megabyte": request(path="/health", method="GET", extra=b"X: %s\r\n" % (b"x" * 1_000_000)),
  }[where]
  with contextlib.closing(connected(server)) as connection:
    connection.sendall(asked.replace(b"Host:", b"Connection: close\r\nHost:"))
    came = b"".join(iter(lambda: connection.recv(4096), b""))
  # In one piece, or in several: h11 refuses the latter.
  assert came.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
  assert "error" in json.loads(came.partition(b"\r\n\r\n")[2])


def test_server_errors_are_one_line_of_json(server):
  for answer in (
    server.get("/nothing"),
    server.get("/", Host="elsewhere.example"),
    server.get("/v1/captions"),
  ):
    assert answer.status >= 400 and answer.error


@pytest.mark.parametrize(
  ("host", "name"),
  [
    ("localhost", "localhost"),
    ("LocalHost:8080", "localhost"),
    ("127.0.0.1:80", "127.0.0.1"),
    ("[::1]:8080", "[::1]"),
    ("[::1]", "[::1]"),
    ("a.example:", "a.example:"),
    ("", ""),
  ],
)
def test_host_header_is_parsed_into_a_name(host, name):
  assert app_lib._name(host) == name
