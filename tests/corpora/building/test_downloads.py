"""Downloads from a local server: resumed after an interruption, with size and SHA-256."""

import contextlib
import hashlib
import http.server
import re
import threading

import pytest

from xmcap.corpora.building import downloads
from xmcap.corpora.building.file_names import ReleasePart
from xmcap.errors import UsageError, XmcapError

DATA = bytes(range(256)) * 20_000


class Handler(http.server.BaseHTTPRequestHandler):
  """Serves `files`; sends at most `most` bytes an answer, and knows ranges if `ranges`."""

  files: dict[str, bytes]
  most: int
  ranges: bool
  status: int
  asked: list[str]

  def do_GET(self):
    data = self.files.get(self.path)
    self.asked.append(self.headers.get("Range", ""))
    if data is None or self.status != 200:
      self.send_error(404 if data is None else self.status)
      return
    match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
    start = int(match[1]) if match and self.ranges else 0
    if start and start >= len(data):
      self.send_error(416)
      return
    self.send_response(206 if start else 200)
    self.send_header("Content-Length", str(len(data) - start))
    self.end_headers()
    with contextlib.suppress(BrokenPipeError):
      self.wfile.write(data[start : start + self.most])

  def log_message(self, *arguments):
    pass


@pytest.fixture
def server(monkeypatch):
  monkeypatch.setattr(downloads.time, "sleep", lambda seconds: None)
  Handler.files, Handler.most, Handler.ranges, Handler.status, Handler.asked = (
    {"/data.bin": DATA},
    1 << 30,
    True,
    200,
    [],
  )
  running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
  thread = threading.Thread(target=running.serve_forever)
  thread.start()
  yield f"http://127.0.0.1:{running.server_address[1]}"
  running.shutdown()
  thread.join()
  running.server_close()


def test_download_reports_size_and_sha256(server, tmp_path):
  said = []
  downloads.fetch(f"{server}/data.bin", tmp_path, said.append)
  assert (tmp_path / "data.bin").read_bytes() == DATA
  assert said[0] == f"data.bin: 5,120,000 bytes from {server}/data.bin"
  assert said[-1] == f"data.bin: 5,120,000 bytes, SHA-256 {hashlib.sha256(DATA).hexdigest()}"
  assert [path.name for path in tmp_path.iterdir()] == ["data.bin"]


@pytest.mark.parametrize("ranges", [True, False])
def test_interrupted_download_resumes(server, tmp_path, ranges):
  Handler.most, Handler.ranges = 2_000_000, ranges
  if not ranges:
    (tmp_path / "data.bin.part").write_bytes(DATA[:1_000])
    Handler.most = 1 << 30
  downloads.fetch(f"{server}/data.bin", tmp_path, lambda line: None)
  assert (tmp_path / "data.bin").read_bytes() == DATA
  assert Handler.asked == (["", "bytes=2000000-", "bytes=4000000-"] if ranges else ["bytes=1000-"])


def test_failed_download_keeps_the_partial_file(server, tmp_path):
  (tmp_path / "data.bin.part").write_bytes(DATA[:1_000])
  Handler.status = 503
  with pytest.raises(XmcapError, match="cannot fetch .*data.bin: 503 .*start again to resume"):
    downloads.fetch(f"{server}/data.bin", tmp_path, lambda line: None)
  assert (tmp_path / "data.bin.part").read_bytes() == DATA[:1_000]
  assert len(Handler.asked) == 5


def test_complete_partial_download_is_renamed(server, tmp_path):
  (tmp_path / "data.bin.part").write_bytes(DATA)
  downloads.fetch(f"{server}/data.bin", tmp_path, lambda line: None)
  assert (tmp_path / "data.bin").read_bytes() == DATA


def test_download_of_a_wrong_url_is_refused(server, tmp_path):
  with pytest.raises(UsageError, match="other.bin: 404 .*fetch other.bin by hand"):
    downloads.fetch(f"{server}/other.bin", tmp_path, lambda line: None)
  with pytest.raises(UsageError, match="not an http or https URL"):
    downloads.fetch("file:///etc/passwd", tmp_path, lambda line: None)


def test_downloaded_file_is_named_as_its_url(server, tmp_path):
  part = ReleasePart(["first.json", "data.bin"], "", url=f"{server}/data.bin")
  downloads.fetch(part.url, tmp_path / "new", lambda line: None)
  assert [path.name for path in (tmp_path / "new").iterdir()] == ["data.bin"]
  assert part.find(tmp_path / "new") == tmp_path / "new" / "data.bin"
