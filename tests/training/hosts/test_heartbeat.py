"""Heartbeats between processes (here threads): one that fails, hangs or falls silent ends the others."""

import dataclasses
import json
import threading
import time

import pytest

from xmcap.training.hosts import heartbeat, watch


class Service:
  """Keys and values, as jax's coordination service holds them."""

  def __init__(self):
    self.values = {}

  def key_value_set(self, key, value, allow_overwrite=False):
    assert allow_overwrite or key not in self.values
    self.values[key] = value

  def key_value_dir_get(self, prefix):
    return [item for item in self.values.copy().items() if item[0].startswith(prefix)]


class Watch:
  def __init__(self, state):
    self.state = state

  def look(self):
    return self.state


@pytest.fixture
def processes(monkeypatch):
  """Starts heartbeats; `ended` collects (code, line, seconds) of those that end their process."""
  monkeypatch.setattr(heartbeat, "BEAT", 0.01)
  monkeypatch.setattr(heartbeat.time, "sleep", lambda seconds: None)
  service, ended, started = Service(), [], []

  def end(code, line, seconds=0.0):
    ended.append((code, line))
    next(found for found in started if found._thread is threading.current_thread())._stopped.set()

  monkeypatch.setattr(watch, "end", end)

  def start(index, state=None, lost=1000):
    watches = Watch(state) if state else None
    found = heartbeat.Heartbeat(service, index, 3, lost, watches, lambda numbers: f"process {numbers}")
    started.append(found)
    return found

  def beats(index):
    return json.loads(service.values.get(f"xmcap/alive/{index}", "{}")).get("alive", 0)

  start.ended, start.service, start.beats = ended, service, beats
  yield start
  for found in started:
    found.stop()


def wait_for(condition):
  deadline = time.monotonic() + 120
  while not condition():
    assert time.monotonic() < deadline
    threading.Event().wait(0.01)


def test_failure_of_a_process_ends_the_others_with_its_exit_code(processes):
  processes(0)
  processes(1)
  failing = processes(2)
  failing.tell_failure(2, "no such file")
  wait_for(lambda: len(processes.ended) == 2)
  assert processes.ended == [(2, "process [2] failed: no such file")] * 2


def test_silent_process_is_lost(processes):
  processes(0, lost=3)
  processes(2)
  wait_for(lambda: processes.ended)
  (code, line), *_ = processes.ended
  assert code == 75 and line.startswith("lost process [1]: no sign of life for 3 s")


def test_hanging_process_ends_all_and_a_waiting_one_does_not(processes, capsys):
  late = {"seconds": 9.0, "limit": 3.0, "phase": "step"}
  hanging = watch.State(6, what="put_batch", **late)
  words = json.dumps({"alive": 1, "state": dataclasses.asdict(hanging)})
  processes.service.key_value_set("xmcap/alive/2", words, allow_overwrite=True)
  processes(0, watch.State(5, what="step 5", waits=True, **late))
  processes(1, watch.State(6, what="step 6", waits=True, **late))
  wait_for(lambda: min(processes.beats(0), processes.beats(1)) >= 9)
  assert not processes.ended
  processes(2, hanging)
  wait_for(lambda: len(processes.ended) == 3)
  assert {code for code, _ in processes.ended} == {75}
  (line,) = {line for _, line in processes.ended}
  assert line.startswith("process [2] has been in 'put_batch' for 9 s (HangLimits.step is 3)")
  assert "process [2] hangs in 'put_batch': the stacks of its threads" in capsys.readouterr().err
