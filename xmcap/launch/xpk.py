"""GKE with XPK (github.com/AI-Hypercomputer/xpk): one workload on a cluster that XPK created."""

import dataclasses
import pathlib
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.launch import gcloud, quoting, runner
from xmcap.launch.options import check_fields, option

_PRIORITIES = ("very-low", "low", "medium", "high", "very-high")


@dataclasses.dataclass(frozen=True)
class Workload:
  """The options of `xpk workload`: either `tpu_type` or `device_type`, and one of the two images.

  The methods return commands, as argument lists.
  """

  name: str = option("name of the workload", rule="name")
  cluster: str = option("a cluster that xpk created", rule="name")
  project: str = option("the Google Cloud project; gcloud's default is not used")
  zone: str = option("zone, such as us-central2-b")
  tpu_type: str = option("v4-128, v5p-256, v6e-64, ...", "", rule="slice", metavar="TYPE")
  device_type: str = option("for GPUs, such as h100-80gb-8", "", metavar="TYPE")
  num_slices: int = option("number of TPU slices that train together", 1, least=1, metavar="N")
  num_nodes: int = option("number of nodes of --device_type", 1, least=1, metavar="N")
  docker_image: str = option("an image with xmcap installed", "", metavar="IMAGE")
  base_docker_image: str = option("an image to which XPK adds --script_dir", "", metavar="IMAGE")
  script_dir: str = option(
    "folder that XPK adds to the image; default: this folder", "", rule="any", metavar="DIR"
  )
  priority: str = option("priority in the queue", "medium", choices=_PRIORITIES)
  grace: int = option("time for saving between the warning and the end", 120, least=1, metavar="SECONDS")
  restart: int = option("largest number of restarts after exit code 75", 10, metavar="K")

  def __post_init__(self):
    check_fields(self)

  def create(self, command: Sequence[str]) -> list[str]:
    """XPK restarts by itself after exit codes 42 and 127 to 255; 75 is added to these."""
    if bool(self.tpu_type) == bool(self.device_type):
      raise UsageError(
        "xmcap launch xpk needs --tpu_type, such as v4-128, or --device_type, such as h100-80gb-8"
      )
    if bool(self.docker_image) == bool(self.base_docker_image):
      raise UsageError(
        "xmcap launch xpk needs --docker_image, with xmcap installed, or --base_docker_image, to which XPK adds the"
        " files of --script_dir"
      )
    if self.script_dir and not (self.base_docker_image and pathlib.Path(self.script_dir).is_dir()):
      raise UsageError(f"--script_dir={self.script_dir}: give a folder, together with --base_docker_image")
    if self.tpu_type:
      devices = [f"--tpu-type={gcloud.accelerator_type(self.tpu_type)}", f"--num-slices={self.num_slices}"]
    else:
      devices = [f"--device-type={self.device_type}", f"--num-nodes={self.num_nodes}"]
    images = {
      "docker-image": self.docker_image,
      "base-docker-image": self.base_docker_image,
      "script-dir": self.script_dir,
    }
    return [
      *self._xpk("create"),
      f"--workload={self.name}",
      *devices,
      *(f"--{name}={value}" for name, value in images.items() if value),
      f"--priority={self.priority}",
      f"--max-restarts={self.restart}",
      "--restart-on-exit-codes=75",
      f"--termination-grace-period-seconds={self.grace}",
      # With exec, the signals that XPK forwards reach xmcap instead of a shell.
      f"--command=exec {quoting.xpk_words(command)}",
    ]

  def status(self) -> list[str]:
    return [*self._xpk("list"), f"--filter-by-job={self.name}"]

  def delete(self) -> list[str]:
    return [*self._xpk("delete"), f"--workload={self.name}"]

  def _xpk(self, verb: str) -> list[str]:
    where = [f"--cluster={self.cluster}", f"--project={self.project}", f"--zone={self.zone}"]
    return ["xpk", "workload", verb, *where]


def run(action: str, workload: Workload, command: Sequence[str] = (), dry_run: bool = False) -> None:
  """Creates (`run`), lists (`status`) or deletes (`delete`) the workload; a dry run prints the command."""
  argv = workload.create(command) if action == "run" else getattr(workload, action)()
  runner.run(argv, dry_run=dry_run)
