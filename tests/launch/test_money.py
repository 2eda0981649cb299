"""`xmcap launch tpu-vm` deletes the slice or says what it costs, whatever gcloud does and whatever ends the command."""

import pytest

from tests.launch.fake_cloud import Cloud
from xmcap.errors import XmcapError
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
  print(f"TABLE | {fault} | {calls} | {late:.0f}")
  # 240 for stop, 180 for the log, 600 for each of two deletions, of a queued resource and of a node, and their pauses.
  assert 0 <= late <= 240 + 180 + 4 * 600 + 10 + 20 + 40
  assert "costs money" not in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("when", ["never", "always"])
@pytest.mark.parametrize("fault", ["hang", "refuse", "gone"])
@pytest.mark.parametrize("call", _BEFORE)
def test_command_that_cannot_start_a_run_deletes_the_slice_or_says_what_it_costs(
  make, tmp_path, capsys, fault, call, when
):
  cloud = make(_TRAIN, workers=1)
  cloud.set(fault, call)
  begun = cloud.now
  error = _end(
    cloud, delete_after=_TIME, pace=0.01, delete_when_done=when, vm=_QUEUED, package=_package(tmp_path), files="gs://my-bucket/inputs",
    events=[Cloud.wait_for_start] if call == "timer" else [],
  )  # fmt: skip
  said = capsys.readouterr().err.splitlines()
  state = (cloud.folder / "state").read_text()
  print(f"TABLE | {fault} | {call} | {when} | {cloud.now - begun:.0f} | {state} | {error} | {said[-1]}")
  assert cloud.now - begun <= 3600 * _TIME + 1200
  if state != "ABSENT":
    assert "12.88 an hour" in said[-1] and said[-1].endswith("--queued --action=delete")
