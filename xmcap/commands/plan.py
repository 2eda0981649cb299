"""The command that says what a run comes to before it is paid for."""

import contextlib
import json

from xmcap.commands import base
from xmcap.errors import UsageError
from xmcap.storage import outputs, whole_files

_EXAMPLE = "--gin_file=models/bb.gin --gin_file=runs/train_coco35l.gin --topology=v4-128"


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands,
    "plan",
    _plan,
    "say what a run comes to: parameters, or a step compiled for a TPU slice",
    "Needs neither the TPU nor the data; libtpu compiles (pip install 'xmcap[plan]').",
  )
  base.add_gin(command)
  command.add_argument("--params", action="store_true", help="print the parameters of each part")
  command.add_argument(
    "--topology",
    metavar="NAME",
    help="slices such as v4:4x4x4, v4-128, v6e-64, 2*v5p-128: plan a training step; h100-8: its memory on a GPU",
  )
  command.add_argument(
    "--search", action="store_true", help="plan every mesh that makes sense, and rank those that fit"
  )
  command.add_argument(
    "--captions_per_image",
    metavar="K,K",
    help="with --search: captions a picture to try besides the recipe's, on the fastest mesh",
  )
  command.add_argument(
    "--decode", action="store_true", help="plan the decoding of an evaluation instead of a step"
  )
  command.add_argument(
    "--price", type=float, metavar="X", help="of a chip and hour: print the run's cost too"
  )
  command.add_argument(
    "--length_mix",
    metavar="T:SHARE,...",
    help="of steps with targets of T pieces, where CaptionStream.target_lengths has several; default: of the data",
  )
  command.add_argument("--json", metavar="FILE", help="write the plan, or the plans of a search, as JSON")


def _plan(arguments) -> None:
  if not arguments.gin_file:
    raise UsageError(f"xmcap plan needs gin files, such as {_EXAMPLE}")
  for option in ("search", "decode", "price", "length_mix", "json"):
    if getattr(arguments, option) and not arguments.topology:
      raise UsageError(f"xmcap plan: --{option} plans a run on chips: give --topology too, such as v4-128")
  if not (arguments.params or arguments.topology or arguments.explain):
    raise UsageError(f"xmcap plan: say what to plan: --params, or --topology, such as {_EXAMPLE}")
  from xmcap.planning import gpus, topologies

  node = gpus.parse(arguments.topology) if arguments.topology else None
  if node:
    for option in ("search", "decode", "price"):
      if getattr(arguments, option):
        raise UsageError(
          f"xmcap plan: --{option} is for TPUs: of GPUs the memory of a training step is planned alone"
        )
  topology = topologies.parse(arguments.topology) if arguments.topology and not node else None
  topologies.prepare_host()
  if arguments.length_mix and (arguments.search or arguments.decode):
    raise UsageError(
      "xmcap plan: --length_mix is of the run's own step: give it without --search and --decode"
    )
  from xmcap import configuration

  configuration.parse(base.gin_files(arguments), arguments.overrides, base.search_paths(arguments))
  if base.explained(arguments):
    return
  if arguments.params:
    _print_parameters()
  if node or topology:
    with contextlib.ExitStack() as stack:
      if arguments.json:
        outputs.keep_apart({"--json": arguments.json}, {"--gin_file": arguments.gin_file})
        stack.enter_context(outputs.held(arguments.json, arguments.prog, "--json", folder=False))
      documents = (
        _gpus(node)
        if node
        else _search(arguments, topology)
        if arguments.search
        else _one(arguments, topology)
      )
      if arguments.json:
        with whole_files.replacing(arguments.json) as temporary:
          temporary.write_text(json.dumps(documents, indent=2) + "\n")


def _print_parameters() -> None:
  from xmcap.models.t5 import T5Config
  from xmcap.models.vit import ViTConfig
  from xmcap.planning import parameters

  print(parameters.parameter_table(parameters.count_parameters(ViTConfig(), T5Config())).text(), end="")


def _gpus(node) -> dict:
  from xmcap.planning import gpu_memory

  plan = gpu_memory.plan_memory(node)
  print(gpu_memory.text(plan), end="", flush=True)
  if not plan.fits:
    print("looking for the fewest microbatches that fit")
    fitting = gpu_memory.way_out(plan)
    said = f"{plan.memory.total / 2**30:.1f} GiB do not fit on a {node.kind.name}"
    if fitting is None:
      raise UsageError(
        f"{said}, nor in 64 microbatches: a smaller batch, more GPUs, or --gin.ViTConfig.remat=True"
      )
    raise UsageError(
      f"{said}; it fits ({fitting.memory.total / 2**30:.1f} GiB) with "
      f"--gin.train.microbatches={fitting.run.variant.microbatches}"
    )
  return gpu_memory.document(plan)


def _one(arguments, topology) -> dict:
  from xmcap.planning import mix, report, run, search, step

  if arguments.decode:
    from xmcap.planning import decode

    plan = decode.plan_decoding(topology)
    print(decode.text(plan), end="")
    return decode.document(plan)
  shares = mix.parse(arguments.length_mix) if arguments.length_mix else None
  planned = run.of_gin(topology)
  try:
    plan = step.plan_step(planned, topology)
  except step.DoesNotFit as error:
    # Raised again with what would fit, which is worth the compiling: nobody can use the refusal alone.
    raise search.with_way_out(error, topology, print) from None
  mixed = mix.plan_mix(plan, shares, base.say)
  print(report.text(plan, arguments.price), end="")
  if mixed is None:
    return report.document(plan)
  print(
    "\nThe above is a step with the longest targets. With the other lengths of CaptionStream.target_lengths:\n"
  )
  print(mix.text(mixed, arguments.price), end="")
  return {**report.document(plan), "lengths": mix.document(mixed)}


def _search(arguments, topology) -> list[dict]:
  from xmcap.planning import report, run, search

  if arguments.decode:
    raise UsageError(
      "xmcap plan: --decode and --search do not go together: plan the decoding on the run's own mesh"
    )
  captions = _numbers(arguments.captions_per_image)
  plans, refused = search.search(topology, captions, print)
  recipe = run.of_gin(topology).variant.captions_per_image
  print("\n" + report.ranking(plans, refused, recipe), end="")
  if not plans:
    raise UsageError(f"nothing fits on {topology.name}: take more chips, a larger kind, or a smaller batch")
  best = next(plan for plan in plans if plan.run.variant.captions_per_image == recipe)
  print("\nThe fastest that fits, at the recipe's captions a picture:\n")
  print(report.text(best, arguments.price), end="")
  return [report.document(plan) for plan in plans]


def _numbers(text: str | None) -> tuple[int, ...]:
  try:
    return tuple(int(number) for number in text.split(",")) if text else ()
  except ValueError:
    raise UsageError(f"--captions_per_image={text}: give numbers, such as 2,4,8") from None
