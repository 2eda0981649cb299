"""The mean time of a step where batches have several lengths of targets: each length is another program."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import gin

from xmcap import configuration
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError, XmcapError
from xmcap.planning.run import Run, option
from xmcap.planning.step import StepPlan, plan_step
from xmcap.scoring.grid import Grid

_STEPS = 128  # whose lengths are looked up


@dataclasses.dataclass(frozen=True)
class Mix:
  """The plans of a run's steps.

  Attributes:
    plans: T -> the step with targets of so many pieces.
    shares: T -> the share of steps; None where that is not known.
    why_unknown: says so, or "".
  """

  plans: Mapping[int, StepPlan]
  shares: Mapping[int, float] | None
  why_unknown: str = ""

  @property
  def seconds(self) -> float | None:
    """The mean estimate of a step; None where shares are not known."""
    if self.shares is None:
      return None
    return sum(share * self.plans[length].seconds for length, share in self.shares.items())


def parse(text: str) -> dict[int, float]:
  """`16:0.4,32:0.5,64:0.1` -> shares, scaled to a sum of 1.

  Raises:
    UsageError: it is something else, or speaks of lengths that the configured run does not have.
  """
  try:
    shares = {int(length): float(share) for length, share in (part.split(":") for part in text.split(","))}
  except ValueError:
    shares = {}
  if not shares or min(shares.values()) < 0 or not 0 < sum(shares.values()) < math.inf:
    raise UsageError(f"--length_mix={text}: give the share of each length, such as 16:0.4,32:0.5,64:0.1")
  sizes, total = lengths(), sum(shares.values())
  if not set(shares) <= set(sizes):
    raise UsageError(f"--length_mix={text}: the run has targets of {', '.join(map(str, sizes))} pieces alone")
  return {length: share / total for length, share in shares.items()}


def lengths() -> tuple[int, ...]:
  """The lengths of targets that the stream of the configured run may have, rising."""
  longest = option(CaptionStream, "target_length")
  return (*(size for size in option(CaptionStream, "target_lengths") if size < longest), longest)


def plan_mix(longest: StepPlan, given: Mapping[int, float] | None, say: Callable[[str], None]) -> Mix | None:
  """Plans the steps of a run's other lengths; None where it has one length.

  Args:
    longest: the plan of its longest targets.
    given: T -> share of steps; None: those of the run's data, where that and its index of lengths are at hand.
    say: is told of each plan.

  Raises:
    XmcapError: as `plan_step`.
  """
  sizes = lengths()
  if len(sizes) == 1:
    return None
  shares, why_unknown = (given, "") if given is not None else _of_data()
  plans = {}
  for length in sizes[:-1]:
    plans[length] = plan_step(_with_targets(longest.run, length), longest.topology)
    say(f"targets of {length}: compiled in {plans[length].compile_seconds:.0f} s")
  plans[sizes[-1]] = longest
  return Mix(plans, shares, why_unknown)


def text(mix: Mix, price: float | None = None) -> str:
  """A mix as a table.

  Args:
    mix: of plans.
    price: of a chip and hour, if the run's cost is wanted.
  """
  rows = tuple(
    (
      f"{length}",
      "unknown" if mix.shares is None else f"{mix.shares.get(length, 0):.0%}",
      f"{plan.seconds * 1e3:.2f}",
      f"{plan.captions_per_second:,.0f}",
    )
    for length, plan in mix.plans.items()
  )
  heads = ("targets of", "share of steps", "ms a step", "captions a second")
  if mix.seconds is None:
    note = f"The mean is not known: {mix.why_unknown}; or give --length_mix=LENGTH:SHARE,...\n"
    return Grid(heads, rows).text() + note
  *_, longest = mix.plans.values()
  mean = ("mean", "", f"{mix.seconds * 1e3:.2f}", f"{longest.run.batch_size / mix.seconds:,.0f}")
  table = Grid(heads, rows, (mean,)).text()
  steps = longest.run.total_steps
  if steps is None:
    return table
  hours = steps * mix.seconds / 3600
  chip_hours = hours * longest.topology.chips
  cost = "" if price is None else f", {chip_hours * price:,.0f} at {price:g} a chip and hour"
  return table + f"{steps:,} steps at the mean: {hours:,.2f} hours, {chip_hours:,.0f} chip-hours{cost}\n"


def document(mix: Mix) -> dict[str, Any]:
  """A mix as JSON's types, times in seconds."""
  return {
    "step_seconds": {str(length): plan.seconds for length, plan in mix.plans.items()},
    "shares": mix.shares and {str(length): share for length, share in mix.shares.items()},
    "mean_step_seconds": mix.seconds,
  }


def _of_data() -> tuple[dict[int, float] | None, str]:
  """(T -> share of the first steps, "") or (None, why that is not known)."""
  bound = gin.get_bindings("train", resolve_references=False)["stream"]
  try:
    return configuration.resolve(bound).mix_of_lengths(_STEPS), ""
  except XmcapError as error:
    return None, str(error)


def _with_targets(run: Run, length: int) -> Run:
  shapes = {
    name: ((*shape[:-1], length) if name.startswith("target_") else shape, dtype)
    for name, (shape, dtype) in run.shapes.items()
  }
  return dataclasses.replace(run, shapes=shapes)
