"""What the builds of corpora from given files share: options."""

from xmcap.commands import base


def add(command) -> None:
  """Adds the options that all builds of given files have."""
  rule = "skip: leave bad lines and pictures out, and count them; or stop"
  base.text(command, "--on_bad", "RULE", rule, "skip")
  base.number(command, "--image_size", "store larger pictures with a shorter side of N pixels")
  base.number(command, "--quality", "of those JPEGs, 1 to 95", 90)
  base.add_processes(command)
