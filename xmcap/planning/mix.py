"""The mean time of a step if batches have several target lengths, each with its own compiled program."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError, XmcapError
from xmcap.planning.run import PlannedRun, option
from xmcap.planning.step import plan_step
from xmcap.planning.topologies import Topology
from xmcap.training.run_arguments import Arguments

_STEPS = 128  # from which the shares of lengths are estimated


def parse(text: str) -> dict[int, float]:
  """Parses `16:0.4,32:0.5,64:0.1` to {length: share}, scaled to a sum of 1."""
  parts = [part.split(":") for part in text.split(",")]
  try:
    shares = {int(length): float(share) for length, share in parts}
  except ValueError:
    shares = {}
  total = sum(shares.values())
  if len(shares) < len(parts) or min(shares.values()) < 0 or not 0 < total < math.inf:
    raise UsageError(f"--length_mix={text}: give the share of each length, such as 16:0.4,32:0.5,64:0.1")
  sizes = lengths()
  if not set(shares) <= set(sizes):
    raise UsageError(f"--length_mix={text}: the run only has targets of {', '.join(map(str, sizes))} tokens")
  return {length: share / total for length, share in shares.items()}


def lengths() -> tuple[int, ...]:
  """The target lengths of the configured run, ascending."""
  longest = option(CaptionStream, "target_length")
  return (*(size for size in option(CaptionStream, "target_lengths") if size < longest), longest)


def plan_mix(
  run: PlannedRun,
  topology: Topology,
  longest: Mapping[str, Any],
  mix: Mapping[int, float] | None,
  say: Callable[[str], None],
) -> dict[str, Any] | None:
  """Plans the steps for a run's other target lengths; None if it has only one.

  Args:
    run, longest: the run with its longest targets, and its plan.
    topology: the chips.
    mix: length -> share of steps; None: the shares in the run's data, if its index of lengths can be read.
    say: called with a line about each plan.

  Returns:
    Values that JSON can hold, with lengths as text: `step_seconds`, `exposed_seconds` and `shares` by length, and the
    means `mean_step_seconds` and `mean_exposed_seconds`. Shares and means are None if the shares are unknown;
    `why_unknown` says why.
  """
  *shorter, last = lengths()
  if not shorter:
    return None
  shares, summary = mix, dict[str, Any]()
  if mix is None:
    try:
      shares = Arguments()["stream"]().mix_of_lengths(_STEPS)
    except XmcapError as error:
      summary["why_unknown"] = str(error)
  plans: dict[int, Mapping[str, Any]] = {}
  for number, length in enumerate(shorter, 2):
    say(f"length {number} of {len(shorter) + 1}: targets of {length} tokens")
    plans[length] = plan = plan_step(dataclasses.replace(run, target_length=length), topology)
    say(f"targets of {length}: compiled in {plan['compile_seconds']:.0f} s")
  plans[last] = longest
  for name in ("step_seconds", "exposed_seconds"):
    seconds = {length: plan["estimate"][name] for length, plan in plans.items()}
    summary[name] = {str(length): value for length, value in seconds.items()}
    summary[f"mean_{name}"] = shares and sum(share * seconds[length] for length, share in shares.items())
  return {**summary, "shares": shares and {str(length): share for length, share in shares.items()}}
