"""`xmcap launch`: starts a run on many machines, or rehearses it on this one."""

import dataclasses
import re
import sys
from typing import Any

from xmcap import wording
from xmcap.commands import base
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import local, options, slurm, tpu_vm, xpk
from xmcap.launch.gcloud import Slice, TpuVm, slice_of
from xmcap.launch.package import Package

_RUN = "Give the command for every host after --, such as: -- train --gin_file=models/bb.gin"
_COMMANDS = ("train", "eval", "embed")
_SECRET = re.compile(r"(\w*_)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD)=.*", re.DOTALL | re.IGNORECASE)


class _EndedError(XmcapError):
  """A run ended with a nonzero exit code, which the launcher returns too."""

  def __init__(self, message: str, exit_code: int):
    super().__init__(message)
    self.exit_code = exit_code


def add(commands) -> None:
  """Declares the command, with a subcommand for each platform."""
  where = base.add_group(
    commands, "launch", "WHERE", "start a run on a TPU VM, with XPK, with SLURM, or as several local processes",
    description=f"Starts a run on many hosts. {_RUN}",
    epilog="Each WHERE has its own --help. The run's configuration is resolved here before anything is started."
    " --dry_run only prints the commands. See docs/pods.md.",
  )  # fmt: skip
  command = _add(where, "tpu-vm", _tpu_vm, "a TPU VM by gcloud, followed until the run ends")
  command.add_argument("--action", default="run", choices=("run", "logs", "status", "stop", "delete"))
  for kind in (TpuVm, Package, tpu_vm.Following):
    options.add_to(command, kind)
  base.text(command, "--worker", "N", "worker whose log --action=logs follows", "0")
  base.text(
    command,
    "--price",
    "X",
    "price per chip-hour: the last lines say what an hour costs, --action=status what it cost so far",
    type=float,
  )

  command = _add(where, "xpk", _xpk, "a workload on a GKE cluster, with XPK")
  command.add_argument("--action", default="run", choices=("run", "status", "delete"))
  options.add_to(command, xpk.Workload)

  command = _add(where, "slurm", _slurm, "a batch job on GPU or CPU nodes")
  command.add_argument("--action", default="run", choices=("run", "status", "stop"))
  options.add_to(command, slurm.BatchJob)
  base.text(command, "--program", "PATH", "path of xmcap on the nodes", "xmcap")

  command = _add(where, "local", _local, "several processes on this machine")
  base.number(
    command, "--processes", "number of processes", least=1, most=local.MOST_PROCESSES, required=True
  )
  base.number(command, "--devices", "simulated CPU devices per process; 0: the real devices", 0, metavar="M")
  grace = "time for saving between the warning and the end"
  base.text(command, "--grace", "SECONDS", grace, 60.0, type=float)
  base.number(command, "--restart", "largest number of restarts in a row without progress", 0, metavar="K")
  base.text(command, "--program", "PATH", "the program to run; default: this xmcap", "")

  for name in ("tpu-vm", "xpk", "slurm"):
    command = where.choices[name]
    base.flag(command, "--unchecked", "do not resolve the configuration of the run here before it is started")
    command.set_defaults(parsers=commands.choices)
  for command in where.choices.values():
    # A remainder takes all following words, so it is added after every option.
    base.text(command, "command", "-- COMMAND", "xmcap's train, eval or embed with its options", nargs="...")


def _add(where, name: str, run, summary: str):
  command = base.add_command(where, name, run, summary, _RUN + ".")
  command.set_defaults(hands_words_on=True)  # to another program, so they need not be UTF-8
  base.flag(command, "--dry_run", "only print the commands")
  base.text(command, "--env", "NAME=VALUE", "a variable of the command (repeatable)", [], action="append")
  return command


def _command(arguments) -> list[str]:
  """Returns xmcap's arguments after `--`.

  UsageError if there are none, the command is not for many hosts, or a variable has two values.
  """
  words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
  if not words or words[0] not in _COMMANDS:
    reason = f"{ascii(words[0])} is not a command for many hosts" if words else "there is no command after --"
    raise UsageError(
      f"xmcap launch: {reason}: give one of {', '.join(_COMMANDS)}, such as: -- train --gin_file=..."
    )
  variables = [text.partition("=")[0] for text in (*arguments.env, *getattr(arguments, "secret", ()))]
  if repeated := wording.repeated(variables):
    raise UsageError(f"the variable {ascii(repeated[0])} is given twice by --env or --secret; give it once")
  return words


def _hosted_command(arguments, program: str = "xmcap") -> list[str]:
  """Returns the whole command of a host: variables, program and arguments; [] for actions other than `run`."""
  if arguments.action != "run":
    if arguments.command:
      raise UsageError(f"--action={arguments.action}: give no command after --")
    return []
  variables = [options.check_text("env", text, "env") for text in arguments.env]
  return [*(["env", *variables] if variables else []), program, *_command(arguments)]


def _tpu_vm(arguments) -> None:
  vm = options.parsed(arguments, TpuVm)
  for text in arguments.env:
    if _SECRET.fullmatch(text):
      name = text.split("=")[0]
      raise UsageError(
        f"--env={name}=...: others can read command lines: give --secret={name}=FILE or {name}=sm://SECRET"
      )
  command = _hosted_command(arguments)
  if not command:
    tpu_vm.control(arguments.action, vm, arguments.worker, arguments.dry_run, arguments.price)
    return
  package, following = (options.parsed(arguments, kind) for kind in (Package, tpu_vm.Following))
  vm.create()  # raises for missing options
  written = _checked(arguments, _slices(vm.accelerator_type, vm.num_slices, arguments, following.files))
  logs = f"{written.rstrip('/')}/logs" if written.startswith("gs://") else ""
  run = tpu_vm.TpuVmRun(vm, package, following, command, logs=logs, price=arguments.price)
  if arguments.dry_run:
    print(run.dry_run())
  else:
    run.run()


def _xpk(arguments) -> None:
  workload = options.parsed(arguments, xpk.Workload)
  command = _hosted_command(arguments)
  if command:
    workload.create(command)  # raises for missing options
    if workload.tpu_type:
      place = _slices(workload.tpu_type, workload.num_slices, arguments)
    else:  # of GPUs, whose number only xpk reads
      place = _place("the cluster", Slice(0, 0, 1), 1, arguments)
    _checked(arguments, place)
  xpk.run(arguments.action, workload, command, arguments.dry_run)


def _slurm(arguments) -> None:
  command = _hosted_command(arguments, arguments.program)
  if not command:
    slurm.control(arguments.action, arguments.name, arguments.dry_run)
    return
  job = options.parsed(arguments, slurm.BatchJob)
  node = Slice(job.gpus_per_node, job.gpus_per_node, 1)
  place = _place(f"{job.nodes} nodes", node, job.nodes, arguments, ".")
  # With this variable, all nodes count as one (docs/pods.md).
  joined = any(text.startswith("JAX_PARTITION_INDEX=") for text in arguments.env)
  _checked(arguments, dataclasses.replace(place, same_disks=True, slices=1 if joined else job.nodes))
  slurm.submit(job, command, arguments.dry_run)


def _slices(slice_type: str, slices: int, arguments, folder: str | None = None) -> Any:
  place = _place(slice_type, slice_of(slice_type), slices, arguments, folder)
  return dataclasses.replace(place, slice_type=slice_type)


def _place(name: str, one: Slice, slices: int, arguments, folder: str | None = None) -> Any:
  """A `launch_checks.LaunchPlace`."""
  from xmcap.commands import launch_checks  # imports numpy and gin

  several = f"{slices} x {name}" if slices > 1 and arguments.run is not _slurm else name
  sizes = (one.hosts * slices, one.devices * slices, slices)
  return launch_checks.LaunchPlace(several, *sizes, folder, ask=not arguments.dry_run)


def _checked(arguments, place: Any) -> str:
  """Checks the command where it will run; returns the folder that it writes to, as far as it is known."""
  words = _command(arguments)
  if not arguments.unchecked:
    from xmcap.commands import launch_checks

    return launch_checks.check(arguments.parsers, words, place)
  folders = [word.split("=", 1)[1] for word in words if word.startswith(("--gin.MODEL_DIR=", "--model_dir="))]
  return folders[-1] if folders else ""


def _local(arguments) -> None:
  # -P: not the folder of the user, which may be a clone beside the installed package.
  program = [arguments.program] if arguments.program else [sys.executable, "-P", "-m", "xmcap.cli"]
  command = [*program, *_command(arguments)]
  env = dict(options.check_text("env", text, "env").split("=", 1) for text in arguments.env)
  if arguments.dry_run:
    print(local.dry_run(command, arguments.processes, arguments.devices, env))
    return
  code = local.run(command, arguments.processes, arguments.devices, arguments.restart, arguments.grace, env)
  if code:
    raise _EndedError(
      f"the run ended with {local.exit_code_words(code)}: see the output of its processes above", code
    )
