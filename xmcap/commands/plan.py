"""The command that says what a run comes to before it is paid for."""

from xmcap.commands import base
from xmcap.errors import UsageError


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "plan", _plan, "say what a model comes to", "Nothing of the model's size is made for it."
  )
  base.add_gin(command)
  command.add_argument("--params", action="store_true", help="print the parameters of each part")


def _plan(arguments) -> None:
  if not arguments.gin_file:
    raise UsageError("xmcap plan needs a model's gin file, such as --gin_file=models/bb.gin")
  from xmcap import configuration

  configuration.parse(arguments.gin_file, arguments.overrides, base.search_paths(arguments))
  if base.explained(arguments):
    return
  if not arguments.params:
    raise UsageError("xmcap plan: say what to print: --params")
  from xmcap import planning
  from xmcap.models.t5 import T5Config
  from xmcap.models.vit import ViTConfig

  print(planning.parameter_table(planning.count_parameters(ViTConfig(), T5Config())).text(), end="")
