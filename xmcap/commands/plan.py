"""`xmcap plan`: plans a run before it is paid for."""

import contextlib
import json
import math

from xmcap.commands import base, measure
from xmcap.errors import UsageError
from xmcap.files import outputs

_EXAMPLE = "--gin_file=models/bb.gin --gin_file=runs/train_coco35l.gin --topology=v4-128"


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "plan", _plan, "count parameters, or plan memory, time and cost of a step by compiling it",
    "Needs neither the chips nor the data; for TPUs it needs the extra plan, which has libtpu.", extra="train",
  )  # fmt: skip
  base.add_gin(command)
  measure.add_xla_flags(command)
  slices = (
    "plan a step on slices such as v4:4x4x4, v4-128, v6e-64, 2*v5p-128, or its memory and exchanges on GPUs such as "
    "h100-8"
  )
  captions = "with --search: captions per picture to try on the fastest mesh, besides the recipe's"
  mix = "share of steps with targets of T tokens, with several CaptionStream.target_lengths; default: as in the data"
  base.flag(command, "--params", "print the number of parameters in each part")
  base.text(command, "--topology", "NAME", slices)
  base.flag(command, "--search", "plan every sensible mesh, and rank those that fit")
  base.text(command, "--captions_per_image", "K,K", captions)
  base.flag(command, "--decode", "plan the decoding of an evaluation instead of a step")
  price = "price per chip-hour, to print the cost of the run, and what its corpus takes to build"
  base.text(command, "--price", "X", price, type=float)
  base.text(command, "--core_price", "X", "with --price: price per core-hour, of building", type=float)
  base.text(command, "--length_mix", "T:SHARE,...", mix)
  programs = "keep the compiled steps there for a run on these chips: its MODEL_DIR/compilation_cache"
  base.text(command, "--programs", "FOLDER", programs, type=base.address)
  plans = "write the plan, or the plans of a search, as JSON"
  base.text(command, "--json", "FILE", plans, endings=(".json",))


def _plan(arguments) -> None:
  _check_options(arguments)
  from xmcap.planning import topologies

  topology = topologies.parse(arguments.topology) if arguments.topology else None
  if isinstance(topology, topologies.GpuNode):
    only = "is only for TPUs; for GPUs, the memory and the exchanges of a training step are planned"
    base.refuse(arguments, ("search", "decode", "price", "core_price", "length_mix", "programs"), only)
  base.check_names(arguments)  # before jax is imported
  topologies.prepare_host()
  if topology is not None:
    measure.use_xla_flags(
      arguments, "gpu" if isinstance(topology, topologies.GpuNode) else topology.chip.name
    )
  if not base.configure(arguments):
    return
  from xmcap.models.parts import bound_image_config, bound_language_model
  from xmcap.models.t5 import T5Config

  if bound_language_model() is not T5Config:
    raise UsageError("xmcap plan is for captioners of a T5: check this run with xmcap train --dry_run")
  if arguments.params:
    from xmcap.configuration import bound
    from xmcap.planning import parameters

    counts = parameters.count_parameters(bound(bound_image_config()), bound(T5Config))
    print(parameters.parameter_table(counts).text(), end="")
  if topology is None:
    return
  topology.devices()  # raises if their compiler is not installed
  plan = _search if arguments.search else _decode if arguments.decode else _step
  activity = (
    "planning meshes" if arguments.search else f"compiling {'decoding' if arguments.decode else 'the step'}"
  )
  with contextlib.ExitStack() as stack:
    if arguments.json:
      outputs.keep_apart({"--json": arguments.json}, {"--gin_file": arguments.gin_file})
      stack.enter_context(outputs.held(arguments.json, arguments.prog, "--json", folder=False))
    if arguments.programs:
      from xmcap.planning import programs

      stack.enter_context(outputs.held(arguments.programs, arguments.prog, "--programs", bucket=True))
      stack.enter_context(programs.kept(arguments.programs, base.say))
    with base.saying(f"{activity} for {topology.description}"):
      documents = plan(arguments, topology)
    if arguments.json:
      from xmcap.files import files

      files.write_text(arguments.json, json.dumps(documents, indent=2) + "\n")


def _check_options(arguments) -> None:
  if not arguments.gin_file:
    raise UsageError(f"xmcap plan needs gin files, such as {_EXAMPLE}")
  if not arguments.topology:
    options = ("search", "decode", "price", "core_price", "length_mix", "xla_flags", "programs", "json")
    base.refuse(arguments, options, "plans a run on chips: give --topology too, such as v4-128")
    if not (arguments.params or arguments.explain):
      raise UsageError(f"xmcap plan: give --params, or --topology, such as {_EXAMPLE}")
  if arguments.search:
    base.refuse(
      arguments, ("decode", "length_mix", "programs"), "plans the run's own mesh: give it without --search"
    )
  if arguments.decode:
    base.refuse(arguments, ("length_mix", "programs"), "plans a training step: give it without --decode")
  if not arguments.search:
    base.refuse(arguments, ("captions_per_image",), "goes with --search")
  if arguments.price is None or arguments.search:
    base.refuse(arguments, ("core_price",), "goes with --price, without --search")
  for name in ("price", "core_price"):
    if (price := getattr(arguments, name)) is not None and not 0 <= price < math.inf:
      raise UsageError(f"--{name}={price:g}: give the price of an hour, such as 3.22")


def _step(arguments, topology) -> dict:
  from xmcap.data.stream import CaptionStream
  from xmcap.planning import corpora, host, mix, report, run, search, step, topologies

  shares = mix.parse(arguments.length_mix) if arguments.length_mix else None
  planned = run.of_gin(topology)
  # For GPUs only the longest targets are planned.
  lengths = mix.lengths() if isinstance(topology, topologies.Topology) else (planned.target_length,)
  host.check(planned, len(lengths), base.say)
  if len(lengths) > 1:
    base.say(f"length 1 of {len(lengths)}: targets of {planned.target_length} tokens")
  try:
    plan = step.plan_step(planned, topology)
  except step.DoesNotFit as error:
    # Finding settings that fit is worth the compilation time: the error alone would not help.
    raise search.with_way_out(error, topology, print) from None
  print(report.text(plan, topology, arguments.price, len(lengths)), end="")
  corpus = corpora.of_mixture(run.option(CaptionStream, "mixture"))
  if corpus and arguments.price is not None:
    print("\n" + corpora.building(corpus, price=arguments.core_price).text(), end="")
  mixed = mix.plan_mix(planned, topology, plan, shares, base.say) if "estimate" in plan else None
  if mixed is None:
    return plan
  print("\nThe above is for the longest targets. With all lengths of CaptionStream.target_lengths:\n")
  print(report.mix_text(mixed, plan, arguments.price), end="")
  return {**plan, "lengths": mixed}


def _decode(arguments, topology) -> dict:
  from xmcap.planning import decode

  plan = decode.plan_decoding(topology)
  print(decode.text(plan, topology), end="")
  return plan


def _search(arguments, topology) -> list[dict]:
  from xmcap.data.stream import CaptionStream
  from xmcap.planning import host, report, run, search

  text = arguments.captions_per_image or ""
  try:
    captions = tuple(map(int, text.split(","))) if text else ()
  except ValueError:
    raise UsageError(f"--captions_per_image={text}: give numbers, such as 2,4,8") from None
  recipe = run.option(CaptionStream, "captions_per_image")
  host.check(run.of_gin(topology, scan=True), 1, base.say)
  plans, refused = search.search(topology, captions, print)
  print("\n" + report.ranking(plans, refused, recipe), end="")
  if not plans:
    raise UsageError(f"nothing fits on {topology.name}: use more or larger chips, or a smaller batch")
  best = next(plan for plan in plans if plan["variant"]["captions_per_image"] == recipe)
  print("\nThe fastest that fits, with the recipe's captions per picture:\n")
  print(report.text(best, topology, arguments.price), end="")
  return plans
