"""The mean time of a step where batches have targets of several lengths: each length is a program of its own."""

import dataclasses
import math
from collections.abc import Callable, Mapping

from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError, XmcapError
from xmcap.planning.run import Run, option
from xmcap.planning.step import StepPlan, plan_step
from xmcap.training.run_arguments import Arguments

_STEPS = 128  # whose lengths are looked up


@dataclasses.dataclass(frozen=True)
class Mix:
  """The steps of a run.

  Attributes:
    plans: T -> the step with targets of T pieces, the longest last.
    shares: T -> the share of steps; None where it is not known.
    why_unknown: the reason, or "".
  """

  plans: Mapping[int, StepPlan]
  shares: Mapping[int, float] | None
  why_unknown: str = ""

  @property
  def seconds(self) -> float | None:
    """The mean of the estimates of a step; None where the shares are not known."""
    if self.shares is None:
      return None
    return sum(share * self.plans[length].seconds for length, share in self.shares.items())


def parse(text: str) -> dict[int, float]:
  """`16:0.4,32:0.5,64:0.1` -> shares, scaled to a sum of 1.

  Raises:
    UsageError: the text is malformed, or names a length that the configured run does not have.
  """
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


def plan_mix(longest: StepPlan, given: Mapping[int, float] | None, say: Callable[[str], None]) -> Mix | None:
  """Plans the steps of a run's other lengths; None if it has one length.

  Args:
    longest: the plan of its longest targets.
    given: T -> share of steps; None: the shares of the run's data, where it and its index of lengths are at hand.
    say: is told of each plan.

  Raises:
    XmcapError: see `plan_step`.
  """
  sizes = lengths()
  if len(sizes) == 1:
    return None
  shares, why_unknown = (given, "") if given is not None else _shares_of_data()
  plans = {}
  for length in sizes[:-1]:
    plans[length] = plan_step(_with_targets(longest.run, length), longest.topology)
    say(f"targets of {length}: compiled in {plans[length].compile_seconds:.0f} s")
  return Mix({**plans, sizes[-1]: longest}, shares, why_unknown)


def _shares_of_data() -> tuple[dict[int, float] | None, str]:
  try:
    return Arguments()["stream"]().mix_of_lengths(_STEPS), ""
  except XmcapError as error:
    return None, str(error)


def _with_targets(run: Run, length: int) -> Run:
  shapes = {
    name: ((*shape[:-1], length) if name.startswith("target_") else shape, dtype)
    for name, (shape, dtype) in run.shapes.items()
  }
  return dataclasses.replace(run, shapes=shapes)
