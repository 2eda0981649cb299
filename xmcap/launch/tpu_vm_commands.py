"""The gcloud commands for one TPU slice, or several that train together (gcloud 528)."""

import dataclasses
import pathlib
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.launch import names, quoting, scripts


@dataclasses.dataclass(frozen=True)
class Machine:
  """A TPU VM, or the queued resource that brings it; with several slices always a queued resource."""

  name: str
  project: str
  zone: str
  accelerator_type: str = ""
  runtime_version: str = ""
  num_slices: int = 1
  queued: bool = False
  spot: bool = False
  reserved: bool = False
  service_account: str = ""
  network: str = ""
  subnetwork: str = ""
  internal_ips: bool = False
  data_disk: str = ""

  def __post_init__(self):
    names.check("tpu name", self.name, "name")
    for option in ("project", "zone"):
      names.check(option, getattr(self, option))
    for option in ("runtime_version", "service_account", "network", "subnetwork", "data_disk"):
      if getattr(self, option):
        names.check(option, getattr(self, option))
    names.positive("num_slices", self.num_slices)
    if self.spot and self.reserved:
      raise UsageError("--spot and --reserved: a slice is one or the other")
    if self.num_slices > 1 and not self.queued:
      raise UsageError(
        f"--num_slices={self.num_slices}: several slices come as a queued resource: add --queued"
      )

  def create(self) -> list[str]:
    """Returns the command that creates the slice, or asks for it."""
    if not self.accelerator_type:
      raise UsageError("xmcap launch tpu-vm needs --accelerator_type, such as v4-128")
    kind = names.accelerator_type(self.accelerator_type)
    version = self.runtime_version or names.runtime_version(kind)
    options = [f"--accelerator-type={kind}"]
    if not self.queued:
      options += [f"--version={version}"]
    elif self.num_slices == 1:
      options += [f"--runtime-version={version}", f"--node-id={self.name}"]
    else:
      options += [
        f"--runtime-version={version}",
        f"--node-count={self.num_slices}",
        f"--node-prefix={self.name}",
      ]
    for option in ("spot", "reserved", "internal_ips"):
      options += [f"--{option.replace('_', '-')}"] if getattr(self, option) else []
    for option in ("service_account", "network", "subnetwork"):
      value = getattr(self, option)
      options += [f"--{option.replace('_', '-')}={value}"] if value else []
    if self.data_disk:
      source = self.data_disk
      if "/" not in source:
        source = f"projects/{self.project}/zones/{self.zone}/disks/{source}"
      # Read-only, a disk may be attached to any number of workers.
      options.append(f"--data-disk=source={source},mode=read-only")
    return self._gcloud(self._kind(), "create", *options, "--quiet")

  def describe(self, resource: bool | None = None) -> list[str]:
    """Returns the command that prints the state; `resource`: of the queued resource rather than of the TPU VM."""
    if self.queued if resource is None else resource:
      return self._gcloud("queued-resources", "describe", "--format=value(state.state)")
    return self._gcloud("tpu-vm", "describe", "--format=value(state)")

  def delete(self) -> list[str]:
    """Returns the command that gives the slice back, with all that runs on it."""
    force = ["--force"] if self.queued else []
    return self._gcloud(self._kind(), "delete", *force, "--quiet")

  def copy(self, file: pathlib.Path) -> list[str]:
    """Returns the command that copies a file into the home folder of every worker."""
    kind, nodes = self._nodes()
    return self._gcloud(
      kind, "scp", *nodes, "--worker=all", *self._route(), "--quiet", before=[str(file)], sign=":"
    )

  def mount(self) -> list[str]:
    """Returns the command that mounts the attached disk at `/mnt/disks/NAME` on every worker, read-only."""
    return self.ssh("tpu_vm_disk.sh", [self.data_disk.rpartition("/")[2], "/dev/disk/by-id", "/mnt/disks"])

  def ssh(self, script: str, arguments: Sequence[str], worker: str = "all") -> list[str]:
    """Returns the command that runs a script of `launch/` on workers.

    The script is constant text; `arguments` are its own, each one word of the remote shell.
    """
    kind, nodes = self._nodes() if worker == "all" else self._nodes("0")
    remote = quoting.shown(["bash", "-c", scripts.text(script), "xmcap", *arguments])
    return self._gcloud(
      kind, "ssh", *nodes, f"--worker={worker}", *self._route(), "--quiet", f"--command={remote}"
    )

  def _gcloud(
    self, kind: str, verb: str, *options: str, before: Sequence[str] = (), sign: str = ""
  ) -> list[str]:
    where = [f"--project={self.project}", f"--zone={self.zone}"]
    return ["gcloud", "compute", "tpus", kind, verb, *before, self.name + sign, *where, *options]

  def _kind(self) -> str:
    return "queued-resources" if self.queued else "tpu-vm"

  def _nodes(self, node: str = "all") -> tuple[str, list[str]]:
    """Returns what ssh and scp address: the TPU VM, or the nodes of a queued resource with several."""
    if self.num_slices == 1:
      return "tpu-vm", []
    return "queued-resources", [f"--node={node}"]

  def _route(self) -> list[str]:
    return ["--internal-ip"] if self.internal_ips else []
