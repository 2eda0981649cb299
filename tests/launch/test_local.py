"""`xmcap launch local`, with small programs in place of xmcap."""

import os
import signal
import subprocess
import sys

import pytest

from tests import sessions
from tests.launch import stubs
from tests.make.command import xmcap
from xmcap.errors import UsageError
from xmcap.launch import local

_HEAD = """
import os, pathlib, signal, sys, time
out = pathlib.Path({out!r})
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
index = int(options.get("process_id", 0))
attempt = len(list(out.glob(f"start-{{index}}-*")))
(out / f"start-{{index}}-{{attempt}}").write_text(repr(options))
"""


def _child(tmp_path, body: str) -> list[str]:
  """Returns a command that runs `body`, which knows `out`, `options`, `index` and `attempt`."""
  script = tmp_path / "child.py"
  script.write_text(_HEAD.format(out=str(tmp_path)) + body, encoding="utf-8")
  return [sys.executable, "-SEI", str(script), "train"]


def _starts(tmp_path) -> list[str]:
  return sorted(path.name for path in tmp_path.glob("start-*"))


def _launcher(tmp_path, body: str, *options: str) -> subprocess.Popen:
  """Starts the command itself, in a process of its own."""
  script = _child(tmp_path, body)[2]
  program = stubs.program(tmp_path / "program", f'#!/bin/sh\nexec {sys.executable} -SEI {script} "$@"\n')
  return subprocess.Popen(
    [sys.executable, "-m", "xmcap.cli", "launch", "local", *options, f"--program={program}", "--", "train"],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
  )


def test_launch_local_exits_0_for_a_finished_run(tmp_path):
  assert local.run(_child(tmp_path, ""), processes=2) == 0


def test_launch_local_prefixes_output_lines_with_the_process(tmp_path, capsys):
  body = """
for part in ("a", "b", "c\\n", "last"):
  print(part, end="", flush=True)
  time.sleep(0.02)
"""
  local.run(_child(tmp_path, body), processes=2)
  assert sorted(capsys.readouterr().out.splitlines()) == ["[0] abc", "[0] last", "[1] abc", "[1] last"]


def test_launch_local_omits_gloo_connection_messages(tmp_path, capsys):
  body = """
print("[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1")
print("E1127 15:49:48.081903   24764 client.cc:1] a host is lost")
"""
  local.run(_child(tmp_path, body), processes=1)
  assert capsys.readouterr().out == "[0] E1127 15:49:48.081903   24764 client.cc:1] a host is lost\n"


def test_launch_local_sets_coordinator_variables(tmp_path):
  local.run(_child(tmp_path, ""), processes=2)
  first, second = [eval(path.read_text()) for path in sorted(tmp_path.glob("start-*"))]
  assert first.pop("process_id") == "0" and second.pop("process_id") == "1"
  assert first == second and first["num_processes"] == "2"
  assert first["coordinator_address"].startswith("127.0.0.1:")


def test_launch_local_single_process_joins_no_cluster(tmp_path):
  local.run(_child(tmp_path, ""), processes=1)
  assert eval((tmp_path / "start-0-0").read_text()) == {"num_processes": "1"}


def test_launch_local_devices_are_appended_to_xla_flags(tmp_path, capsys, monkeypatch):
  monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_use_acl=false")
  body = 'print(os.environ["XLA_FLAGS"], os.environ["JAX_PLATFORMS"], os.environ["NPROC"])'
  local.run(_child(tmp_path, body), processes=1, devices=3)
  assert capsys.readouterr().out == (
    "[0] --xla_cpu_use_acl=false --xla_force_host_platform_device_count=3 cpu 24\n"
  )


@pytest.mark.parametrize(
  "end", ["sys.exit(75)", "os.kill(os.getpid(), signal.SIGKILL)", "os.abort()", "sys.exit(137)"]
)
def test_launch_local_restarts_all_processes(tmp_path, end):
  body = f"""
if attempt == 0:
  if index == 1:
    {end}
  time.sleep(60)
"""
  assert local.run(_child(tmp_path, body), processes=2, restart=1) == 0
  assert _starts(tmp_path) == ["start-0-0", "start-0-1", "start-1-0", "start-1-1"]


def test_launch_local_sends_sigterm_before_sigkill(tmp_path):
  body = """
if index == 0:
  signal.signal(signal.SIGTERM, lambda *_: ((out / "told").touch(), sys.exit(75)))
  (out / "ready").touch()
  time.sleep(60)
while not (out / "ready").exists():
  time.sleep(0.01)
sys.exit(75)
"""
  assert local.run(_child(tmp_path, body), processes=2) == 75
  assert (tmp_path / "told").exists()


def test_launch_local_kills_a_process_that_ignores_sigterm(tmp_path, capsys):
  body = """
if index == 0:
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  (out / "ready").touch()
  time.sleep(60)
while not (out / "ready").exists():
  time.sleep(0.01)
sys.exit(75)
"""
  assert local.run(_child(tmp_path, body), processes=2, grace=0.2) == 75
  said = "process 0 still ran 0.2 s after SIGTERM: killed; --grace=SECONDS gives more time"
  assert said in capsys.readouterr().err


def test_launch_local_stops_after_the_maximum_of_restarts(tmp_path, capsys):
  assert local.run(_child(tmp_path, "sys.exit(75)"), processes=1, restart=2) == 75
  assert len(_starts(tmp_path)) == 3
  said = capsys.readouterr().err
  assert said.count("restarting") == 2 and "exit code 75: stopped after 2 restarts without progress" in said


RUNS = (
  # What each start prints, and how many there are with at most two restarts in a row without progress.
  ([[], [], []], 3),
  ([["step 10/20  loss 1.2"]] * 3, 3),
  ([["step 10/20  loss 1"], ["step 5/20  loss 1"], ["step 10/20  loss 1"]], 3),
  ([["step 10/90  loss 1"], [], ["step 11/90  loss 1"], [], []], 5),
  ([["step 9/90  loss 1"], ["9 parameters on cpu; resuming from step 20 in /runs/x"], [], []], 4),
  ([["a step 10/20"], ["the step 11/20"], ["step 12 of 20"]], 3),
)


@pytest.mark.parametrize(("printed", "starts"), RUNS)
def test_launch_local_counts_restarts_since_the_last_progress(tmp_path, printed, starts):
  body = f"""
for line in ({printed}[attempt:] or [[]])[0]:
  print(line)
sys.exit(75)
"""
  assert local.run(_child(tmp_path, body), processes=1, restart=2) == 75
  assert len(_starts(tmp_path)) == starts


def test_launch_local_goes_on_as_long_as_the_run_gets_further(tmp_path, capsys):
  body = 'print(f"step {attempt}/9  loss 1.2")\nsys.exit(0 if attempt == 4 else 75)'
  assert local.run(_child(tmp_path, body), processes=2, restart=1) == 0
  assert capsys.readouterr().err.count("restarting (1 of 1)") == 4


def test_launch_local_exit_code_of_a_signal_is_128_plus_number(tmp_path):
  assert local.run(_child(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)"), processes=1) == 137


@pytest.mark.parametrize("code", [1, 2])
def test_launch_local_does_not_restart_a_failure(tmp_path, code):
  assert local.run(_child(tmp_path, f"sys.exit({code})"), processes=1, restart=3) == code
  assert len(_starts(tmp_path)) == 1


def test_launch_local_reports_the_first_failure(tmp_path):
  body = """
def wait_for(name):
  while not (out / name).exists():
    time.sleep(0.01)
if index == 1:
  (out / "ready").touch()
  wait_for("ended")
  sys.exit(1)
wait_for("ready")
(out / "ended").touch()
sys.exit(75)
"""
  assert local.run(_child(tmp_path, body), processes=2, restart=3) == 1


def test_launch_local_processes_share_the_port_of_an_attempt(tmp_path):
  local.run(_child(tmp_path, "sys.exit(0 if attempt else 75)"), processes=2, restart=1)
  for attempt in (0, 1):
    found = {
      eval((tmp_path / f"start-{index}-{attempt}").read_text())["coordinator_address"] for index in (0, 1)
    }
    assert len(found) == 1


def test_launch_local_kills_grandchild_processes(tmp_path):
  body = """
import subprocess
if index == 0:
  (out / "pid").write_text(str(subprocess.Popen(["sleep", "60"]).pid))
"""
  assert local.run(_child(tmp_path, body), processes=2) == 0
  assert sessions.wait(lambda: not sessions.alive(int((tmp_path / "pid").read_text())), 120)


_SAVES = """
def save(*_):
  (out / f"saved-{index}").touch()
  sys.exit(75)
signal.signal(signal.SIGTERM, save)
(out / f"pid-{index}.part").write_text(str(os.getpid()))
(out / f"pid-{index}.part").rename(out / f"pid-{index}")
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_launch_local_forwards_signals_and_does_not_restart(tmp_path, number):
  launcher = _launcher(tmp_path, _SAVES, "--processes=2", "--restart=5")
  assert sessions.wait(lambda: len(list(tmp_path.glob("pid-?"))) == 2, 120)
  launcher.send_signal(number)
  out, error = launcher.communicate(timeout=120)
  assert launcher.returncode == 75, (out, error)
  assert len(list(tmp_path.glob("saved-*"))) == 2 and len(_starts(tmp_path)) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
def test_launch_local_processes_die_with_a_killed_launcher(tmp_path):
  launcher = _launcher(tmp_path, _SAVES, "--processes=2")
  assert sessions.wait(lambda: len(list(tmp_path.glob("pid-?"))) == 2, 120)
  pids = [int(path.read_text()) for path in tmp_path.glob("pid-?")]
  launcher.kill()
  launcher.communicate(timeout=120)
  assert sessions.wait(lambda: not any(map(sessions.alive, pids)), 120)


def test_launch_local_ends_on_a_closed_pipe(tmp_path):
  body = """
while True:
  print("line", flush=True)
  time.sleep(0.01)
"""
  launcher = _launcher(tmp_path, body, "--processes=1")
  launcher.stdout.readline()
  launcher.stdout.close()
  launcher.wait(timeout=120)
  assert launcher.returncode == 143


def test_launch_local_missing_program_is_one_line(tmp_path):
  with pytest.raises(UsageError, match="No such file"):
    local.run([str(tmp_path / "nothing")], processes=2)


@pytest.mark.parametrize(
  ("option", "range_"), [("processes", "1 to 1,024"), ("devices", "0"), ("restart", "0")]
)
@pytest.mark.parametrize("value", [-1, "9" * 40])
def test_launch_local_refuses_numbers_out_of_range(option, range_, value):
  numbers = {"processes": 1, option: value}
  options = [f"--{name}={number}" for name, number in numbers.items()]
  refused = xmcap("launch", "local", *options, "--", "train")
  refused.refused(f"--{option}={value}: give a number from {range_}")


def test_launch_local_dry_run_keeps_xla_flags(tmp_path):
  command = _child(tmp_path, '(out / "flags").write_text(os.environ["XLA_FLAGS"])')
  for given, expected in (({}, "--shell"), ({"XLA_FLAGS": "--given"}, "--given")):
    text = local.dry_run(command, 1, 2, given)
    environment = {**os.environ, "XLA_FLAGS": "--shell"}
    assert subprocess.run(["bash", "-e"], input=text.encode(), env=environment, check=False).returncode == 0
    flags = f"{expected} --xla_force_host_platform_device_count=2"
    assert (tmp_path / "flags").read_text() == flags


def test_launch_local_dry_run_runs_in_bash(tmp_path):
  text = local.dry_run(_child(tmp_path, ""), 2, 2, {"A": "b c"})
  assert subprocess.run(["bash", "-e"], input=text.encode(), env=os.environ, check=False).returncode == 0
  assert _starts(tmp_path) == ["start-0-0", "start-1-0"]
