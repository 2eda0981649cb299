import http.server
import os
import signal
import threading
import time

import jax
import numpy as np
import pytest

from tests.training.test_loop import run
from xmcap.training.checkpoints import read
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.hosts import stopping


@pytest.fixture
def server(monkeypatch):
  """A metadata server; `preempted` is what it says."""

  class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
      assert self.path == "/computeMetadata/v1/instance/preempted"
      assert self.headers["Metadata-Flavor"] == "Google"
      self.send_response(200)
      self.end_headers()
      self.wfile.write(self.server.preempted)

    def log_message(self, *_):
      pass

  found = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
  found.preempted = b"FALSE"
  threading.Thread(target=found.serve_forever, daemon=True).start()
  monkeypatch.setenv("GCE_METADATA_HOST", f"localhost:{found.server_port}")
  monkeypatch.setattr(stopping, "_SECONDS", 0.05)
  yield found
  found.shutdown()


def test_a_preemption_notice_asks_the_run_to_stop(server):
  with stopping.stop_requests() as stop:
    time.sleep(0.1)
    assert not stop.asked()
    server.preempted = b"TRUE"
    deadline = time.monotonic() + 120
    while not stop.asked() and time.monotonic() < deadline:
      time.sleep(0.02)
    assert stop.name == stopping.NOTICE


def test_metadata_server_is_none_outside_gce(monkeypatch):
  monkeypatch.delenv("GCE_METADATA_HOST", raising=False)
  assert stopping.metadata_server() is None


# ---- a stop within an evaluation --------------------------------------------------------------------------------


class Evaluator:
  """Four batches; `on_batch` is told step and number."""

  def __init__(self, on_batch=lambda step, number: None):
    self.on_batch, self.batches = on_batch, []

  def run(self, params, step):
    for number in range(1, 5):
      stopping.evaluation_batch(f"batch {number}")
      self.batches.append((step, number))
      self.on_batch(step, number)
    yield "", "cider", step / 100


def stopped_within_an_evaluation(folder, step, policy):
  def stop(at, number):
    if (at, number) == (step, 2):
      os.kill(os.getpid(), signal.SIGTERM)

  evaluator = Evaluator(stop)
  result, lines = run(folder, evaluators=[evaluator], eval_every=7, checkpoint=policy)
  assert evaluator.batches[-1] == (step, 2), "the next batch is not begun"
  assert not result.finished and lines[-1].startswith(
    f"stopped by SIGTERM at step {step} of 20, everything is saved"
  )
  return result


@pytest.mark.parametrize("step", [14, 20])
def test_stopped_evaluation_is_repeated_on_restart(tmp_path, step):
  policy = CheckpointPolicy(every=0)
  stopped_within_an_evaluation(tmp_path / "a", step, policy)
  evaluator = Evaluator()
  result, lines = run(tmp_path / "a", evaluators=[evaluator], eval_every=7, checkpoint=policy)
  assert f"resuming from step {step}" in lines[0] and evaluator.batches[:4] == [
    (step, n) for n in range(1, 5)
  ]
  assert [step for step, number in evaluator.batches if number == 1] == sorted({step, 20})
  assert result.finished and result.metrics["cider"] == 0.2
  undisturbed, _ = run(tmp_path / "b", checkpoint=policy)
  jax.tree.map(np.testing.assert_array_equal, result.state, undisturbed.state)
  # Nothing is left to do.
  evaluator = Evaluator(lambda step, number: pytest.fail("evaluated again"))
  run(tmp_path / "a", evaluators=[evaluator], eval_every=7, checkpoint=policy)


def test_stopped_evaluation_has_no_metric_value(tmp_path):
  policy = CheckpointPolicy(every=0, keep=5, best_metric="cider")
  stopped_within_an_evaluation(tmp_path, 14, policy)
  assert read.best_step(tmp_path) == 7
  assert read.steps_in(tmp_path / "checkpoints") == [7, 14]


def test_evaluation_batch_outside_training_does_not_stop():
  stopping.evaluation_batch("batch 1")
