"""`xmcap launch tpu-vm` after a run: deletion, logs, installs, secrets and cost."""

import datetime
import re
import time
import zipfile

import pytest

from tests.launch.fake_cloud import VM, Cloud
from tests.make.command import xmcap
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import gcloud, scripts, tpu_vm
from xmcap.launch.gcloud import Slice, TpuVm
from xmcap.launch.package import Package


def deleted(cloud: Cloud) -> list[str]:
  return [kind for kind, _, _ in cloud.calls("delete")]


@pytest.mark.parametrize(
  ("when", "code", "kinds"),
  [
    ("never", 0, []),
    ("finished", 0, ["tpu-vm"]),
    ("finished", 1, []),
    ("always", 1, ["tpu-vm"]),
    ("always", 75, ["tpu-vm"]),
  ],
)
def test_tpu_vm_delete_when_done(make, when, code, kinds):
  cloud = make(f"sys.exit({code})", workers=1)
  if code:
    with pytest.raises(XmcapError, match="was deleted" if kinds else "code"):
      cloud.run(delete_when_done=when, restart=0)
  else:
    cloud.run(delete_when_done=when, restart=0)
  assert deleted(cloud) == kinds


def test_tpu_vm_queued_resource_is_deleted_with_its_node(make):
  cloud = make("", workers=1)
  cloud.run(TpuVm("bb", "my-project", "us-central2-b", "v4-8", queued=True), delete_when_done="finished")
  assert deleted(cloud) == ["queued-resources"]


@pytest.mark.parametrize("queued", [False, True])
def test_tpu_vm_delete_removes_nodes_and_queued_resources(make, queued, capsys):
  cloud = make("", workers=1)
  cloud.run(TpuVm("bb", "my-project", "us-central2-b", "v4-8", queued=queued))
  tpu_vm.control("delete", TpuVm("bb", "my-project", "us-central2-b", queued=not queued))
  assert deleted(cloud) == ["queued-resources" if queued else "tpu-vm"]
  tpu_vm.control("delete", VM)
  assert deleted(cloud) == ["queued-resources" if queued else "tpu-vm"]
  assert "there is neither a queued resource nor a TPU VM bb" in capsys.readouterr().err


def test_tpu_vm_delete_reports_a_gcloud_error(make, monkeypatch, capsys):
  cloud = make("", workers=1)
  cloud.run()
  cloud.set("refuse", "delete")
  monkeypatch.setattr(time, "sleep", lambda _: None)
  with pytest.raises(XmcapError, match="bb could not be deleted: .*TPU VM: ERROR: .gcloud. the stub refuses"):
    tpu_vm.control("delete", VM, price=3.22)
  assert (
    "bb may exist and cost money, 8 chips (v4-16), 25.76 an hour: delete it with" in capsys.readouterr().err
  )


def test_tpu_vm_max_hours_saves_and_deletes_the_slice(make):
  body = (
    'signal.signal(signal.SIGTERM, lambda *_: ((bucket / "saved").touch(), sys.exit(75)))\ntime.sleep(60)'
  )
  cloud = make(body, workers=1)

  def late(one):
    one.wait_for_start()
    one.now += 5 * 3600

  with pytest.raises(
    XmcapError, match="after the 5 hours of --delete_after; bb was deleted: the same command creates it again"
  ):
    cloud.run(delete_after=5.0, events=[late])
  assert deleted(cloud) == ["tpu-vm"] and (cloud.bucket / "saved").exists()


def test_tpu_vm_slice_that_waits_too_long_is_deleted(make):
  cloud = make("", workers=1)
  cloud.set("state", "CREATING")
  with pytest.raises(XmcapError, match="--delete_after"):
    cloud.run(delete_after=0.1)
  assert deleted(cloud) == ["tpu-vm"]


def test_tpu_vm_worker_log_is_copied_before_deletion(make):
  cloud = make('print("its stack", file=sys.stderr)\nsys.exit(0 if attempt else 75)', workers=1)
  cloud.run(logs="gs://my-bucket/run/logs", restart=1, delete_when_done="finished")
  (log,) = (cloud.bucket / "my-bucket/run/logs").iterdir()
  lines = log.read_text().splitlines()
  assert lines.count("its stack") == 2 and "attempt 1" in log.read_text()


def test_tpu_vm_log_is_copied_during_the_run():
  script = scripts.text("tpu_vm_start.sh")
  assert "while sleep 60; do copy_log" in script and script.index("copy_log || true\n  echo") > 0


# ---- what is installed ----------------------------------------------------------------------------


def test_tpu_vm_workers_install_requirements_lock(make):
  cloud = make("", workers=1)
  cloud.run()
  first, second = (cloud.folder / "uv").read_text().splitlines()
  assert "--no-deps xmcap==0.1.0" in first
  assert "--require-hashes" in second and "--constraint" in second
  asked = (cloud.folder / "requirements").read_text().splitlines()
  assert any(line.startswith("jax[tpu]==") for line in asked) and all("==" in line for line in asked)


def test_tpu_vm_installs_a_wheel_with_extras(make, tmp_path):
  wheel = tmp_path / "xmcap-0.1.0-py3-none-any.whl"
  zipfile.ZipFile(wheel, "w").close()
  cloud = make("", workers=1)
  cloud.run(package=Package(f"{wheel}[wandb,ko]"))
  assert (cloud.folder / "worker-0" / wheel.name).is_file()
  assert (cloud.folder / "packages").read_text() == f"{cloud.folder / 'worker-0' / wheel.name}[wandb,ko]\n"


def test_tpu_vm_secrets_are_not_on_the_command_line(make, tmp_path):
  file = tmp_path / "key"
  file.write_text("hunter2")
  cloud = make('print(os.environ["A_KEY"], os.environ["B_KEY"])', workers=1)
  cloud.run(package=Package("xmcap", secret=(f"A_KEY={file}", "B_KEY=sm://wandb")))
  home = cloud.folder / "worker-0"
  assert "hunter2 of the manager: latest --secret=wandb" in (home / "xmcap/bb/log").read_text()
  assert "hunter2" not in (cloud.folder / "calls").read_text()
  assert (home / "xmcap/bb/secrets/A_KEY").stat().st_mode & 0o777 == 0o600
  assert not (home / ".xmcap-A_KEY").exists()


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"secret": ("hunter2",)}, "--secret: give NAME=FILE"),
    ({"secret": ("A=/no/such",)}, "--secret=A: no such file"),
    ({"secret": ("A=sm://$(x)",)}, "give sm://SECRET"),
  ],
)
def test_tpu_vm_refuses_invalid_secrets(options, message):
  with pytest.raises(UsageError, match=message) as error:
    Package("xmcap", **options)
  assert "hunter2" not in str(error.value)


def test_launch_refuses_a_secret_in_a_variable():
  slice_options = ["--name=bb", "--project=p", "--zone=z", "--accelerator_type=v4-8", "--install=x"]
  secret = ["--dry_run", "--env=WANDB_API_KEY=hunter2", "--", "train"]
  refused = xmcap("launch", "tpu-vm", *slice_options, *secret).refused("--secret=WANDB_API_KEY=FILE")
  assert "hunter2" not in refused.err


# ---- gcloud's own options, price, types -----------------------------------------------------------


def test_tpu_vm_gcloud_track():
  created = TpuVm("bb", "p", "z", "v4-16", gcloud_track="alpha").create()
  assert created[:4] == ["gcloud", "alpha", "compute", "tpus"]


def test_tpu_vm_gcloud_options_are_passed_through():
  vm = TpuVm(
    "bb", "p", "z", "v4-16", gcloud_create=("--labels=team=a b",), gcloud_ssh=("--tunnel-through-iap",)
  )
  assert "--labels=team=a b" in vm.create() and "--tunnel-through-iap" not in vm.create()
  assert all("--tunnel-through-iap" in argv for argv in (vm.stop(), vm.copy(scripts.folder())))


@pytest.mark.parametrize(
  "word", ["labels=x", "--project=other", "--command=rm", "--quiet", "-x", "--a\nb", ""]
)
def test_tpu_vm_gcloud_options_refuse_invalid_words(word):
  with pytest.raises(UsageError, match="--gcloud_ssh="):
    TpuVm("bb", "p", "z", gcloud_ssh=(word,))


def test_tpu_vm_status_shows_the_cost(make, capfd):
  cloud = make("", workers=1)
  cloud.run()
  created = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=10)
  cloud.set("created", f"{created.isoformat().replace('+00:00', 'Z')}\tv4-128")
  tpu_vm.control("status", VM, price=3.22)
  assert "64 chips since" in (said := capfd.readouterr().out)
  hours, total = re.findall(r": ([\d.]+) chip-hours at 3.22 = ([\d,.]+) so far", said)[0]
  assert 640 <= float(hours) < 660 and float(total.replace(",", "")) == pytest.approx(
    3.22 * float(hours), rel=1e-3
  )
  for wrong in ("", "2026-11-29T06:00:00\tv4-128", f"2026-11-29T06:00:00Z\tv4-{'9' * 5000}"):
    cloud.set("created", wrong)
    with pytest.raises(XmcapError, match="does not say when bb was created"):
      tpu_vm.control("status", VM, price=3.22)


@pytest.mark.parametrize(
  ("name", "numbers"),
  [
    # cloud.google.com/tpu/docs, the pages v3, v4, v5e, v5p, v6e and tpu7x (2026).
    ("v3-32", Slice(16, 32, 4)),
    ("v4-8", Slice(4, 4, 1)),
    ("v4-128", Slice(64, 64, 16)),
    ("v5litepod-8", Slice(8, 8, 1)),
    ("v5p-256", Slice(128, 128, 32)),
    ("v6e-256", Slice(256, 256, 64)),
    ("tpu7x-128", Slice(64, 128, 16)),
  ],
)
def test_gcloud_slice_of_parses_slice_types(name, numbers):
  assert gcloud.slice_of(name) == numbers
