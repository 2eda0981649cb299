import http.server
import threading
import time

import pytest

from xmcap.errors import RestartError
from xmcap.training import stall, stopping


@pytest.fixture
def server(monkeypatch):
  """A metadata server; `preempted` is what it says."""

  class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
      assert self.path.startswith("/computeMetadata/v1/instance/preempted?wait_for_change=true")
      assert self.headers["Metadata-Flavor"] == "Google"
      while self.server.preempted == b"FALSE" and not self.server.ended:
        time.sleep(0.02)
      self.send_response(200)
      self.send_header("ETag", "1")
      self.end_headers()
      self.wfile.write(self.server.preempted)

    def log_message(self, *_):
      pass

  found = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
  found.preempted, found.ended = b"FALSE", False
  threading.Thread(target=found.serve_forever, daemon=True).start()
  monkeypatch.setenv("GCE_METADATA_HOST", f"localhost:{found.server_port}")
  yield found
  found.ended = True
  found.shutdown()


def test_a_preemption_notice_asks_the_run_to_stop(server):
  with stopping.stop_requests() as stop:
    time.sleep(0.1)
    assert not stop.asked(1)
    server.preempted = b"TRUE"
    deadline = time.monotonic() + 10
    while not stop.asked(2) and time.monotonic() < deadline:
      time.sleep(0.02)
    assert stop.name == stopping.NOTICE


def test_other_machines_have_no_metadata_server(monkeypatch):
  monkeypatch.delenv("GCE_METADATA_HOST", raising=False)
  assert stopping.metadata_server() is None


# ---- a source that stalls ---------------------------------------------------------------------------------------


class Source:
  directory, split = "gs://bucket/coco35l", "train"


class Stream:
  source = Source()


def test_a_source_that_stalls_is_named():
  patience = stall.Patience(0.1, stall.describe(Stream()))
  with pytest.raises(
    RestartError, match=r"^step 7: waited 0.1 s for data from Stream \(train of gs://bucket/coco35l\) on"
  ):
    patience.call(threading.Event().wait, "step 7")
  closed = []
  patience.close(type("Batches", (), {"close": lambda self: closed.append(1)})())
  assert not closed, "closing would wait for the read that hangs"


def test_results_and_errors_come_through_in_turn():
  patience = stall.Patience(30, "x")
  assert [patience.call(lambda n=n: n, "") for n in range(3)] == [0, 1, 2]
  with pytest.raises(StopIteration):
    patience.call(lambda: next(iter(())), "")
  assert patience.call(lambda: 5, "") == 5
  patience.close()


def test_no_limit():
  assert stall.Patience(0, "x").call(lambda: 1, "") == 1
