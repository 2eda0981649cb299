"""SLURM: one batch script for GPU or CPU nodes, requeued when the run asks to be started again."""

import dataclasses
import getpass
from collections.abc import Sequence

from xmcap.launch import quoting, runner, scripts
from xmcap.launch.options import check_fields, check_text, option

# No line of a rendered script can be this one: those with a user's words are indented.
_END = "XMCAP_SBATCH"


@dataclasses.dataclass(frozen=True)
class BatchJob:
  """What the batch script asks for; options left empty are SLURM's defaults.

  JAX takes one GPU for each task, so there are as many tasks on a node as GPUs, and one on a node without.
  """

  name: str = option("the name of the job")
  nodes: int = option("how many nodes", 1, least=1, metavar="N")
  gpus_per_node: int = option("GPUs of each node, one process for each; 0: CPUs", 0, metavar="N")
  cpus_per_task: int = option("for each process", 0, metavar="N")
  mem: str = option("memory of each node, such as 200G", "")
  time: str = option("the time limit, such as 24:00:00", "")
  partition: str = option("where to queue", "")
  account: str = option("who is charged", "")
  qos: str = option("the quality of service", "")
  constraint: str = option("features of the nodes", "")
  chdir: str = option("the folder that the job runs in", "")
  log: str = option("the file of the output; %%x is the name, %%j the number", "%x-%j.log")
  grace: int = option("between the warning and the end, to save in", 120, least=1, metavar="SECONDS")
  restart: int = option("start again at most so often after exit code 75", 10, metavar="K")

  def __post_init__(self):
    check_fields(self)


def script(job: BatchJob, command: Sequence[str]) -> str:
  """Returns the batch script that runs `command` in every task."""
  asked = ("partition", "account", "qos", "constraint", "chdir")
  directives = {
    "job-name": job.name,
    "nodes": job.nodes,
    "ntasks-per-node": max(1, job.gpus_per_node),
    "gpus-per-node": job.gpus_per_node,
    "cpus-per-task": job.cpus_per_task,
    "mem": job.mem,
    "time": job.time,
    **{name: getattr(job, name) for name in asked},
    "output": job.log,
    # A requeued job goes on in the same file.
    "open-mode": "append",
    "signal": f"TERM@{job.grace}",
  }
  lines = [f"#SBATCH --{name}={value}" for name, value in directives.items() if value]
  srun = ["--label", "--kill-on-bad-exit=0", "--wait=120"]
  if job.cpus_per_task:
    # From SLURM 22.05 on srun no longer takes this from the batch job.
    srun.append(f"--cpus-per-task={job.cpus_per_task}")
  return scripts.render(
    "slurm.sh",
    directives="\n".join([*lines, "#SBATCH --requeue"]),
    restart=str(job.restart),
    command="\n".join(f"  {quoting.word(text)}" for text in command),
    srun=quoting.words(srun),
  )


def submit(job: BatchJob, command: Sequence[str], dry_run: bool = False) -> None:
  """Submits the script by sbatch; a dry run prints it instead."""
  text = script(job, command)
  if dry_run:
    print(f"sbatch <<'{_END}'\n{text}{_END}")
    return
  runner.run(["sbatch"], given=text)
  runner.say(
    f"follow it with squeue; the output goes to {job.log} (%x is {job.name}, %j the number of the job)"
  )


def control(action: str, name: str, dry_run: bool = False) -> None:
  """Shows (`status`) or ends (`stop`) this user's jobs of that name."""
  check_text("word", name, "name")
  program = {"status": "squeue", "stop": "scancel"}[action]
  runner.run([program, f"--user={getpass.getuser()}", f"--name={name}"], dry_run=dry_run)
