"""The command that starts a run on many machines, or rehearses it on this one."""

import sys

from xmcap.commands import base
from xmcap.errors import UsageError, XmcapError

_RUN = "What every host runs stands after --, such as: -- train --gin_file=models/bb.gin"


class _EndedError(XmcapError):
  """A run that ended with another exit code than 0, which is the launcher's too."""

  def __init__(self, message: str, exit_code: int):
    super().__init__(message)
    self.exit_code = exit_code


def add(commands) -> None:
  """Declares the command, with a subcommand for each kind of place."""
  launch = commands.add_parser(
    "launch",
    help="start a run on a TPU VM, by XPK, by SLURM, or in several processes here",
    description=f"Starts a run on many hosts. {_RUN}",
    epilog="Each WHERE has its own --help. --dry_run prints every command and sends nothing. docs/pods.md",
    allow_abbrev=False,
  )
  where = launch.add_subparsers(metavar="WHERE", required=True, parser_class=base.Parser)
  _add_tpu_vm(where)
  _add_xpk(where)
  _add_slurm(where)
  _add_local(where)


def _add(where, name: str, run, summary: str, actions: str = ""):
  command = base.add_command(where, name, run, summary, _RUN + ".", hands_words_on=True)
  if actions:
    command.add_argument("--action", default="run", choices=actions.split(), help="what to do")
  command.add_argument("--dry_run", action="store_true", help="print every command and send nothing")
  command.add_argument(
    "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the command (repeatable)"
  )
  return command


def _add_command(command) -> None:
  # A remainder takes all that follows: it comes after every option.
  command.add_argument(
    "command", nargs="...", metavar="-- COMMAND", help="xmcap's train or eval with its options"
  )


def _command(arguments) -> list[str]:
  """Returns xmcap's arguments after `--`.

  Raises:
    UsageError: there are none, or it is a command that many hosts cannot share.
  """
  words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
  if not words or words[0] not in ("train", "eval"):
    what = f"{ascii(words[0])} is not" if words else "nothing stands after --, which must be"
    raise UsageError(
      f"xmcap launch: {what} a command for many hosts: train or eval, such as: -- train --gin_file=..."
    )
  return words


def _given(arguments) -> list[tuple[str, str]]:
  from xmcap.launch import names

  return [tuple(names.check("env", text).split("=", 1)) for text in arguments.env]


def _hosted(arguments, program: str = "xmcap") -> list[str]:
  """Returns the whole command of a host: the variables, the program and its arguments."""
  variables = [f"{name}={value}" for name, value in _given(arguments)]
  return [*(["env", *variables] if variables else []), program, *_command(arguments)]


def _no_command(arguments) -> None:
  if arguments.command:
    raise UsageError(f"--action={arguments.action}: takes no command after --")


def _options(arguments, kind) -> dict:
  """Returns the options that are fields of a dataclass."""
  return {name: getattr(arguments, name) for name in kind.__dataclass_fields__ if hasattr(arguments, name)}


def _add_place(command, what: str) -> None:
  command.add_argument("--name", required=True, help=what)
  command.add_argument("--project", required=True, help="the Google Cloud project, never taken from gcloud's")
  command.add_argument("--zone", required=True, help="such as us-central2-b")


def _add_restart(command, default: int = 10) -> None:
  command.add_argument(
    "--restart",
    type=int,
    default=default,
    metavar="K",
    help="start again at most so often after exit code 75",
  )


def _add_tpu_vm(where) -> None:
  command = _add(
    where, "tpu-vm", _tpu_vm, "a TPU VM by gcloud, followed until the run ends", "run logs status stop delete"
  )
  _add_place(command, "the name of the TPU VM; a run on one that is there goes on with it")
  command.add_argument("--accelerator_type", default="", metavar="TYPE", help="v4-128, v5p-256, v6e-64, ...")
  command.add_argument(
    "--runtime_version", default="", help="the TPU's software; default: JAX's for its kind"
  )
  command.add_argument(
    "--queued", action="store_true", help="wait in the queue of the zone (queued resource)"
  )
  command.add_argument("--spot", action="store_true", help="cheaper, and taken away at any time")
  command.add_argument("--reserved", action="store_true", help="from the project's reservation")
  command.add_argument("--num_slices", type=int, default=1, metavar="N", help="slices that train together")
  command.add_argument("--service_account", default="", help="whom the workers act as")
  command.add_argument("--network", default="", help="their network")
  command.add_argument("--subnetwork", default="", help="their subnetwork")
  command.add_argument("--internal_ips", action="store_true", help="no external addresses; ssh from inside")
  command.add_argument(
    "--install", default="", metavar="PACKAGE", help="xmcap for the workers: a wheel, or what pip installs"
  )
  command.add_argument(
    "--files", default="", metavar="gs://...", help="copied to every worker; the command runs in the copy"
  )
  command.add_argument(
    "--data_disk", default="", metavar="DISK", help="attached to every worker, read-only, at /mnt/disks/DISK"
  )
  command.add_argument("--python", default="3.12", help="the workers' Python")
  command.add_argument(
    "--poll", type=float, default=30.0, metavar="SECONDS", help="between two looks at the run"
  )
  command.add_argument("--wait", type=float, default=24.0, metavar="HOURS", help="for the TPU to be ready")
  command.add_argument("--worker", default="0", metavar="N", help="whose log --action=logs follows")
  _add_restart(command)
  _add_command(command)


def _tpu_vm(arguments) -> None:
  from xmcap.launch import tpu_vm
  from xmcap.launch.tpu_vm_commands import Machine

  machine = Machine(**_options(arguments, Machine))
  if arguments.action != "run":
    _no_command(arguments)
    tpu_vm.control(arguments.action, machine, arguments.worker, arguments.dry_run)
    return
  command = _hosted(arguments)
  if not arguments.install:
    raise UsageError(
      "xmcap launch tpu-vm needs --install: a wheel, or what pip installs, such as git+https://..."
    )
  run = tpu_vm.Run(
    machine,
    tpu_vm.Package(arguments.install, arguments.python),
    command,
    arguments.files,
    arguments.restart,
    arguments.poll,
    arguments.wait,
  )
  if arguments.dry_run:
    print(run.dry_run())
    return
  machine.create()  # What it lacks is said before anything is sent.
  run.run()


def _add_xpk(where) -> None:
  command = _add(where, "xpk", _xpk, "a workload on a GKE cluster, by XPK", "run status delete")
  _add_place(command, "the name of the workload")
  command.add_argument("--cluster", required=True, help="a cluster that xpk made")
  command.add_argument("--tpu_type", default="", metavar="TYPE", help="v4-128, v5p-256, v6e-64, ...")
  command.add_argument("--device_type", default="", metavar="TYPE", help="for GPUs, such as h100-80gb-8")
  command.add_argument(
    "--num_slices", type=int, default=1, metavar="N", help="TPU slices that train together"
  )
  command.add_argument("--num_nodes", type=int, default=1, metavar="N", help="nodes of --device_type")
  command.add_argument("--docker_image", default="", metavar="IMAGE", help="an image with xmcap in it")
  command.add_argument("--base_docker_image", default="", metavar="IMAGE", help="an image that XPK adds to")
  command.add_argument(
    "--script_dir", default="", metavar="DIR", help="what XPK adds to it; default: this folder"
  )
  command.add_argument(
    "--priority",
    default="medium",
    choices=("very-low", "low", "medium", "high", "very-high"),
    help="in the queue",
  )
  _add_grace(command)
  _add_restart(command)
  _add_command(command)


def _xpk(arguments) -> None:
  from xmcap.launch import xpk

  workload = xpk.Workload(**_options(arguments, xpk.Workload))
  if arguments.action != "run":
    _no_command(arguments)
    xpk.run(arguments.action, workload, dry_run=arguments.dry_run)
    return
  xpk.run("run", workload, _hosted(arguments), arguments.dry_run)


def _add_grace(command) -> None:
  command.add_argument(
    "--grace", type=int, default=120, metavar="SECONDS", help="between the warning and the end, to save in"
  )


def _add_slurm(where) -> None:
  command = _add(where, "slurm", _slurm, "a batch job on GPU or CPU nodes", "run status stop")
  command.add_argument("--name", required=True, help="the name of the job")
  command.add_argument("--nodes", type=int, default=1, metavar="N", help="how many nodes")
  command.add_argument(
    "--gpus_per_node",
    type=int,
    default=0,
    metavar="N",
    help="GPUs of each node, one process for each; 0: CPUs",
  )
  command.add_argument("--cpus_per_task", type=int, default=0, metavar="N", help="for each process")
  for option, text in (
    ("mem", "memory of each node, such as 200G"),
    ("time", "the time limit, such as 24:00:00"),
    ("partition", "where to queue"),
    ("account", "who is charged"),
    ("qos", "the quality of service"),
    ("constraint", "features of the nodes"),
    ("chdir", "the folder that the job runs in"),
  ):
    command.add_argument(f"--{option}", default="", help=text)
  command.add_argument("--log", default="%x-%j.log", help="the file of the output".replace("%", "%%"))
  command.add_argument("--program", default="xmcap", metavar="PATH", help="xmcap as the nodes find it")
  _add_grace(command)
  _add_restart(command)
  _add_command(command)


def _slurm(arguments) -> None:
  from xmcap.launch import slurm

  if arguments.action != "run":
    _no_command(arguments)
    slurm.control(arguments.action, arguments.name, arguments.dry_run)
    return
  job = slurm.Job(**_options(arguments, slurm.Job))
  slurm.submit(job, _hosted(arguments, arguments.program), arguments.dry_run)


def _add_local(where) -> None:
  command = _add(where, "local", _local, "several processes on this machine")
  command.add_argument("--processes", type=int, required=True, metavar="N", help="how many")
  command.add_argument(
    "--devices",
    type=int,
    default=0,
    metavar="M",
    help="simulated CPU devices of each; 0: those that it finds",
  )
  command.add_argument(
    "--grace", type=float, default=60.0, metavar="SECONDS", help="between the warning and the end, to save in"
  )
  command.add_argument("--program", default="", metavar="PATH", help="what is run; default: this xmcap")
  _add_restart(command, 0)
  _add_command(command)


def _local(arguments) -> None:
  from xmcap.launch import local

  program = [arguments.program] if arguments.program else [sys.executable, "-m", "xmcap.cli"]
  command = [*program, *_command(arguments)]
  given = dict(_given(arguments))
  if arguments.dry_run:
    print(local.dry_run(command, arguments.processes, arguments.devices, given))
    return
  code = local.run(command, arguments.processes, arguments.devices, arguments.restart, arguments.grace, given)
  if code:
    raise _EndedError(f"the run ended with {local.words(code)}: see the lines of its processes above", code)
