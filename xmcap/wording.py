"""Counts, short lists and unknown names, as messages word them."""

import collections
import difflib
import itertools
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


def names_of_paths(paths: Sequence[str]) -> list[str]:
  """Returns a short name for each path or address: its last part, or else the parts in which they differ.

  `a/eval/retrieval` and `b/eval/retrieval` are `a` and `b`; equal paths have equal names.
  """
  parts = [path.replace("://", "/").rstrip("/").split("/")[::-1] for path in paths]
  last = [of_path[0] for of_path in parts]
  if len(set(last)) == len(last):
    return last
  levels = [level for level in itertools.zip_longest(*parts, fillvalue="") if len(set(level)) > 1]
  names = ["/".join(filter(None, reversed(of_path))) for of_path in zip(*levels, strict=True)]
  return [name or first for name, first in zip(names or last, last, strict=True)]


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
