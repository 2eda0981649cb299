"""How processes find each other; how several work together is in test_processes.py."""

import argparse
import socket
import threading

import gin
import pytest

from tests.make.command import forked
from xmcap.commands import hosts as hosts_options
from xmcap.errors import RestartError, UsageError
from xmcap.training.hosts import join as hosts
from xmcap.training.hosts import watch
from xmcap.training.hosts.roll_call import roll_call, split_address


def free_port():
  with socket.socket() as probe:
    probe.bind(("", 0))
    return probe.getsockname()[1]


def call(count, present, seconds, counts=None, port=None):
  """What each of the processes present hears: names, or the error."""
  port, heard = port or free_port(), [None] * len(present)

  def one(place, index):
    try:
      heard[place] = roll_call(
        f"localhost:{port}", (counts or {}).get(index, count), index, seconds, f"host{place}"
      )
    except Exception as error:
      heard[place] = error

  threads = [threading.Thread(target=one, args=item) for item in enumerate(present)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(180)
  return heard


def test_processes_exchange_host_names():
  assert call(3, [2, 0, 1], 120) == [["host1", "host2", "host0"]] * 3


def test_missing_process_is_named_to_those_present():
  for error in call(4, [0, 3, 1], 2):
    assert isinstance(error, RestartError)
    assert str(error) == ("after 2 s process 2 of 4 was missing; present: 0 (host0), 1 (host2), 3 (host1)")


def test_process_0_missing_is_said_with_its_address():
  (error,) = call(2, [1], -4.5)  # the others wait 5 s longer than it does
  assert isinstance(error, RestartError) and "process 0 at localhost:" in str(error)


def test_two_of_one_number_are_refused():
  errors = call(3, [0, 1, 1], 120)
  assert all(isinstance(error, UsageError) for error in errors)
  assert "two processes have the number 1: on host" in str(errors[0])


def test_another_number_of_processes_is_refused():
  errors = call(2, [0, 1], 120, counts={1: 3})
  assert all(
    "process 1 on host1 was started with 3 processes, process 0 on host0 with 2" in str(e) for e in errors
  )


WORDS = (b"GET / HTTP/1.1", b"[" * 100_000, b"7", b'{"process": 1e999, "host": "a", "processes": 2}')


@pytest.mark.parametrize("words", WORDS, ids=["http", "nested", "a number", "infinite"])
def test_foreign_connections_to_the_coordinator_are_ignored(words):
  port = free_port()

  def knock():
    for _ in range(50):
      try:
        with socket.create_connection(("localhost", port), 1) as line:
          line.sendall(words + b"\r\n")
        return
      except OSError:
        pass

  stranger = threading.Thread(target=knock)
  stranger.start()
  heard = call(2, [0, 1], 120, port=port)
  stranger.join()
  assert heard == [["host0", "host1"]] * 2


@pytest.mark.parametrize("address", ["", "host", "host:", "host:0", "host:port", ":1", "host:70000"])
def test_addresses_are_host_and_port(address):
  with pytest.raises(UsageError, match="give HOST:PORT"):
    split_address(address)
  assert split_address("[::1]:80") == ("::1", 80)


def _half_a_run(port):
  """Process 0 of two, of which the other answers the roll call, but whose jax does not connect."""
  other = threading.Thread(target=roll_call, args=(f"127.0.0.1:{port}", 2, 1, 60, "host1"))
  other.start()
  gin.bind_parameter("HostTimeouts.start", 2)
  with hosts.joined(f"127.0.0.1:{port}", 2, 0):
    raise AssertionError


def test_start_ends_in_time_when_jax_does_not_connect():
  ended = forked(_half_a_run, port := free_port(), environment={"http_proxy": "http://127.0.0.1:9"})
  assert ended.code == 75, ended
  line = f"it talks gRPC with process 0 at 127.0.0.1:{port}; these name a proxy: http_proxy"
  assert ended.err.splitlines()[-1].endswith(line)


# ---- which processes there are --------------------------------------------------------------------


def test_joined_without_a_cluster_is_one_process():
  with hosts.joined():
    assert hosts.current() is None and hosts.agree("x", "mine") == ["mine"]


def test_invalid_host_timeouts_are_refused():
  with pytest.raises(UsageError, match="HostTimeouts: start 300, lost 1"):
    hosts.HostTimeouts(lost=1)


def test_counts_are_summed_over_processes(monkeypatch):
  said = ['{"cut": 2, "empty": 1}', "{}"]
  monkeypatch.setattr(hosts, "agree", lambda what, mine: [*said, mine])
  assert hosts.total("left out", {"cut": 3, "black": 4}) == {"cut": 5, "empty": 1, "black": 4}


def test_errors_of_collectives_are_lost_processes(monkeypatch):
  gloo = ValueError(
    "UNKNOWN: Gloo AllGather failed: [pair.cc:547] Connection closed by peer [127.0.0.1]:37565"
  )
  assert hosts.as_lost(gloo) is None, "one process alone"
  monkeypatch.setattr(hosts, "_current", object())
  assert "Connection closed by peer" in str(hosts.as_lost(gloo))
  assert hosts.as_lost(RuntimeError("Connection reset by peer"))
  assert hosts.as_lost(ValueError("no coordination of these shapes")) is None


@pytest.mark.parametrize("training", [True, False])
def test_train_command_watches_with_hang_limits_of_gin(monkeypatch, training):
  seen = []
  monkeypatch.setattr(hosts, "joined", lambda *place, **options: seen.append((place, options)))
  arguments = argparse.Namespace(coordinator_address="a:1", num_processes=2, process_id=1)
  with gin.unlock_config():
    gin.bind_parameter("HangLimits.step", 7)
  hosts_options.joined(arguments, training)
  ((place, options),) = seen
  assert place == ("a:1", 2, 1)
  assert options == {"preemption": training, "limits": watch.HangLimits(step=7) if training else None}
