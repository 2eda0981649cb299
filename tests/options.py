"""Options of a command for a test, some of which it changes."""

from collections.abc import Sequence


def changed(options: Sequence[str], more: Sequence[str]) -> list[str]:
  """Returns `--name=value` options with others in their place: a command refuses an option that is given twice."""
  names = {word.partition("=")[0] for word in more}
  return [*(word for word in options if word.partition("=")[0] not in names), *more]
