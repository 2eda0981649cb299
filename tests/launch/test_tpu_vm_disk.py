"""The data disk that is attached to the workers of a TPU VM."""

import pytest

from tests.launch import stubs
from xmcap.errors import UsageError
from xmcap.launch import scripts
from xmcap.launch.gcloud import TpuVm


def with_disk(disk: str, **options) -> TpuVm:
  return TpuVm("bb", "my-project", "us-central2-b", "v4-16", data_disk=disk, **options)


@pytest.mark.parametrize("options", [{}, {"queued": True}, {"queued": True, "num_slices": 2}])
def test_tpu_vm_data_disk_is_attached_read_only(options):
  source = "projects/my-project/zones/us-central2-b/disks/records"
  assert f"--data-disk=source={source},mode=read-only" in with_disk("records", **options).create()
  other = source.replace("my-project", "other-project")
  assert f"--data-disk=source={other},mode=read-only" in with_disk(other, **options).create()


@pytest.mark.parametrize("disk", ["Records", "a,mode=read-write", "a/b", "projects/p/disks/a", "-a", "a b"])
def test_tpu_vm_data_disk_refuses_invalid_names(disk):
  with pytest.raises(UsageError, match="--data_disk=.*the name of a disk in the zone"):
    with_disk(disk)


@pytest.fixture
def worker(place):
  """A worker with a disk: `sudo` records, and `mountpoint` says what the test writes."""
  place.record("sudo")
  stubs.program(place.bin / "mountpoint", '#!/bin/bash\n[ -e "$2/mounted" ]\n')
  (place.work / "links").mkdir()
  return place


def mount(worker, links: tuple[str, ...]):
  for link in links:
    (worker.work / "links" / link).touch()
  done = worker.bash(
    f"set -- records {worker.work}/links {worker.work}/disks\n" + scripts.text("tpu_vm_disk.sh")
  )
  return done, [call[1:] for call in worker.calls()]


@pytest.mark.parametrize(
  "links, taken",
  [
    (("google-persistent-disk-0", "google-persistent-disk-1"), "google-persistent-disk-1"),
    (("google-records", "google-persistent-disk-1"), "google-records"),
  ],
)
def test_tpu_vm_worker_mounts_data_disk_read_only(worker, links, taken):
  done, calls = mount(worker, links)
  folder = f"{worker.work}/disks/records"
  assert done.returncode == 0
  # `exec sudo` ends the script; mkdir came before it.
  assert calls == [
    ["mkdir", "-p", folder],
    ["mount", "-o", "ro,noload", f"{worker.work}/links/{taken}", folder],
  ]


def test_tpu_vm_mounted_data_disk_is_not_remounted(worker):
  (worker.work / "disks" / "records").mkdir(parents=True)
  (worker.work / "disks" / "records" / "mounted").touch()
  done, calls = mount(worker, ("google-records",))
  assert done.returncode == 0 and calls == []


def test_tpu_vm_unattached_data_disk_is_named(worker):
  done, calls = mount(worker, ("google-persistent-disk-0",))
  assert done.returncode == 1 and calls == []
  assert done.stderr.decode().startswith("xmcap: the disk records is not attached to ")
