"""Counts the restarts of a run, as far as it gets no further."""

import re

from xmcap import wording

# What a run prints: `step 20/100  loss 1.2`, and at its start `...; resuming from step 20 in FOLDER`.
_STEP = re.compile(r"^(?:\[\d+\] )?step (\d{1,15})/\d|; resuming from step (\d{1,15}) in ", re.MULTILINE)


class Restarts:
  """Allows `most` restarts in a row without progress: a step in the run's output above all steps before."""

  def __init__(self, most: int):
    self._most = most
    self._count = 0
    self._highest = -1
    self._got_further = False

  def read(self, text: str) -> None:
    """Takes lines of the run's output, whole ones; the same line again changes nothing."""
    steps = [int(one or other) for one, other in _STEP.findall(text)]
    if steps and max(steps) > self._highest:
      self._highest, self._got_further = max(steps), True

  def next(self) -> str:
    """Counts a restart, and returns its number in words; "" if there may be no more."""
    if self._got_further:
      self._count, self._got_further = 0, False
    if self._count == self._most:
      return ""
    self._count += 1
    return f"restarting ({self._count} of {self._most})"

  @property
  def spent(self) -> str:
    """Says that there are no more."""
    return f"stopped after {wording.count(self._most, 'restart')} without progress"
