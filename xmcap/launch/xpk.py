"""GKE with XPK (github.com/AI-Hypercomputer/xpk): one workload on a cluster that XPK created."""

import dataclasses
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.launch import gcloud, quoting, runner
from xmcap.launch.options import check_fields, option, passed_on

_ANSWER_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class Workload:
  """The options of `xpk workload`: `tpu_type`, or of GPUs `--device-type` among `xpk_create`; and an image.

  The methods return commands, as argument lists.
  """

  name: str = option("name of the workload", rule="name")
  cluster: str = option("a cluster that xpk created", rule="name")
  project: str = option("the Google Cloud project; gcloud's default is not used")
  zone: str = option("zone, such as us-central2-b")
  tpu_type: str = option("v4-128, v5p-256, v6e-64, ...", "", rule="slice", metavar="TYPE")
  num_slices: int = option("number of TPU slices that train together", 1, least=1, metavar="N")
  docker_image: str = option("an image with xmcap installed", "", metavar="IMAGE")
  grace: int = option("time for saving between the warning and the end", 120, least=1, metavar="SECONDS")
  restart: int = option("largest number of restarts after exit code 75", 10, metavar="K")
  xpk_create: Sequence[str] = passed_on("xpk workload create", "--priority=high")

  def __post_init__(self):
    check_fields(self)

  def create(self, command: Sequence[str]) -> list[str]:
    """XPK restarts by itself after exit codes 42 and 127 to 255; 75 is added to these."""
    if bool(self.tpu_type) == self._passes_on("--device-type="):
      raise UsageError(
        "xmcap launch xpk needs --tpu_type, such as v4-128, or of GPUs --xpk_create=--device-type=h100-80gb-8"
      )
    # Without an image, XPK would build one from the working folder.
    if bool(self.docker_image) == self._passes_on("--base-docker-image="):
      raise UsageError(
        "xmcap launch xpk needs --docker_image, with xmcap installed, or --xpk_create=--base-docker-image=IMAGE, to"
        " which XPK adds the working folder"
      )
    devices = []
    if self.tpu_type:
      devices = [f"--tpu-type={gcloud.accelerator_type(self.tpu_type)}", f"--num-slices={self.num_slices}"]
    return [
      *self._xpk("create"),
      f"--workload={self.name}",
      *devices,
      *([f"--docker-image={self.docker_image}"] if self.docker_image else []),
      *self.xpk_create,
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

  def _passes_on(self, option_name: str) -> bool:
    return any(word.startswith(option_name) for word in self.xpk_create)

  def _xpk(self, verb: str) -> list[str]:
    where = [f"--cluster={self.cluster}", f"--project={self.project}", f"--zone={self.zone}"]
    return ["xpk", "workload", verb, *where]


def run(action: str, workload: Workload, command: Sequence[str] = (), dry_run: bool = False) -> None:
  """Creates (`run`), lists (`status`) or deletes (`delete`) the workload; a dry run prints the command."""
  argv = workload.create(command) if action == "run" else getattr(workload, action)()
  # A new image takes long; the others only ask the cluster.
  limit = None if action == "run" else _ANSWER_SECONDS
  is_done = False
  try:
    with runner.stoppable():
      runner.run(argv, limit, dry_run=dry_run)
    is_done = True
  finally:
    if not dry_run and (action == "run" or (action == "delete" and not is_done)):
      may = "goes on without this command" if is_done else "may run"
      runner.say(
        f"the workload {workload.name} {may}: end it with {quoting.words(workload.delete())}; the cluster's nodes cost"
        " money until the cluster is deleted"
      )
