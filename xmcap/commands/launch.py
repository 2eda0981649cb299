"""`xmcap launch`: starts a run on many machines, or rehearses it on this one."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

from xmcap.commands import base
from xmcap.errors import UsageError, XmcapError
from xmcap.launch import local, options, slurm, tpu_vm, xpk
from xmcap.launch.gcloud import TpuVm

_RUN = "Give the command for every host after --, such as: -- train --gin_file=models/bb.gin"
_COMMANDS = ("train", "eval", "embed")


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
    epilog="Each WHERE has its own --help. --dry_run only prints the commands. See docs/pods.md.",
  )  # fmt: skip
  command = _add(where, "tpu-vm", _tpu_vm, "a TPU VM by gcloud, followed until the run ends")
  command.add_argument("--action", default="run", choices=("run", "logs", "status", "stop", "delete"))
  for kind in (TpuVm, tpu_vm.Package, tpu_vm.Following):
    options.add_to(command, kind)
  base.text(command, "--worker", "N", "worker whose log --action=logs follows", "0")

  command = _add(where, "xpk", _xpk, "a workload on a GKE cluster, with XPK")
  command.add_argument("--action", default="run", choices=("run", "status", "delete"))
  options.add_to(command, xpk.Workload)

  command = _add(where, "slurm", _slurm, "a batch job on GPU or CPU nodes")
  command.add_argument("--action", default="run", choices=("run", "status", "stop"))
  options.add_to(command, slurm.BatchJob)
  base.text(command, "--program", "PATH", "path of xmcap on the nodes", "xmcap")

  command = _add(where, "local", _local, "several processes on this machine")
  base.number(command, "--processes", "number of processes", required=True)
  base.number(command, "--devices", "simulated CPU devices per process; 0: the real devices", 0, metavar="M")
  grace = "time for saving between the warning and the end"
  base.text(command, "--grace", "SECONDS", grace, 60.0, type=float)
  base.number(command, "--restart", "largest number of restarts after exit code 75", 0, metavar="K")
  base.text(command, "--program", "PATH", "the program to run; default: this xmcap", "")
  bucket = (
    "a folder that stands for a bucket: the processes find its files, and write new ones, as gs://NAME/..."
  )
  base.text(command, "--bucket", "FOLDER/NAME", bucket, "")

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
  """Returns xmcap's arguments after `--`; UsageError if there are none, or the command is not for many hosts."""
  words = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
  if not words or words[0] not in _COMMANDS:
    what = f"{ascii(words[0])} is not a command for many hosts" if words else "there is no command after --"
    raise UsageError(
      f"xmcap launch: {what}: give one of {', '.join(_COMMANDS)}, such as: -- train --gin_file=..."
    )
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
  command = _hosted_command(arguments)
  if not command:
    tpu_vm.control(arguments.action, vm, arguments.worker, arguments.dry_run)
    return
  package, following = (options.parsed(arguments, kind) for kind in (tpu_vm.Package, tpu_vm.Following))
  run = tpu_vm.TpuVmRun(vm, package, following, command)
  if arguments.dry_run:
    print(run.dry_run())
  else:
    run.run()


def _xpk(arguments) -> None:
  workload = options.parsed(arguments, xpk.Workload)
  xpk.run(arguments.action, workload, _hosted_command(arguments), arguments.dry_run)


def _slurm(arguments) -> None:
  command = _hosted_command(arguments, arguments.program)
  if command:
    slurm.submit(options.parsed(arguments, slurm.BatchJob), command, arguments.dry_run)
  else:
    slurm.control(arguments.action, arguments.name, arguments.dry_run)


def _local(arguments) -> None:
  program = [arguments.program] if arguments.program else [sys.executable, "-m", "xmcap.cli"]
  command = [*program, *_command(arguments)]
  given = dict(options.check_text("env", text, "env").split("=", 1) for text in arguments.env)
  if arguments.dry_run:
    if arguments.bucket:
      print(f"# a run serves {arguments.bucket} as a bucket")
    print(local.dry_run(command, arguments.processes, arguments.devices, given))
    return
  with _bucket(arguments.bucket) as found_by:
    code = local.run(
      command,
      arguments.processes,
      arguments.devices,
      arguments.restart,
      arguments.grace,
      {**found_by, **given},
    )
  if code:
    raise _EndedError(
      f"the run ended with {local.exit_code_words(code)}: see the output of its processes above", code
    )


@contextlib.contextmanager
def _bucket(folder: str) -> Iterator[dict[str, str]]:
  """Serves a folder as a bucket; gives the variables by which processes find it. Without a folder, none."""
  if not folder:
    yield {}
    return
  from xmcap.launch.buckets import process
  from xmcap.storage import files

  place = pathlib.Path(folder).expanduser().absolute()
  options.check_text("files", f"gs://{place.name}", "bucket")
  files.make_folder(place)
  with process.served(place) as variables:
    print(f"xmcap: gs://{place.name} is {place} during this run", file=sys.stderr)
    yield variables
