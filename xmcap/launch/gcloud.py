"""The gcloud commands for a TPU slice, or for several that train together (gcloud 528)."""

import dataclasses
import pathlib
import re
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.launch import quoting, scripts
from xmcap.launch.options import check_fields, option, passed_on

# The software for JAX on each kind of TPU (cloud.google.com/tpu/docs/runtimes).
_RUNTIME_VERSIONS = {
  **dict.fromkeys(("v2", "v3", "v4"), "tpu-ubuntu2204-base"),
  "v5p": "v2-alpha-tpuv5",
  "v5litepod": "v2-alpha-tpuv5-lite",
  "v6e": "v2-alpha-tpuv6e",
  "tpu7x": "v2-alpha-tpu7-ubuntu2404",
}
# Types whose names count TensorCores, two per chip; the others count chips. JAX has a device for each core of these.
_CORES_IN_NAME = ("v2", "v3", "v4", "v5p", "tpu7x")
_DEVICE_PER_CORE = ("v2", "v3", "tpu7x")
# Set here, so not to be passed through.
_OWN_OPTIONS = (
  "--project", "--zone", "--command", "--worker", "--node", "--accelerator-type", "--quiet", "--node-id",
  "--node-count",
)  # fmt: skip
_SECONDS_TO_SAVE = 120
# gcloud's escape for values with commas (`gcloud topic escaping`).
_DELIMITER = "^--xmcap--^"


@dataclasses.dataclass(frozen=True)
class TpuVm:
  """A TPU VM, or the queued resource that provides it; several slices always need a queued resource.

  The methods return commands, as argument lists.
  """

  name: str = option("name of the TPU VM; an existing one is used", rule="name")
  project: str = option("the Google Cloud project; gcloud's default is not used")
  zone: str = option("zone, such as us-central2-b")
  accelerator_type: str = option("v4-128, v5p-256, v6e-64, ...", "", rule="slice", metavar="TYPE")
  queued: bool = option("wait for capacity as a queued resource", False)
  spot: bool = option("a spot VM: cheaper, but can be preempted at any time", False)
  reserved: bool = option("use the project's reservation", False)
  num_slices: int = option("number of slices that train together", 1, least=1, metavar="N")
  service_account: str = option("service account of the workers", "")
  data_disk: str = option(
    "a disk to attach to every worker, read-only, at /mnt/disks/DISK", "", rule="disk", metavar="DISK"
  )

  gcloud_track: str = option(
    "gcloud's alpha or beta commands, which have more options", "", choices=("alpha", "beta")
  )
  gcloud_create: Sequence[str] = passed_on("gcloud's create", "--labels=team=x")
  gcloud_ssh: Sequence[str] = passed_on("gcloud's ssh and scp", "--tunnel-through-iap")

  def __post_init__(self):
    check_fields(self)
    for name in ("gcloud_create", "gcloud_ssh"):
      for word in getattr(self, name):
        if word.partition("=")[0] in _OWN_OPTIONS:
          raise UsageError(f"--{name}={word[:80]}: give one of gcloud's options that xmcap does not set")
    if self.spot and self.reserved:
      raise UsageError("--spot and --reserved: give only one of them")
    if self.num_slices > 1 and not self.queued:
      raise UsageError(f"--num_slices={self.num_slices}: several slices need a queued resource: add --queued")

  def create(self, wanted_for: int = 0, delete_at: int = 0) -> list[str]:
    """Creates it.

    Args:
      wanted_for: seconds from now after which the queue must not provide it any more; 0: it always may.
      delete_at: the time, in seconds since 1970, at which it deletes itself; 0: never.
    """
    if not self.accelerator_type:
      raise UsageError("xmcap launch tpu-vm needs --accelerator_type, such as v4-128")
    kind = accelerator_type(self.accelerator_type)
    options = [f"--accelerator-type={kind}"]
    version = f"--{'runtime-' if self.queued else ''}version="
    if not any(word.startswith(version) for word in self.gcloud_create):
      options.append(f"{version}{runtime_version(kind)}")
    if self.num_slices > 1:
      options += [f"--node-count={self.num_slices}", f"--node-prefix={self.name}"]
    elif self.queued:
      options.append(f"--node-id={self.name}")
    for name in ("spot", "reserved", "service_account"):
      value = getattr(self, name)
      if value:
        option_name = f"--{name.replace('_', '-')}"
        options.append(option_name if value is True else f"{option_name}={value}")
    if self.data_disk:
      source = self.data_disk
      if "/" not in source:
        source = f"projects/{self.project}/zones/{self.zone}/disks/{source}"
      # A disk may be attached to many workers only if it is read-only.
      options.append(f"--data-disk=source={source},mode=read-only")
    if self.queued and wanted_for and not self._creates_with("--valid-until-"):
      options.append(f"--valid-until-duration={wanted_for}s")
    if delete_at and not self._creates_with("--metadata"):
      # Also where nobody ever reaches the workers, and after a restart of a worker.
      script = quoting.shown(self._remote("timer", self._timer("boot", delete_at)))
      options.append(f"--metadata={_DELIMITER}startup-script=#!/bin/bash\n{script}")
    return self._gcloud(self._resource(), "create", [self.name], *options, *self.gcloud_create, "--quiet")

  def describe(self) -> list[str]:
    """Prints the state of the queued resource, or of the TPU VM if it was created directly."""
    if not self.queued:
      return self.describe_node()
    return self._gcloud("queued-resources", "describe", [self.name], "--format=value(state.state)")

  def describe_node(self) -> list[str]:
    return self._gcloud("tpu-vm", "describe", [self.name], "--format=value(state)")

  def creations(self) -> list[list[str]]:
    """Commands that print when each node was created, and its type: `TIME<tab>TYPE`."""
    names = [self.name] if self.num_slices == 1 else [f"{self.name}-{n}" for n in range(self.num_slices)]
    shown = "--format=value(createTime,acceleratorType)"
    return [self._gcloud("tpu-vm", "describe", [name], shown) for name in names]

  def delete(self) -> list[str]:
    force = ["--force"] if self.queued else []
    return self._gcloud(self._resource(), "delete", [self.name], *force, "--quiet")

  def copy(self, file: pathlib.Path, name: str = "") -> list[str]:
    """Copies a file into the home folder of every worker, under another name if one is given."""
    return self._on_workers("scp", [str(file), f"{self.name}:{name}"], "all")

  def mount(self) -> list[str]:
    """Mounts the attached disk at `/mnt/disks/NAME` on every worker, read-only."""
    return self._script("disk", [self.data_disk.rpartition("/")[2], "/dev/disk/by-id", "/mnt/disks"], "all")

  def stop(self) -> list[str]:
    """Ends the command on every worker: SIGTERM, and SIGKILL if it has not saved in time."""
    return self.ssh("stop", [str(_SECONDS_TO_SAVE)])

  def timer(self, delete_at: int) -> list[str]:
    """Lets the slice delete itself at a time, in seconds since 1970; fails if its service account may not."""
    return self.ssh("timer", self._timer("now", delete_at)[1:], "0")

  def ssh(self, script: str, arguments: Sequence[str] = (), worker: str = "all") -> list[str]:
    """Runs `launch/tpu_vm_SCRIPT.sh NAME ARGUMENTS` on a worker, or on all."""
    return self._script(script, [self.name, *arguments], worker)

  def _script(self, script: str, arguments: Sequence[str], worker: str) -> list[str]:
    remote = quoting.shown(self._remote(script, arguments))
    return self._on_workers("ssh", [self.name], worker, f"--command={remote}")

  def _remote(self, script: str, arguments: Sequence[str]) -> list[str]:
    # The script is constant text; each argument is one word of the remote shell.
    return ["bash", "-c", scripts.text(f"tpu_vm_{script}.sh"), "xmcap", *arguments]

  def _timer(self, when: str, delete_at: int) -> list[str]:
    place = f"https://tpu.googleapis.com/v2/projects/{self.project}/locations/{self.zone}"
    url = f"{place}/{f'queuedResources/{self.name}?force=true' if self.queued else f'nodes/{self.name}'}"
    # A minute more than saving takes: a command that follows stops, prints and deletes first.
    return [self.name, when, str(delete_at), str(_SECONDS_TO_SAVE + 60), url]

  def _creates_with(self, option_name: str) -> bool:
    return any(word.startswith(option_name) for word in self.gcloud_create)

  def _on_workers(self, verb: str, addressed: Sequence[str], worker: str, *options: str) -> list[str]:
    nodes = [] if self.num_slices == 1 else [f"--node={'all' if worker == 'all' else '0'}"]
    kind = "tpu-vm" if self.num_slices == 1 else "queued-resources"
    return self._gcloud(
      kind, verb, addressed, *nodes, f"--worker={worker}", *self.gcloud_ssh, "--quiet", *options
    )

  def _gcloud(self, kind: str, verb: str, addressed: Sequence[str], *options: str) -> list[str]:
    where = [f"--project={self.project}", f"--zone={self.zone}"]
    track = [self.gcloud_track] if self.gcloud_track else []
    return ["gcloud", *track, "compute", "tpus", kind, verb, *addressed, *where, *options]

  def _resource(self) -> str:
    return "queued-resources" if self.queued else "tpu-vm"


def accelerator_type(slice_type: str) -> str:
  """Returns the API's name of a slice type; v5e slices are called v5litepod there."""
  return re.sub(r"^v5e-", "v5litepod-", slice_type)


@dataclasses.dataclass(frozen=True)
class Slice:
  """The numbers of a slice: chips (which are billed), devices of JAX, hosts."""

  chips: int
  devices: int
  hosts: int


def slice_of(slice_type: str) -> Slice:
  """Returns the numbers of a slice by its type, such as v4-128 (cloud.google.com/tpu/docs, the page of each type)."""
  kind, _, count = slice_type.partition("-")
  number = int(count)
  chips = number // 2 if kind in _CORES_IN_NAME else number
  devices = number if kind in _DEVICE_PER_CORE else chips
  # Eight chips of v5e and v6e are one host; larger slices of all types have four per host.
  alone = 4 if kind in _CORES_IN_NAME else 8
  return Slice(chips, devices, 1 if chips <= alone else chips // 4)


def runtime_version(slice_type: str) -> str:
  """Returns the software version for JAX on this slice type."""
  kind = slice_type.split("-")[0]
  if kind not in _RUNTIME_VERSIONS:
    raise UsageError(
      f"--accelerator_type={slice_type}: unknown software version: give --gcloud_create=--version=NAME, or with"
      " --queued --gcloud_create=--runtime-version=NAME"
    )
  return _RUNTIME_VERSIONS[kind]
