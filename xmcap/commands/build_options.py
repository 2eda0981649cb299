"""The options that all builds of corpora from given files share."""

from xmcap.commands import base


def add(command) -> None:
  """Adds the shared options."""
  rule = "skip (leave out bad lines and pictures, and count them) or stop"
  base.text(command, "--on_bad", "RULE", rule, "skip")
  base.number(command, "--image_size", "resize larger pictures to a shorter side of N pixels")
  base.number(command, "--quality", "JPEG quality of resized pictures, 1 to 95", 90)
  base.add_processes(command)
