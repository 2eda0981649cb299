"""Counts, short lists and unknown names, as messages word them."""

import collections
import difflib
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeVar

from xmcap.errors import UsageError
from xmcap.terminal import shown

T = TypeVar("T", bound=Hashable)


def first_few(items: Sequence[str]) -> str:
  """Returns the first three items, separated by commas, for a message."""
  return ", ".join(map(shown, items[:3])) + (", ..." if len(items) > 3 else "")


def count(number: int, noun: str) -> str:
  """Returns a count with its noun, such as `1 prediction` or `2,000 predictions`."""
  return f"{number:,} {noun}{'' if number == 1 else 's'}"


def repeated(items: Iterable[T]) -> list[T]:
  """Returns the items that occur more than once, in their order; takes time in proportion to their number."""
  return [item for item, times in collections.Counter(items).items() if times > 1]


def check_counts(number: int, noun: str, expected: int, of: str) -> None:
  """Raises UsageError if there is not one `noun` for each `of`."""
  if number != expected:
    raise UsageError(f"{count(number, noun)} for {count(expected, of)}; give one for each")


def unknown_name(noun: str, name: str, names: Collection[str]) -> UsageError:
  """Returns the error about a name that is not known; it suggests the nearest one."""
  nearest = difflib.get_close_matches(name.lower(), names, n=1)
  hint = f"did you mean '{nearest[0]}'? There are" if nearest else "there are"
  return UsageError(f"unknown {noun} '{shown(name)}'; {hint}: {', '.join(names)}")


def did_you_mean(name: str, names: Iterable[str]) -> str:
  """Returns `; did you mean NEAREST?`, or "" if no name is near."""
  nearest = difflib.get_close_matches(name, list(names), n=1, cutoff=0.4)
  return f"; did you mean {nearest[0]}?" if nearest else ""
