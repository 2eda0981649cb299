"""The mean time of a step where batches have targets of several lengths: each length is a program of its own."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError, XmcapError
from xmcap.planning.run import Run, option
from xmcap.planning.step import plan_step
from xmcap.planning.topologies import Topology
from xmcap.training.run_arguments import Arguments

_STEPS = 128  # whose lengths are looked up


def parse(text: str) -> dict[int, float]:
  """`16:0.4,32:0.5,64:0.1` -> shares of the lengths of the configured run, scaled to a sum of 1."""
  try:
    shares = {int(length): float(share) for length, share in (part.split(":") for part in text.split(","))}
  except ValueError:
    shares = {}
  total = sum(shares.values())
  if not shares or min(shares.values()) < 0 or not 0 < total < math.inf:
    raise UsageError(f"--length_mix={text}: give the share of each length, such as 16:0.4,32:0.5,64:0.1")
  sizes = lengths()
  if not set(shares) <= set(sizes):
    raise UsageError(f"--length_mix={text}: the run has targets of {', '.join(map(str, sizes))} pieces alone")
  return {length: share / total for length, share in shares.items()}


def lengths() -> tuple[int, ...]:
  """The lengths of targets in the configured run, ascending."""
  longest = option(CaptionStream, "target_length")
  return (*(size for size in option(CaptionStream, "target_lengths") if size < longest), longest)


def plan_mix(
  run: Run,
  topology: Topology,
  longest: Mapping[str, Any],
  given: Mapping[int, float] | None,
  say: Callable[[str], None],
) -> dict[str, Any] | None:
  """Plans the steps of a run's other lengths; None if it has one length.

  Args:
    run: with its longest targets.
    topology: the chips.
    longest: the plan of `run`.
    given: T -> share of steps; None: the shares of the run's data, where it and its index of lengths are at hand.
    say: is told of each plan.

  Returns:
    JSON's types, with lengths as text: `step_seconds` and `shares` of each, and `mean_step_seconds`. The last two are
    None where the shares are not known; `why_unknown` says why.

  Raises:
    XmcapError: see `plan_step`.
  """
  *shorter, last = lengths()
  if not shorter:
    return None
  shares, found = given, {}
  if given is None:
    try:
      shares = Arguments()["stream"]().mix_of_lengths(_STEPS)
    except XmcapError as error:
      found["why_unknown"] = str(error)
  seconds = {}
  for length in shorter:
    plan = plan_step(dataclasses.replace(run, target_length=length), topology)
    seconds[length] = plan["estimate"]["step_seconds"]
    say(f"targets of {length}: compiled in {plan['compile_seconds']:.0f} s")
  seconds[last] = longest["estimate"]["step_seconds"]
  return {
    **found,
    "step_seconds": {str(length): value for length, value in seconds.items()},
    "shares": shares and {str(length): share for length, share in shares.items()},
    "mean_step_seconds": shares and sum(share * seconds[length] for length, share in shares.items()),
  }
