"""`xmcap launch tpu-vm` deletes the slice or says what it costs, whatever gcloud does and whatever ends the command."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from tests.launch import stubs
from tests.launch.fake_cloud import VM, Cloud
from xmcap.errors import XmcapError
from xmcap.launch import runner, scripts, tpu_vm
from xmcap.launch.gcloud import TpuVm
from xmcap.launch.package import Package

_VM = TpuVm("bb", "my-project", "us-central2-b", "v4-8")
_QUEUED = TpuVm("bb", "my-project", "us-central2-b", "v4-8", queued=True)
_TRAIN = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\ntime.sleep(60)"
_TIME = 0.2  # hours
# The calls of gcloud: before the run, and once it is followed.
_BEFORE = ["describe", "create", "timer", "scp", "secret", "install", "files", "start"]
_DURING = [
  "describe",
  "status",
  "logs",
  "stop",
  "delete",
  "status logs",
  "stop delete",
  "describe status logs stop delete",
]


def _end(cloud: Cloud, **options) -> str:
  """Runs until the command ends; returns its error."""
  with pytest.raises(XmcapError) as error:
    cloud.run(**options)
  return str(error.value)


def _package(tmp_path) -> Package:
  wheel, secret = tmp_path / "xmcap-0.1.0-py3-none-any.whl", tmp_path / "key"
  for file in (wheel, secret):
    file.touch()
  return Package(str(wheel), secret=(f"KEY={secret}",))


@pytest.mark.parametrize("fault", ["hang", "refuse", "gone"])
@pytest.mark.parametrize("calls", _DURING)
def test_slice_is_deleted_after_its_time_although_gcloud_fails_in_mid_run(make, capsys, fault, calls):
  cloud = make(_TRAIN, workers=1)
  waits = []

  def begin(one):
    one.wait_for_start()
    one.set(fault, calls)

  def heal(one):
    # What deletes must work at some time; the third attempt is after 30 seconds of pauses.
    if one.now >= begun + 3600 * _TIME + 10:
      waits.append(one.now)
      if len(waits) == 2:
        one.set(fault, "")

  begun = cloud.now
  error = _end(cloud, delete_after=_TIME, pace=0.01, events=[begin, *[heal] * 100], vm=_QUEUED)
  assert "bb was deleted" in error
  late = cloud.deleted_at - begun - 3600 * _TIME
  # 240 for stop, 30 for the log, 600 for each of two deletions, of a queued resource and of a node, and their pauses.
  assert 0 <= late <= 240 + 30 + 4 * 600 + 10 + 20 + 40
  said = capsys.readouterr().err
  assert ("bb is not deleted and costs money" in said) == ("delete" in calls)
  assert "costs money" not in said.splitlines()[-1]


@pytest.mark.parametrize("when", ["never", "always"])
@pytest.mark.parametrize("fault", ["hang", "refuse"])
@pytest.mark.parametrize("call", _BEFORE)
def test_command_that_cannot_start_a_run_deletes_the_slice_or_says_what_it_costs(
  make, tmp_path, capsys, fault, call, when
):
  cloud = make(_TRAIN, workers=1)
  cloud.set(fault, call)
  begun = cloud.now
  _end(
    cloud, delete_after=_TIME, pace=0.01, delete_when_done=when, vm=_QUEUED, package=_package(tmp_path), files="gs://my-bucket/inputs",
    events=[Cloud.wait_for_start] if call == "timer" else [],
  )  # fmt: skip
  said = capsys.readouterr().err.splitlines()
  state = (cloud.folder / "state").read_text()
  assert cloud.now - begun <= 3600 * _TIME + 1200
  if state != "ABSENT":
    assert "12.88 an hour" in said[-1] and said[-1].endswith("--queued --action=delete")


# ---- what ends the command ------------------------------------------------------------------------


@pytest.fixture
def heeded():
  """Signals have their usual effect, also where the tests run in the background or by nohup."""
  usual = {
    signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL
  }  # fmt: skip
  before = {number: signal.signal(number, handler) for number, handler in usual.items()}
  yield
  for number, handler in before.items():
    signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("call", ["create", "install", "status", "logs", "delete"])
def test_signal_ends_the_command_with_what_the_slice_costs(make, heeded, capsys, monkeypatch, call, number):
  cloud = make("" if call == "delete" else _TRAIN, workers=1)
  cloud.set("hang", call)
  called = cloud.gcloud

  def gcloud(argv, limit, stdin=b"", captured=False):
    answer = called(argv, limit, stdin, captured)
    if answer.returncode == 124:
      os.kill(os.getpid(), number)
      os.kill(os.getpid(), signal.SIGINT)  # twice
    return answer

  monkeypatch.setattr(runner, "execute", gcloud)
  before = signal.getsignal(number)
  error = KeyboardInterrupt if number == signal.SIGINT else XmcapError
  with pytest.raises(error) as ended:
    cloud.run(vm=_QUEUED, delete_when_done="finished")
  if number != signal.SIGINT:
    assert ended.value.exit_code == 128 + number
  said = capsys.readouterr().err.splitlines()
  assert "12.88 an hour" in said[-1] and said[-1].endswith("--queued --action=delete")
  assert ("the run on bb goes on" in said[-2]) == (call in ("status", "logs"))
  assert signal.getsignal(number) == before and (cloud.folder / "state").read_text() == "READY"


def test_nohup_is_kept():
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
  try:
    with runner.stoppable():
      os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
  finally:
    signal.signal(signal.SIGHUP, before)


def test_fault_of_xmcap_itself_ends_with_what_the_slice_costs(make, capsys):
  cloud = make(_TRAIN, workers=1)

  def fail(_):
    raise ZeroDivisionError

  assert "ZeroDivisionError of xmcap itself" in _end(cloud, events=[fail])
  said = capsys.readouterr().err
  assert "Traceback" in said and "8 chips (v4-16), 25.76 an hour" in said.splitlines()[-1]


_PROGRAM = """#!/bin/bash
echo out; echo err >&2
(trap "" TERM; sleep 60) &
echo $! >{file}
sleep 60
"""


@pytest.mark.parametrize("captured", [True, False])
def test_late_program_is_ended_with_its_children(tmp_path, monkeypatch, captured):
  monkeypatch.setattr(runner, "_SECONDS_TO_END", 0.2)
  program = stubs.program(tmp_path / "gcloud", _PROGRAM.format(file=tmp_path / "child"))
  answer = runner.execute([str(program)], 0.5, captured=captured)
  assert answer.returncode == 124 and answer.stderr.startswith(b"ERROR: no end after")
  child = pathlib.Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
  end = time.monotonic() + 10
  while child.exists() and child.read_text().split()[2] != "Z":
    assert time.monotonic() < end
    time.sleep(0.01)
  with pytest.raises(runner.LateError, match="no end after 0 seconds"):
    runner.run([str(program)], 0.2)


# ---- the log --------------------------------------------------------------------------------------


def test_log_that_grows_fast_is_printed_in_parts_and_what_is_left_out_is_counted(make, capsys):
  body = """
for line in range(300_000):
  print(f"{line:06}")
(bucket / "grown").touch()
while not (bucket / "end").exists():
  time.sleep(0.02)
print("its last line")
"""
  cloud = make(body, workers=1)

  def grown(one):
    while not (one.bucket / "grown").exists():
      time.sleep(0.02)

  cloud.run(events=[grown, lambda one: (one.bucket / "end").touch()])
  printed = capsys.readouterr()
  size = (cloud.folder / "worker-0/xmcap/bb/log").stat().st_size
  left_out = [
    int(count.replace(",", "")) for count in re.findall("([0-9,]+) bytes of the log are not", printed.err)
  ]
  assert printed.out.endswith("299999\nits last line\n")
  assert left_out and sum(left_out) + len(printed.out) == size


def test_line_longer_than_a_part_is_printed(make, capsys):
  cloud = make('print("x" * 1_200_000 + "end")', workers=1)
  cloud.run()
  assert capsys.readouterr().out.endswith("xend\n")


def test_log_that_nobody_reads_does_not_delay_deletion(make, monkeypatch):
  monkeypatch.setattr(runner, "_READER_SECONDS", 0.0)
  cloud = make('print("x" * 500_000, flush=True)\ntime.sleep(60)', workers=1)
  reader, writer = os.pipe()
  with os.fdopen(reader), os.fdopen(writer, "w") as stdout, contextlib.redirect_stdout(stdout):
    assert "bb was deleted" in _end(cloud, events=[Cloud.wait_for_start], delete_after=0.1)


# ---- the slice deletes itself -----------------------------------------------------------------------


def _timer(cloud: Cloud, when: str, at: float, grace: int = 0) -> subprocess.CompletedProcess:
  environment = {**os.environ, "PATH": f"{cloud.path}:/usr/bin:/bin", "HOME": str(cloud.folder / "worker-0")}
  words = [
    "bb",
    when,
    str(int(at)),
    str(grace),
    "https://tpu.googleapis.com/v2/projects/p/locations/z/nodes/bb",
  ]
  return subprocess.run(
    ["bash", "-c", scripts.text("tpu_vm_timer.sh"), "xmcap", *words], env=environment, capture_output=True, check=False
  )  # fmt: skip


def test_slice_deletes_itself_without_a_command_that_follows(make):
  cloud = make(
    'signal.signal(signal.SIGTERM, lambda *_: ((bucket / "saved").touch(), sys.exit(75)))\ntime.sleep(60)',
    workers=1,
  )

  def down(one):
    one.wait_for_start()
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    cloud.run(events=[down], delete_after=5.0)
  folder = cloud.folder / "worker-0/xmcap/bb"
  at = int((folder / "delete_at").read_text())
  assert at == pytest.approx(time.time() + 5 * 3600, abs=60)
  # A restart of the worker changes nothing; a new command does. The loop looks again after at most 20 seconds.
  assert _timer(cloud, "boot", 1).returncode == 0 and int((folder / "delete_at").read_text()) == at
  os.killpg(int((folder / "timer").read_text().split()[1]), signal.SIGKILL)
  (folder / "timer").unlink()
  assert _timer(cloud, "now", time.time()).returncode == 0
  deleted, end = cloud.folder / "deleted_itself", time.monotonic() + 60
  while not deleted.exists() or not (cloud.bucket / "saved").exists():
    assert time.monotonic() < end
    time.sleep(0.02)
  assert deleted.read_text() == "https://tpu.googleapis.com/v2/projects/p/locations/z/nodes/bb\n"


def test_slice_that_may_not_delete_itself_is_deleted_by_the_command_that_waits(make, capsys):
  cloud = make("sys.exit(1)", workers=1)
  cloud.set("forbidden", "")
  begun = cloud.now
  error = _end(cloud, delete_after=0.1, pace=0.01)
  assert "ended with exit code 1: see the log above, or --action=logs; bb was deleted" in error
  assert 360 <= cloud.deleted_at - begun < 370
  said = capsys.readouterr().err
  assert "bb cannot delete itself" in said and "the TPU API answers the service account with: 403" in said
  assert "waiting for --delete_after" in said


def test_new_command_takes_over_the_time_of_an_earlier_one_and_makes_no_new_slice_after_it(make, capsys):
  cloud = make(_TRAIN, workers=1)

  def down(one):
    one.wait_for_start()
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    cloud.run(events=[down], delete_after=1.0)
  assert "it deletes itself at" in capsys.readouterr().err.splitlines()[-1]

  def gone(one):  # and the laptop wakes up
    one.now += 3700
    one.kill()
    one.set("state", "ABSENT")

  assert "stopped by an earlier --delete_after" in _end(cloud, events=[lambda _: None, gone])
  assert len(cloud.calls("create")) == 1


@pytest.mark.parametrize("vm", [_VM, _QUEUED])
def test_request_ends_with_the_command_and_carries_the_timer(vm):
  created = vm.create(3600, 1_800_000_000)
  assert ("--valid-until-duration=3600s" in created) == vm.queued
  (metadata,) = [word for word in created if word.startswith("--metadata=")]
  delimiter, _, text = metadata.removeprefix("--metadata=^").partition("^")
  assert delimiter not in text and text.startswith("startup-script=#!/bin/bash\nbash -c ")
  place = "queuedResources/bb?force=true" if vm.queued else "nodes/bb"
  assert place in text and " boot 1800000000 180 " in text
  assert not [word for word in vm.create() if word.startswith(("--metadata", "--valid"))]


# ---- other actions --------------------------------------------------------------------------------


def test_deletion_that_hangs_ends_with_what_the_slice_costs(make, monkeypatch, capsys):
  cloud = make("", workers=1)
  cloud.run()
  cloud.set("hang", "delete")
  monkeypatch.setattr(time, "sleep", lambda _: None)
  with pytest.raises(XmcapError, match="bb could not be deleted: .*no end after 600 seconds"):
    tpu_vm.control("delete", VM, price=1.0)
  assert (
    "bb may exist and cost money, 8 chips (v4-16), 8.00 an hour" in capsys.readouterr().err.splitlines()[-1]
  )


def test_stop_says_that_the_slice_costs_money(make, capsys):
  cloud = make("", workers=1)
  cloud.run()
  capsys.readouterr()
  tpu_vm.control("stop", VM)
  assert "cost money, 8 chips (v4-16): delete it with" in capsys.readouterr().err
