"""What the builds of corpora share: options, and the counting of lengths after them."""

from typing import Any

from xmcap.commands import base


def add(command) -> None:
  """Adds the options that all builds of given files have."""
  rule = "skip: leave bad lines and pictures out, and count them; or stop"
  base.text(command, "--on_bad", "RULE", rule, "skip")
  base.number(command, "--image_size", "store larger pictures with a shorter side of N pixels")
  base.number(command, "--quality", "of those JPEGs, 1 to 95", 90)
  base.add_processes(command)


def count_lengths(write, directory, vocabulary, splits, processes) -> Any:
  """Calls `lengths.write` or `lengths.write_absent`, and says how far it is."""
  from xmcap.data import progress

  said = progress.by_split(base.say, "lengths counted of records")
  return write(directory, vocabulary, splits, processes=processes, progress=said)
