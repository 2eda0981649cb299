"""An object store on loopback, for tests, benchmarks and rehearsals: Cloud Storage, and what TensorStore asks of S3.

`python -m tests.loopback_store FOLDER -- COMMAND ...` runs a command that finds the folders in FOLDER as buckets;
without a command it prints the variables that lead to it as JSON, and serves until it is stopped. It answers only what
has its token, which these variables hold: other users of the machine cannot read the buckets.
"""

import argparse
import collections
import contextlib
import http.server
import importlib.util
import json
import os
import pathlib
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

from tests.loopback_store.handler import Handler
from tests.loopback_store.objects import Objects

Fault = Callable[[Handler, bytes], bytes | None]
"""Given the answer's bytes, gives others; None: it has answered itself."""


class Store(http.server.ThreadingHTTPServer):
  """Serves the folders in a folder as buckets.

  Args:
    root: the folder of the buckets.
    latency: seconds that each request takes before it is answered.

  Attributes:
    folder: of `gs://bucket`, the bucket of tests.
    token: is the first word of a path, or S3's access key.
    host: the only one that it answers to.
    account: whom refusals name.
    refused: permission of Cloud Storage -> status of the refusal: 403, or 401 without credentials.
    faults: what goes wrong with the next reads of an object, by the end of its name: one fault a read.
    requests: (BUCKET/NAME, range) of each read so far.
    most_at_once: requests answered at the same time at most.
  """

  daemon_threads = True
  request_queue_size = 1024

  def __init__(self, root: pathlib.Path, latency: float = 0.0):
    super().__init__(("127.0.0.1", 0), Handler)
    self.root, self.latency = pathlib.Path(root), latency
    self.token = secrets.token_hex(16)
    self.host = f"127.0.0.1:{self.server_port}"
    self.folder = self.root / "bucket"
    self.objects = Objects(self.root)
    self.account = "run@project.iam.gserviceaccount.com"
    self.refused: dict[str, int] = {}
    self.uploads: dict[str, object] = {}
    self.faults: dict[str, collections.deque[Fault]] = collections.defaultdict(collections.deque)
    self.requests: list[tuple[str, str]] = []
    self.most_at_once = self.at_once = 0
    self.lock = threading.Lock()

  @property
  def url(self) -> str:
    return f"http://{self.host}/{self.token}"

  @property
  def environment(self) -> dict[str, str]:
    """The variables by which its clients find it, and need no credentials."""
    return {
      "AWS_ENDPOINT_URL": f"http://{self.host}",
      "AWS_ACCESS_KEY_ID": self.token,
      "AWS_SECRET_ACCESS_KEY": "loopback",
      "STORAGE_EMULATOR_HOST": self.url,
      "TENSORSTORE_GCS_HTTP_URL": self.url,
      # Without these, TensorStore and Google's client look for Google's metadata server for minutes.
      "GOOGLE_AUTH_TOKEN_FOR_TESTING": "loopback",
      "NO_GCE_CHECK": "true",
    }

  def refuse(self, *permissions: str, status: int = 403) -> None:
    """Refuses these permissions from now on, and no others."""
    self.refused = dict.fromkeys(permissions, status)

  def names(self, prefix: str = "") -> list[str]:
    """The names of the objects of `gs://bucket`."""
    return self.objects.names("bucket", prefix)

  def fault(self, name: str) -> Fault | None:
    """The fault of this read of an object."""
    with self.lock:
      for end, faults in self.faults.items():
        if name.endswith(end) and faults:
          return faults.popleft()
    return None

  def handle_error(self, request, client_address) -> None:
    pass  # a client that has given up


def slow(seconds: float) -> Fault:
  """The answer comes late."""

  def fault(handler: Handler, data: bytes) -> bytes:
    time.sleep(seconds)
    return data

  return fault


def unavailable(handler: Handler, data: bytes) -> None:
  """The store says that it is too busy."""
  handler.reply(503, b"<Error><Code>SlowDown</Code></Error>")


def cut(handler: Handler, data: bytes) -> None:
  """The connection ends in the middle of the answer."""
  handler.send_response(206)
  handler.send_header("Content-Length", str(len(data)))
  handler.end_headers()
  handler.wfile.write(data[: len(data) // 2])
  handler.wfile.flush()
  handler.close_connection = True


def corrupted(handler: Handler, data: bytes) -> bytes:
  """One bit in the middle of the answer is another one."""
  middle = len(data) // 2
  return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@contextlib.contextmanager
def served(root: pathlib.Path, latency: float = 0.0) -> Iterator[Store]:
  """A store in a thread of this process."""
  with Store(root, latency) as store:
    threading.Thread(target=store.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
      yield store
    finally:
      store.shutdown()


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m tests.loopback_store", description=__doc__)
  parser.add_argument("folder", type=pathlib.Path)
  parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
  parser.add_argument("command", nargs="*", metavar="-- COMMAND")
  arguments = parser.parse_args()
  if importlib.util.find_spec("google_crc32c") is None:
    parser.error("google-crc32c is not installed: install xmcap[train]")
  if not arguments.folder.is_dir():
    parser.error(f"{arguments.folder}: no such folder")
  with served(arguments.folder, arguments.latency) as store:
    if arguments.command:
      signal.signal(signal.SIGINT, lambda *_: None)  # the command's own; its exit code is this one's
      return subprocess.run(
        arguments.command, env={**os.environ, **store.environment}, check=False
      ).returncode
    print(json.dumps(store.environment), flush=True)
    threading.Event().wait()
  return 0
