"""SLURM: a batch script for GPU or CPU nodes that is requeued when the run asks for a restart."""

import dataclasses
import getpass
import os
import string
from collections.abc import Sequence

from xmcap.launch import quoting, runner, scripts
from xmcap.launch.options import check_fields, check_text, option, passed_on

# No line of a rendered script can equal this: lines with a user's text are indented.
_END = "XMCAP_SBATCH"
_ANSWER_SECONDS = 180


class _Script(string.Template):
  delimiter = "%%"  # `$` is used by bash, and `%` by SLURM


@dataclasses.dataclass(frozen=True)
class BatchJob:
  """Resources of a batch job; empty options are left to SLURM's defaults.

  JAX takes one GPU per task, so a node has as many tasks as GPUs, or one task if it has none.
  """

  name: str = option("name of the job")
  nodes: int = option("number of nodes", 1, least=1, metavar="N")
  gpus_per_node: int = option("GPUs per node, with one process each; 0: CPUs", 0, metavar="N")
  time: str = option("time limit, such as 24:00:00", "")
  partition: str = option("partition", "")
  grace: int = option("time for saving between the warning and the end", 120, least=1, metavar="SECONDS")
  restart: int = option("largest number of restarts after exit code 75", 10, metavar="K")
  sbatch: Sequence[str] = passed_on("sbatch", "--mem=200G")

  def __post_init__(self):
    check_fields(self)


def script(job: BatchJob, command: Sequence[str]) -> str:
  """Returns the batch script that runs `command` in every task."""
  directives = {
    "job-name": job.name,
    "nodes": job.nodes,
    "ntasks-per-node": max(1, job.gpus_per_node),
    "gpus-per-node": job.gpus_per_node,
    "time": job.time,
    "partition": job.partition,
    "output": "%x-%j.log",
    # A requeued job continues in the same file.
    "open-mode": "append",
    "signal": f"TERM@{job.grace}",
  }
  lines = [f"#SBATCH --{name}={value}" for name, value in directives.items() if value]
  template = (scripts.folder() / "slurm.sh").read_text(encoding="utf-8")
  return _Script(template).substitute(
    directives="\n".join([*lines, "#SBATCH --requeue"]),
    restart=str(job.restart),
    command="\n".join(f"  {quoting.word(text)}" for text in command),
  )


def submit(job: BatchJob, command: Sequence[str], dry_run: bool = False) -> None:
  """Submits the script by sbatch; a dry run prints it instead."""
  text = script(job, command)
  if dry_run:
    print(f"{quoting.words(['sbatch', *job.sbatch])} <<'{_END}'\n{text}{_END}")
    return
  with runner.stoppable():
    runner.run(["sbatch", *job.sbatch], stdin=text)
  runner.say(
    f"the job goes on without this command: its output is in {job.name}-%j.log, %j being its number; see it with"
    f" xmcap launch slurm --name={job.name} --action=status, end it with --action=stop"
  )


def control(action: str, name: str, dry_run: bool = False) -> None:
  """Shows (`status`) or ends (`stop`) this user's jobs with that name."""
  check_text("word", name, "name")
  program = {"status": "squeue", "stop": "scancel"}[action]
  try:
    user = getpass.getuser()
  except (OSError, KeyError):  # a container's user has no name
    user = str(os.getuid())
  runner.run([program, f"--user={user}", f"--name={name}"], _ANSWER_SECONDS, dry_run=dry_run)
