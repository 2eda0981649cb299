"""Honest clients of `xmcap serve` while others attack it, in each of seven ways; with --before, also on older code.

usage: python benchmarks/serving_attacks.py [--model_dir=runs/quickstart/model] [--before=FOLDER] [--seconds=60]
Without a model, a stand-in takes 20 ms for a call, as an accelerator would, so that the server alone is measured.
Honest clients keep their connections, send a picture, read its caption and wait a little. A request is lost if they get
no caption within --patience. Their load without an attack comes just before each attack, on the same server. The server
starts with 1,024 open files, as on most machines. A server that does not recover within some seconds is started anew.
"""

import argparse
import asyncio
import contextlib
import http.client
import io
import json
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import photographs
import report
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
CAPTIONS = "/v1/captions?languages=en"


# ---- the attacks, in a process of their own ----

Client = Callable[["Attack", socket.socket], Awaitable[None]]


class Attack:
  """Clients of one kind, each of which connects again when its connection has ended."""

  def __init__(self, place: tuple[str, int], picture: bytes):
    self.place, self.picture, self.large = place, picture, b""
    self.counts = {"connections": 0, "answers": 0}

  async def run(self, client: Client, clients: int, pause: float) -> None:
    """Says when it begins, and attacks until stdin ends; a client waits `pause` seconds before it connects again."""
    self.tasks = [asyncio.create_task(self._again(client, pause)) for _ in range(clients)]
    while self.counts["connections"] < clients / 2 and not any(task.done() for task in self.tasks):
      await asyncio.sleep(0.1)
    print("attacking", flush=True)
    await asyncio.to_thread(sys.stdin.read)

  async def _again(self, client: Client, pause: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
      connection = socket.socket()
      connection.setblocking(False)
      # Small, so that the server's side is soon full.
      connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
      with contextlib.closing(connection), contextlib.suppress(OSError):
        await loop.sock_connect(connection, self.place)
        self.counts["connections"] += 1
        await client(self, connection)
      await asyncio.sleep(pause)

  async def answer(self, connection: socket.socket) -> None:
    """Reads until the connection ends."""
    found = b""
    while came := await asyncio.get_running_loop().sock_recv(connection, 65536):
      found += came
    self.counts["answers"] += found.startswith(b"HTTP/1.1 200 ")


def head_of_picture(length: int, more: str = "") -> bytes:
  """The head of a request whose body has this length, with `more` lines."""
  return f"POST {CAPTIONS} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {length}\r\n\r\n".encode()


def _post(body: bytes, length: int | None = None, more: str = "") -> bytes:
  return head_of_picture(length or len(body), more) + body


async def _send(connection: socket.socket, data: bytes) -> None:
  await asyncio.get_running_loop().sock_sendall(connection, data)


async def _trickle(connection: socket.socket, seconds: float) -> None:
  """Sends a byte at a time until the server answers or ends the connection."""
  ended = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(connection, 1))
  try:
    while not (await asyncio.wait([ended], timeout=seconds))[0]:
      await _send(connection, b"x")
  finally:
    ended.cancel()


async def no_reads(attack: Attack, connection: socket.socket) -> None:
  """Asks for captions between large files, and reads nothing: a caption is the first that does not fit."""
  while True:
    await _send(connection, b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n" + _post(attack.picture))


async def slow_heads(attack: Attack, connection: socket.socket) -> None:
  """Sends a head that does not end."""
  await _send(connection, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
  await _trickle(connection, 1)


async def slow_bodies(attack: Attack, connection: socket.socket) -> None:
  """Sends a picture that does not end."""
  await _send(connection, _post(b"\x89PNG", 1_000_000))
  await _trickle(connection, 0.5)


async def huge_heads(attack: Attack, connection: socket.socket) -> None:
  """Sends heads of a megabyte in one piece."""
  await _send(connection, _post(attack.picture, more=f"X: {'x' * 1_000_000}\r\nConnection: close\r\n"))
  await attack.answer(connection)


async def idle(attack: Attack, connection: socket.socket) -> None:
  """Connects, and says nothing."""
  await attack.answer(connection)


async def large_pictures(attack: Attack, connection: socket.socket) -> None:
  """Sends a small file of the most pixels, with transparency, until it is refused or captioned."""
  data = io.BytesIO()
  if not attack.large:
    Image.new("RGBA", (5_000, 8_000), (9, 9, 9, 99)).save(data, "PNG", compress_level=1)
    attack.large = data.getvalue()
  await _send(connection, _post(attack.large, more="Connection: close\r\n"))
  await attack.answer(connection)


async def half_closed(attack: Attack, connection: socket.socket) -> None:
  """Says all that it has to say, and reads."""
  await _send(connection, _post(attack.picture, more="Connection: close\r\n"))
  connection.shutdown(socket.SHUT_WR)
  await attack.answer(connection)


ATTACKS: dict[str, tuple[str, Client, int, float]] = {
  "no_reads": ("160 clients that do not read", no_reads, 160, 1),
  "slow_heads": ("1,000 slow heads", slow_heads, 1_000, 0),
  "slow_bodies": ("256 slow bodies", slow_bodies, 256, 0.5),
  "huge_heads": ("32 clients with heads of 1 MB", huge_heads, 32, 0.1),
  "idle": ("6,000 idle connections", idle, 6_000, 1),
  "large_pictures": ("64 clients with pictures of 40 million pixels", large_pictures, 64, 0),
  "half_closed": ("64 half-closed clients", half_closed, 64, 0.2),
}
"""By name: words, what a client does, their number, and seconds until it connects again."""


def _attack(name: str, place: str) -> None:
  soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
  address = urlsplit(place)
  attack = Attack((address.hostname or "", address.port or 0), photographs.picture(99))
  _, client, clients, pause = ATTACKS[name]
  asyncio.new_event_loop().run_until_complete(attack.run(client, clients, pause))
  print(json.dumps(attack.counts), flush=True)
  os._exit(0)  # all connections end at once


# ---- the server, and its honest clients ----


class Memory:
  """The memory of a process, in MiB."""

  def __init__(self, process: int):
    self._process = process

  def forget_peak(self) -> float:
    """Starts a new measurement of the largest memory; returns that in use now."""
    pathlib.Path(f"/proc/{self._process}/clear_refs").write_text("5")
    return self._read("VmRSS")

  def peak(self) -> float:
    """The largest memory since then."""
    return self._read("VmHWM")

  def _read(self, name: str) -> float:
    status = pathlib.Path(f"/proc/{self._process}/status").read_text()
    found = re.search(rf"{name}:\s*(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


class Server:
  """`xmcap serve` of the code in a folder, in a process of its own; its log goes to a file."""

  def __init__(self, code: pathlib.Path, model_dir: str | None, log: pathlib.Path, **limits: float):
    self._log = log
    command = [sys.executable, "-m", "tests.serving.servers", "0.02", json.dumps(limits)]
    if model_dir:
      options = ["--port=0", "--searches=greedy", "--batch_size=4", "--batch_languages=1"]
      command = [
        sys.executable,
        "-m",
        "xmcap.cli",
        "serve",
        f"--model_dir={os.path.abspath(model_dir)}",
        *options,
      ]
    with log.open("wb") as file:
      self.process = subprocess.Popen(
        command, stderr=file, cwd=code, env={**os.environ, "PYTHONPATH": str(code)}, preexec_fn=_few_files
      )
    self.memory = Memory(self.process.pid)
    while not (found := re.search(r"(http://\S+) is ready", log.read_text(errors="replace"))):
      if self.process.poll() is not None:
        raise SystemExit(log.read_text(errors="replace"))
      time.sleep(1)
    self.place = found[1]

  def end(self) -> None:
    """Kills the server."""
    self.process.kill()
    self.process.wait()

  def said(self) -> int:
    """How long the log is, in bytes."""
    return self._log.stat().st_size


def _few_files() -> None:
  _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
  resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))


class Honest:
  """Clients that ask one by one for the caption of a photograph."""

  def __init__(self, server: Server, pictures: list[bytes], clients: int, patience: float):
    place = urlsplit(server.place)
    self._connect = lambda: http.client.HTTPConnection(place.hostname or "", place.port, timeout=patience)
    self._pictures = pictures
    self.times: list[float] = []
    self.lost = 0
    self._lock, self._over = threading.Lock(), threading.Event()
    self._threads = [threading.Thread(target=self._client, args=(number,)) for number in range(clients)]

  def run(self, seconds: float) -> "Honest":
    """Asks for some seconds, and waits for the last answers."""
    for thread in self._threads:
      thread.start()
    self._over.wait(seconds)
    self._over.set()
    for thread in self._threads:
      thread.join()
    return self

  @property
  def asked(self) -> int:
    """The number of requests."""
    return len(self.times) + self.lost

  @property
  def p95(self) -> float | None:
    """The 95th percentile of the time to a caption, in ms; None if there are too few."""
    return 1000 * statistics.quantiles(self.times, n=20)[18] if len(self.times) >= 20 else None

  def _client(self, number: int) -> None:
    connection = self._connect()
    while not self._over.is_set():
      began, number = time.perf_counter(), number + 1
      try:
        connection.request("POST", CAPTIONS, self._pictures[number % len(self._pictures)])
        answer = connection.getresponse()
        answer.read()
        is_good = answer.status == 200
      except (OSError, http.client.HTTPException) as error:
        connection.close()
        if isinstance(error, http.client.RemoteDisconnected) and time.perf_counter() - began < 0.5:
          continue  # an idle connection that the server closed in the meantime: browsers ask again, too
        is_good = False
      with self._lock:
        if is_good:
          self.times.append(time.perf_counter() - began)
        else:
          self.lost += 1
      self._over.wait(0.1 if is_good else 0.5)
    connection.close()


def _measured(server: Server, kind: str, pictures: list[bytes], options: argparse.Namespace) -> dict:
  """The honest load alone, under an attack, and after it."""
  alone = Honest(server, pictures, options.clients, options.patience).run(options.alone)
  before, said = server.memory.forget_peak(), server.said()
  command = [sys.executable, __file__, f"--attack={kind}", f"--place={server.place}"]
  attacking = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
  assert attacking.stdout is not None
  attacking.stdout.readline()  # the attack has begun
  time.sleep(5)
  attacked = Honest(server, pictures, options.clients, options.patience).run(options.seconds)
  counts = json.loads(attacking.communicate()[0])
  peak, said = server.memory.peak() - before, server.said() - said
  time.sleep(5)
  after = Honest(server, pictures, options.clients, 5).run(5)
  return {
    "alone": alone.p95, "p95": attacked.p95, "lost": attacked.lost, "asked": attacked.asked, "mib": peak,
    "said": said, "counts": counts, "recovered": after.lost == 0 and bool(after.times),
  }  # fmt: skip


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--model_dir")
  parser.add_argument("--before", type=pathlib.Path, help="folder with the older code")
  parser.add_argument("--seconds", type=float, default=60)
  parser.add_argument("--alone", type=float, default=20, help="seconds without an attack")
  parser.add_argument("--clients", type=int, default=4)
  parser.add_argument("--patience", type=float, default=20, help="seconds that a client waits")
  parser.add_argument("--only", type=lambda text: text.split(","), default=list(ATTACKS))
  parser.add_argument("--attack", help=argparse.SUPPRESS)
  parser.add_argument("--place", help=argparse.SUPPRESS)
  options = parser.parse_args()
  if options.attack:
    return _attack(options.attack, options.place)
  pictures = [photographs.picture(seed) for seed in range(8)]
  sides = {**({"before": options.before.resolve()} if options.before else {}), "now": ROOT}
  servers: dict[str, Server] = {}
  found: dict[tuple[str, str], dict] = {}
  with tempfile.TemporaryDirectory() as folder:
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", f"{folder}/programs")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    try:
      for kind in options.only:
        for side, code in sides.items():
          if side not in servers:
            servers[side] = Server(code, options.model_dir, pathlib.Path(folder, f"{side}-{kind}.log"))
          found[kind, side] = _measured(servers[side], kind, pictures, options)
          print(kind, side, found[kind, side], flush=True)
          _write(found, options)
          if not found[kind, side]["recovered"]:
            servers.pop(side).end()
    finally:
      for server in servers.values():
        server.end()


def _write(found: dict[tuple[str, str], dict], options: argparse.Namespace) -> None:
  rows = []
  for (kind, side), one in found.items():
    alone, p95 = (f"{value:,.0f}" if value else "-" for value in (one["alone"], one["p95"]))
    ratio = f"{one['p95'] / one['alone']:.1f}" if one["p95"] and one["alone"] else "-"
    lost = f"{one['lost']:,} of {one['asked']:,}"
    rows.append(
      (ATTACKS[kind][0], side, alone, p95, ratio, lost, f"{one['mib']:,.0f}", f"{one['said'] / 1e3:,.0f}")
    )
  notes = [
    f"Each attack lasts {options.seconds:g} s, beside {options.clients} honest clients, which wait for"
    f" {options.patience:g} s. A refusal counts as lost. Clients and server share the cores with other work.",
    "Times to a caption in ms; p95 of the requests that were answered; -: fewer than 20 were.",
  ]
  for kind, side in [place for place in found if place[0] == "half_closed"]:
    counts = found[kind, side]["counts"]
    notes.append(
      f"Half-closed clients, {side}: {counts['answers']:,} of {counts['connections']:,} got their caption."
    )
  lame = [f"{ATTACKS[kind][0]} ({side})" for (kind, side), one in found.items() if not one["recovered"]]
  notes.append(f"Not all were answered five seconds after the attack: {', '.join(lame) or 'never'}.")
  columns = ("attack", "code", "p95 alone", "p95 attacked", "ratio", "lost", "MiB more", "log in KB")
  report.write(
    "serving_attacks",
    f"Server under attack ({'tiny model' if options.model_dir else 'stand-in for a model'}, CPU)",
    rows,
    columns,
    notes,
  )


if __name__ == "__main__":
  main()
