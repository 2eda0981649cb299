"""An object store on loopback, for tests and benchmarks: what TensorStore asks of S3 and of Cloud Storage.

`python -m tests.loopback_store FOLDER --latency=0.03` serves the folders in FOLDER as buckets, and prints its URL.
"""

import argparse
import collections
import contextlib
import hashlib
import http.server
import json
import pathlib
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from xml.sax.saxutils import escape

Fault = Callable[["_Handler", bytes], bytes | None]
"""Given the answer's bytes, gives others; None: it has answered itself."""


class Store(http.server.ThreadingHTTPServer):
  """Serves the folders in a folder as buckets.

  Args:
    folder: of the buckets.
    latency: seconds that each request takes before it is answered.

  Attributes:
    faults: what goes wrong with the next reads of an object, by the end of its name: one fault a read.
    requests: (path, range) of each read so far.
    most_at_once: reads answered at the same time at most.
  """

  daemon_threads = True
  request_queue_size = 1024

  def __init__(self, folder: pathlib.Path, latency: float = 0.0):
    super().__init__(("127.0.0.1", 0), _Handler)
    self.folder, self.latency = pathlib.Path(folder), latency
    self.faults: dict[str, collections.deque[Fault]] = collections.defaultdict(collections.deque)
    self.requests: list[tuple[str, str]] = []
    self.most_at_once = self.at_once = 0
    self.lock = threading.Lock()

  @property
  def url(self) -> str:
    return f"http://127.0.0.1:{self.server_port}"

  @property
  def environment(self) -> dict[str, str]:
    """The variables by which its clients find it."""
    return {
      "AWS_ENDPOINT_URL": self.url,
      "AWS_ACCESS_KEY_ID": "loopback",
      "AWS_SECRET_ACCESS_KEY": "loopback",
      "STORAGE_EMULATOR_HOST": self.url,
    }

  def fault(self, name: str) -> Fault | None:
    """The fault of this read of an object."""
    with self.lock:
      for end, faults in self.faults.items():
        if name.endswith(end) and faults:
          return faults.popleft()
    return None

  def handle_error(self, request, client_address) -> None:
    pass  # a client that has given up


class _Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"

  def do_GET(self) -> None:
    server = self.server
    with server.lock:
      server.at_once += 1
      server.most_at_once = max(server.most_at_once, server.at_once)
    try:
      time.sleep(server.latency)
      self._answer()
    finally:
      with server.lock:
        server.at_once -= 1

  do_HEAD = do_GET

  def do_PUT(self) -> None:
    """Writes an object of S3."""
    path = self.server.folder / urllib.parse.unquote(self.path).strip("/")
    path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
    self.reply(200, b"", {"ETag": '"written"'})

  def _answer(self) -> None:
    url = urllib.parse.urlsplit(self.path)
    query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
    parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
    if parts[:3] == ["storage", "v1", "b"]:
      bucket, key = parts[3], "/".join(parts[5:])
    else:
      bucket, key = parts[0], "/".join(parts[1:])
    if not key:
      self._list(bucket, query, json_format=parts[0] == "storage")
    elif parts[0] == "storage" and query.get("alt") != "media":
      self._state(self.server.folder / bucket / key)
    else:
      self._read(self.server.folder / bucket / key, f"{bucket}/{key}")

  def _list(self, bucket: str, query: dict[str, str], json_format: bool) -> None:
    root = self.server.folder / bucket
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    if json_format:
      first, end = query.get("startOffset", ""), query.get("endOffset", "\U0010ffff")
      self.reply(
        200, json.dumps({"items": [{"name": name} for name in names if first <= name < end]}).encode()
      )
      return
    held = "".join(
      f"<Contents><Key>{escape(name)}</Key><Size>{(root / name).stat().st_size}</Size></Contents>"
      for name in names
      if name.startswith(query.get("prefix", "")) and name > query.get("start-after", "")
    )
    self.reply(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{held}</ListBucketResult>".encode())

  def _state(self, path: pathlib.Path) -> None:
    if not path.is_file():
      self.reply(404, b"{}")
      return
    state = path.stat()
    held = {"name": path.name, "size": str(state.st_size), "generation": str(state.st_mtime_ns)}
    self.reply(200, json.dumps(held).encode())

  def _read(self, path: pathlib.Path, name: str) -> None:
    wanted = self.headers.get("Range", "")
    with self.server.lock:
      self.server.requests.append((name, wanted))
    if not path.is_file():
      self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
      return
    data, state = path.read_bytes(), path.stat()
    version = hashlib.md5(f"{state.st_mtime_ns} {state.st_size}".encode()).hexdigest()
    headers = {"ETag": f'"{version}"', "x-goog-generation": str(state.st_mtime_ns)}
    status = 200
    if wanted:
      first, _, last = wanted.removeprefix("bytes=").partition("-")
      start = int(first) if first else max(len(data) - int(last), 0)
      stop = min(int(last) + 1, len(data)) if first and last else len(data)
      if start >= len(data):
        self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        return
      headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
      data, status = data[start:stop], 206
    fault = self.server.fault(name)
    if fault is not None:
      data = fault(self, data)
    if data is not None:
      self.reply(status, data, headers)

  def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    self.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
      self.send_header(name, value)
    self.end_headers()
    if self.command != "HEAD":
      self.wfile.write(body)

  def log_message(self, *arguments) -> None:
    pass


def slow(seconds: float) -> Fault:
  """The answer comes late."""

  def fault(handler: _Handler, data: bytes) -> bytes:
    time.sleep(seconds)
    return data

  return fault


def unavailable(handler: _Handler, data: bytes) -> None:
  """The store says that it is too busy."""
  handler.reply(503, b"<Error><Code>SlowDown</Code></Error>")


def cut(handler: _Handler, data: bytes) -> None:
  """The connection ends in the middle of the answer."""
  handler.send_response(206)
  handler.send_header("Content-Length", str(len(data)))
  handler.end_headers()
  handler.wfile.write(data[: len(data) // 2])
  handler.wfile.flush()
  handler.close_connection = True


def corrupted(handler: _Handler, data: bytes) -> bytes:
  """One bit in the middle of the answer is another one."""
  middle = len(data) // 2
  return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@contextlib.contextmanager
def served(folder: pathlib.Path, latency: float = 0.0) -> Iterator[Store]:
  """A store in a thread of this process."""
  with Store(folder, latency) as store:
    threading.Thread(target=store.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
      yield store
    finally:
      store.shutdown()


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=pathlib.Path)
  parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
  arguments = parser.parse_args()
  with Store(arguments.folder, arguments.latency) as store:
    print(store.url, flush=True)
    store.serve_forever()


if __name__ == "__main__":
  main()
