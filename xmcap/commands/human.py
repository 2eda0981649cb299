"""The commands that hold scores against people: human sxs, human thumb, human rate."""


def add(commands) -> None:
  """Declares the commands."""
  del commands
