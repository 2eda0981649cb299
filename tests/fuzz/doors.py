"""What strangers' tables, tokenizers and requests meet first, called directly: a whole command takes seconds.

Each call ends as a command does: with 0, or with a line of error and its exit code. `serve` serves in the process of
the case, on a socket in its folder; a thread sends it the request of the case, and an honest one after it.
"""

import contextlib
import http.client
import io
import json
import logging
import os
import pathlib
import random
import signal
import socket
import sys
import tarfile
import threading
import time
from collections.abc import Callable

from tests.fuzz import strangers
from tests.fuzz.commands import Command
from tests.serving import servers
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import columnar, sources
from xmcap.corpora.folder.table import ColumnNames
from xmcap.errors import XmcapError
from xmcap.families.dual import text_input
from xmcap.families.dual.text_tower import TextConfig
from xmcap.reading.packed import Packed
from xmcap.serving import app as app_lib
from xmcap.serving import server
from xmcap.serving.batching import Batching
from xmcap.serving.limits import Limits
from xmcap.serving.model import ServedModel
from xmcap.terminal import shown

_GOOD = b"HTTP/1.1 200 "
_TEXTS = ("a dog", "", "☃ 字 ﷺ e\u0301", "a" * 60 + "b", "a b " * 2000, "\x00\u200d\U0001f600")
_STATUSES = {200, 307, 400, 403, 404, 405, 408, 413, 415, 422, 429, 431, 499, 501, 503, 504}
_WAIT = 60.0  # seconds until an answer is missed; the limits of the server are shorter
_TRIES = 5  # of an honest request, whose bytes may be late on a machine that does more


def _as_command(work: Callable[[pathlib.Path], None]) -> Callable[[list[str]], int]:
  def call(arguments: list[str]) -> int:
    try:
      work(pathlib.Path(arguments[-1]))
    except XmcapError as error:
      print(f"xmcap: error: {shown(error, limit=None)}", file=sys.stderr)
      return error.exit_code
    return 0

  return call


def _read_table(path: pathlib.Path) -> None:
  problems, columns = Problems(), ColumnNames(default_language="en")
  files = sources.find(path, columns).files
  with (
    tarfile.open(fileobj=io.BytesIO(), mode="w") as archive,
    contextlib.closing(Packed(archive, [path])) as packed,
  ):
    _, rows = columnar.read(files, columns, path.name, problems, packed)
    for row in rows:
      json.dumps([row.key, row.split, row.image, list(row.captions)], default=str).encode()


def _read_tokenizer(folder: pathlib.Path) -> None:
  config = TextConfig(64, 16, 1, 16, 2, 16, mask_padding=False)
  found = text_input.open_pretrained(folder, config)
  if found is None:
    return
  for texts in (_TEXTS, ["one"], list(_TEXTS) * 20):
    encoded, _ = found.encode_all(texts)
    assert len(encoded) == len(texts) and all(len(ids) <= 16 and min(ids, default=0) >= 0 for ids in encoded)


def _serve(path: pathlib.Path) -> None:
  captioner = servers.Fake(0.0)
  searches = {"greedy": "greedily", "sample": servers.Chance()}
  model = ServedModel("fake", servers.SIZE, searches)
  limits = Limits(upload_seconds=1, caption_seconds=20, idle_seconds=1, send_seconds=1)
  app, service = app_lib.make(model, limits, Batching(), server.hosts("127.0.0.1"))
  place = f"{path.name}.socket"
  bound = socket.socket(socket.AF_UNIX)
  bound.bind(place)
  data = path.read_bytes() if path.is_file() else b""
  said: list[Exception] = []

  def talk() -> None:
    try:
      _attack(place, data)
      answer = next((found for found in (_ask(place) for _ in range(_TRIES)) if found.startswith(_GOOD)), b"")
      assert answer, "an honest request got no captions"
    except Exception as error:
      said.append(error)
    finally:
      os.kill(os.getpid(), signal.SIGTERM)

  logging.getLogger("asyncio").setLevel(logging.CRITICAL)
  server.run(app, service, bound, lambda: captioner, lambda: None, threading.Thread(target=talk).start)
  if said:
    raise said[0]


def _attack(place: str, data: bytes) -> None:
  """Sends a request in pieces, perhaps closes one side, and checks what comes back."""
  rng = random.Random(data)
  method = data.partition(b" ")[0].decode("ascii", "replace")
  with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(_WAIT)
    client.connect(place)
    try:
      for _ in range(rng.choice((1, 1, 2, 4))):
        cut = rng.randrange(len(data) + 1)
        client.sendall(data[:cut])
        data = data[cut:]
        time.sleep(0.001)
      client.sendall(data)
      if rng.random() < 0.3:
        client.shutdown(socket.SHUT_WR)
      if rng.random() < 0.1:
        return
      answer = b""
      while piece := client.recv(1 << 16):
        answer += piece
    except (BrokenPipeError, ConnectionResetError):  # it may end a connection that makes no sense
      return
  if answer:
    _check(answer, method)


class _Answer(io.BytesIO):
  """What `http.client` takes for a socket."""

  def makefile(self, mode: str) -> io.BytesIO:
    return self


def _check(answer: bytes, method: str) -> None:
  """Raises AssertionError if the first answer is none over HTTP, or an error that is not a line of JSON."""
  response = http.client.HTTPResponse(_Answer(answer), method=method)  # pyright: ignore[reportArgumentType]
  response.begin()
  assert response.status in _STATUSES, f"status {response.status}"
  body = response.read()
  if response.status >= 400 and body:
    error = json.loads(body)["error"]
    assert "\n" not in error and len(error) < 4000, error[:200]
  print(response.status)


def _ask(place: str) -> bytes:
  """Returns the answer to an honest request."""
  body = servers.picture()
  with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(_WAIT)
    client.connect(place)
    head = f"POST /v1/captions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    answer = b""
    while piece := client.recv(1 << 16):
      answer += piece
  return answer


def _commands(name: str, folder: str, files, call, weight: float) -> list[Command]:
  """A command for each file, which is all that is damaged."""
  return [
    Command(
      name, [f"{folder}/{file}"], lambda rng, file=file: [f"{folder}/{file}"], None, weight / len(files),
      limit=20.0, writes=("out", f"{file}.socket"), leaves=False, call=_as_command(call),
    )
    for file in files
  ]  # fmt: skip


DOORS = (
  *_commands("table", "tables", strangers.TABLES, _read_table, 5),
  *_commands("tokenizer", "towers", strangers.TOWERS, _read_tokenizer, 3),
  *_commands("serve", "requests", strangers.REQUESTS, _serve, 2),
)
"""The calls, by their weights."""
