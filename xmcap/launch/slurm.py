"""SLURM: one batch script for GPU or CPU nodes, requeued when the run asks to be started again."""

import dataclasses
import getpass
from collections.abc import Sequence

from xmcap.launch import names, quoting, runner, scripts

# No line of a rendered script can be this one: those with a user's words are indented.
_END = "XMCAP_SBATCH"


@dataclasses.dataclass(frozen=True)
class Job:
  """What the batch script asks for; options left empty are SLURM's defaults.

  JAX takes one GPU for each task, so there are as many tasks on a node as GPUs, and one on a node without.
  """

  name: str
  nodes: int
  gpus_per_node: int = 0
  cpus_per_task: int = 0
  mem: str = ""
  time: str = ""
  partition: str = ""
  account: str = ""
  qos: str = ""
  constraint: str = ""
  chdir: str = ""
  log: str = "%x-%j.log"
  restart: int = 10
  grace: int = 120

  def __post_init__(self):
    names.check("job name", self.name, "name")
    names.positive("nodes", self.nodes)
    for option in ("gpus_per_node", "cpus_per_task", "restart"):
      names.positive(option, getattr(self, option), 0)
    names.positive("grace", self.grace)
    for option in ("mem", "time", "partition", "account", "qos", "constraint", "chdir", "log"):
      if getattr(self, option):
        names.check(option, getattr(self, option))


def script(job: Job, command: Sequence[str]) -> str:
  """Returns the batch script that runs `command` in every task."""
  tasks = max(1, job.gpus_per_node)
  options = {
    "job-name": job.name,
    "nodes": job.nodes,
    "ntasks-per-node": tasks,
    "gpus-per-node": job.gpus_per_node or "",
    "cpus-per-task": job.cpus_per_task or "",
    "mem": job.mem,
    "time": job.time,
    "partition": job.partition,
    "account": job.account,
    "qos": job.qos,
    "constraint": job.constraint,
    "chdir": job.chdir,
    "output": job.log,
    # A requeued job goes on in the same file.
    "open-mode": "append",
    "signal": f"TERM@{job.grace}",
  }
  lines = [f"#SBATCH --{option}={value}" for option, value in options.items() if value]
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


def submit(job: Job, command: Sequence[str], dry_run: bool = False) -> None:
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
  names.check("job name", name, "name")
  program = {"status": "squeue", "stop": "scancel"}[action]
  argv = [program, f"--user={getpass.getuser()}", f"--name={name}"]
  if dry_run:
    print(quoting.shown(argv))
    return
  runner.run(argv)
