"""`xmcap launch tpu-vm` against a simulated `gcloud`: preemption, failures and restarts."""

import dataclasses

import pytest

from tests.launch.fake_cloud import VM, Cloud
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import tpu_vm
from xmcap.launch.gcloud import TpuVm


def _nothing(_):
  pass


def _verbs(cloud: Cloud) -> list[str]:
  return [verb for _, verb, _ in cloud.calls("create", "delete")]


def test_tpu_vm_run_creates_installs_and_finishes(make, capsys):
  cloud = make("print('done')")
  cloud.run(command=["train", "--gin_file=a b"])
  printed = capsys.readouterr()
  assert printed.out == "worker 0 attempt 0 ['train', '--gin_file=a b']\ndone\n"
  assert "still exists and costs money" in printed.err
  assert cloud.attempts(0) == cloud.attempts(1) == 1
  assert _verbs(cloud) == ["create"]
  assert (cloud.folder / "packages").read_text() == "xmcap==0.1.0\n" * 2


def test_tpu_vm_run_uses_an_existing_slice(make):
  cloud = make("")
  cloud.run()
  cloud.run()
  for _, _, options in cloud.calls():
    assert (options["project"], options["zone"]) == ("my-project", "us-central2-b")
  assert _verbs(cloud) == ["create"] and cloud.attempts() == 2
  # The same package is not installed again.
  assert (cloud.folder / "packages").read_text() == "xmcap==0.1.0\n" * 2


def test_tpu_vm_follows_a_run_in_progress(make):
  cloud = make('while not (bucket / "end").exists():\n  time.sleep(0.02)\n')

  def down(one):
    one.wait_for_start()
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    cloud.run(events=[down])
  cloud.run(events=[lambda one: (one.bucket / "end").touch()])
  assert cloud.attempts(0) == cloud.attempts(1) == 1


def test_tpu_vm_copies_and_installs_a_wheel_and_a_changed_one(make, tmp_path):
  wheel = tmp_path / "xmcap-0.1.0-py3-none-any.whl"
  cloud = make("")
  for content in (b"first", b"second"):
    wheel.write_bytes(content)
    cloud.run(package=str(wheel))
  installed = [str(cloud.folder / f"worker-{index}" / wheel.name) for index in (0, 1)]
  assert (cloud.folder / "packages").read_text().splitlines() == 2 * installed


def test_tpu_vm_restarts_on_the_same_slice_after_exit_code_75(make, capsys):
  cloud = make("sys.exit(0 if attempt else 75)")
  cloud.run()
  assert cloud.attempts(0) == cloud.attempts(1) == 2 and _verbs(cloud) == ["create"]
  # Each line of the log once, though the log goes on.
  logged = [line[:18] for line in capsys.readouterr().out.splitlines()]
  assert logged == ["worker 0 attempt 0", "worker 0 attempt 1"]


def test_tpu_vm_recreates_a_preempted_slice(make):
  cloud = make("time.sleep(0 if attempt else 60)")
  cloud.run(events=[_nothing, Cloud.preempt])
  assert _verbs(cloud) == ["create", "delete", "create"]
  assert cloud.attempts(0) == cloud.attempts(1) == 2


@pytest.mark.parametrize("queued", [False, True])
def test_tpu_vm_waits_for_capacity_after_a_preemption(make, queued):
  cloud = make("time.sleep(0 if attempt else 60)")

  def preempt(one):
    one.preempt()
    one.set("refuse", "create")

  cloud.run(
    events=[preempt, _nothing, _nothing, lambda one: one.set("refuse", "")],
    vm=dataclasses.replace(VM, queued=queued),
  )
  assert _verbs(cloud)[:3] == ["create", "delete", "create"] and cloud.attempts() == 2


def test_tpu_vm_restarts_all_workers_after_a_lost_process(make):
  # Worker 1 goes down; worker 0 would wait for it for ever.
  cloud = make("time.sleep(0 if attempt else 60)")

  def go_down(one):
    one.wait_for_start()
    one.kill(1)

  cloud.run(events=[go_down])
  assert cloud.attempts(0) == cloud.attempts(1) == 2 and _verbs(cloud) == ["create"]


def test_tpu_vm_workers_save_before_a_restart(make):
  body = """
def save(*_):
  (bucket / "saved").touch()
  sys.exit(75)
signal.signal(signal.SIGTERM, save)
if attempt == 0 and worker == 0:
  (bucket / "ready").touch()
  time.sleep(60)
if attempt == 0:
  while not (bucket / "ready").exists():
    time.sleep(0.02)
  sys.exit(75)
"""
  cloud = make(body)
  cloud.run()
  assert (cloud.bucket / "saved").exists() and cloud.attempts(0) == 2


def test_tpu_vm_stops_after_the_maximum_of_restarts(make):
  cloud = make("sys.exit(75)")
  with pytest.raises(XmcapError, match="ended with exit code 75: stopped after 2 restarts without"):
    cloud.run(restart=2)
  assert cloud.attempts() == 3


def test_tpu_vm_counts_restarts_since_the_last_progress(make, capsys):
  cloud = make('print(f"step {10 * min(attempt, 2) + 10}/90  loss 1.2")\nsys.exit(75)')
  with pytest.raises(XmcapError, match="stopped after 1 restart without progress"):
    cloud.run(restart=1)
  assert cloud.attempts() == 4 and capsys.readouterr().err.count("restarting (1 of 1)") == 3


def test_tpu_vm_does_not_restart_a_failure(make):
  cloud = make("sys.exit(1 if worker else 75)")
  with pytest.raises(XmcapError, match="ended with exit code 1: see the log above"):
    cloud.run()
  assert cloud.attempts() == 1


def test_tpu_vm_first_gcloud_create_error_ends_the_command(make):
  cloud = make("")
  cloud.set("refuse", "create")
  with pytest.raises(XmcapError, match="create bb ended with exit code 1.*--queued"):
    cloud.run()


def test_tpu_vm_gcloud_describe_error_is_one_line(make):
  cloud = make("")
  cloud.set("refuse", "describe")
  refusal = "gcloud cannot tell the state of bb: ERROR: .gcloud. the stub refuses"
  with pytest.raises(XmcapError, match=refusal):
    cloud.run()


def test_tpu_vm_refuses_a_stopped_slice(make):
  cloud = make("")
  cloud.set("state", "STOPPED")
  with pytest.raises(XmcapError, match="bb is STOPPED"):
    cloud.run()
  assert _verbs(cloud) == []


def test_tpu_vm_wait_has_a_timeout(make):
  cloud = make("")
  cloud.set("state", "CREATING")
  with pytest.raises(XmcapError, match="not ready after 0.15 hours"):
    cloud.run(events=[lambda one: one.set("state", "CREATING")])


def test_tpu_vm_keyboard_interrupt_keeps_the_run(make, capsys):
  cloud = make("time.sleep(60)")

  def interrupt(_):
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    cloud.run(events=[interrupt])
  said = capsys.readouterr().err
  assert (
    "the run on bb goes on" in said
    and "bb still exists and costs money, 8 chips (v4-16), 25.76 an hour" in said
  )


def test_tpu_vm_stop_ends_the_run_and_status_shows_it(make, capfd):
  cloud = make("signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\ntime.sleep(60)", workers=1)
  vm = TpuVm("bb", "my-project", "us-central2-b", "v4-8")

  def down(one):
    one.wait_for_start()
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    cloud.run(events=[down])
  tpu_vm.control("stop", vm)
  tpu_vm.control("status", vm)
  assert capfd.readouterr().out.split()[-2:] == ["exited", "75"]


def test_tpu_vm_delete(make):
  cloud = make("")
  cloud.run(dataclasses.replace(VM, queued=True))
  tpu_vm.control("delete", TpuVm("bb", "my-project", "us-central2-b", queued=True))
  (call,) = cloud.calls("delete")
  assert call[0] == "queued-resources"


@pytest.mark.parametrize(
  ("workers", "kind"),
  [
    ([("a", "running", "-"), ("b", "exited", "0")], None),
    ([("a", "exited", "0"), ("b", "exited", "0")], "finished"),
    ([("a", "exited", "75"), ("b", "running", "-")], "again"),
    ([("a", "exited", "137"), ("b", "running", "-")], "again"),
    ([("a", "lost", "-"), ("b", "running", "-")], "again"),
    ([("a", "exited", "75"), ("b", "exited", "1")], "failed"),
    ([("a", "exited", "9" * 5000)], None),
  ],
)
def test_tpu_vm_outcome_of_worker_states(workers, kind):
  outcome = tpu_vm.judge(workers)
  assert (outcome and outcome.kind) == kind


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"num_slices": 2}, "add --queued"),
    ({"spot": True, "reserved": True}, "--spot and --reserved"),
    ({"num_slices": 0}, "--num_slices=0"),
  ],
)
def test_tpu_vm_refuses_invalid_options(options, message):
  with pytest.raises(UsageError, match=message):
    TpuVm("bb", "my-project", "us-central2-b", "v4-16", **options)
