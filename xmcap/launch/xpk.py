"""GKE by XPK (github.com/AI-Hypercomputer/xpk): one workload on a cluster that XPK made."""

import dataclasses
import pathlib
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.launch import names, quoting, runner


@dataclasses.dataclass(frozen=True)
class Workload:
  """What `xpk workload create` is asked for; `tpu_type` or `device_type`, `docker_image` or `base_docker_image`."""

  name: str
  cluster: str
  project: str
  zone: str
  tpu_type: str = ""
  device_type: str = ""
  num_slices: int = 1
  num_nodes: int = 1
  docker_image: str = ""
  base_docker_image: str = ""
  script_dir: str = ""
  priority: str = "medium"
  restart: int = 10
  grace: int = 120

  def __post_init__(self):
    for option in ("name", "cluster"):
      names.check("xpk name", getattr(self, option), option)
    for option in ("project", "zone"):
      names.check(option, getattr(self, option))

  def check(self) -> None:
    """Checks what creating needs and the other actions do not."""
    if bool(self.tpu_type) == bool(self.device_type):
      raise UsageError(
        "xmcap launch xpk needs --tpu_type, such as v4-128, or --device_type, such as h100-80gb-8"
      )
    if bool(self.docker_image) == bool(self.base_docker_image):
      raise UsageError(
        "xmcap launch xpk needs --docker_image, with xmcap installed in it, or --base_docker_image, to which XPK"
        " adds the files of --script_dir"
      )
    for option in ("device_type", "docker_image", "base_docker_image"):
      if getattr(self, option):
        names.check(option, getattr(self, option))
    for option in ("num_slices", "num_nodes", "grace"):
      names.positive(option, getattr(self, option))
    names.positive("restart", self.restart, 0)
    if self.script_dir and not self.base_docker_image:
      raise UsageError("--script_dir: goes with --base_docker_image")
    if self.script_dir and not pathlib.Path(self.script_dir).is_dir():
      raise UsageError(f"--script_dir={self.script_dir}: no such folder")


def create(workload: Workload, command: Sequence[str]) -> list[str]:
  """Returns the argument list that creates the workload.

  XPK restarts by itself where the exit code is 42 or 127 to 255; 75 is added to these.
  """
  workload.check()
  if workload.tpu_type:
    device = [
      f"--tpu-type={names.accelerator_type(workload.tpu_type)}",
      f"--num-slices={workload.num_slices}",
    ]
  else:
    device = [f"--device-type={workload.device_type}", f"--num-nodes={workload.num_nodes}"]
  if workload.docker_image:
    image = [f"--docker-image={workload.docker_image}"]
  else:
    image = [f"--base-docker-image={workload.base_docker_image}"]
    image += [f"--script-dir={workload.script_dir}"] if workload.script_dir else []
  return [
    *_xpk(workload, "create"),
    f"--workload={workload.name}",
    *device,
    *image,
    f"--priority={workload.priority}",
    f"--max-restarts={workload.restart}",
    "--restart-on-exit-codes=75",
    f"--termination-grace-period-seconds={workload.grace}",
    # With exec the signals that XPK forwards reach xmcap and not a shell before it.
    f"--command=exec {quoting.xpk_words(command)}",
  ]


def run(action: str, workload: Workload, command: Sequence[str] = (), dry_run: bool = False) -> None:
  """Creates (`run`), lists (`status`) or deletes (`delete`) the workload; a dry run prints the command."""
  if action == "run":
    argv = create(workload, command)
  elif action == "status":
    argv = [*_xpk(workload, "list"), f"--filter-by-job={workload.name}"]
  else:
    argv = [*_xpk(workload, "delete"), f"--workload={workload.name}"]
  if dry_run:
    print(quoting.shown(argv))
    return
  runner.run(argv)


def _xpk(workload: Workload, subcommand: str) -> list[str]:
  return [
    *("xpk", "workload", subcommand),
    f"--cluster={workload.cluster}",
    f"--project={workload.project}",
    f"--zone={workload.zone}",
  ]
