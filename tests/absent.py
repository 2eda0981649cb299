"""A Python in which only some packages are installed, for a process of its own: the others are there, but not found."""

import importlib.metadata
import sys
from collections.abc import Iterable, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def beyond(requirements: Iterable[Requirement]) -> list[str]:
  """Returns the top-level modules of all packages but those that the requirements bring, directly or not."""
  brought: set[str] = {"xmcap"}
  waiting = [(canonicalize_name(asked.name), frozenset(asked.extras)) for asked in requirements]
  seen = set()
  while waiting:
    package, extras = one = waiting.pop()
    if one in seen:
      continue
    seen.add(one)
    brought.add(package)
    for text in importlib.metadata.requires(package) or ():
      asked = Requirement(text)
      if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
        waiting.append((canonicalize_name(asked.name), frozenset(asked.extras)))
  modules = importlib.metadata.packages_distributions()
  return [
    name for name, packages in modules.items() if not brought & {canonicalize_name(p) for p in packages}
  ]


def hide(modules: Sequence[str]) -> None:
  """Hides top-level modules from every import of this process."""
  hidden = frozenset(modules)
  sys.meta_path[:] = [_Finder(finder, hidden) for finder in sys.meta_path]


class _Finder:
  """A finder that does not find what is hidden."""

  def __init__(self, finder, hidden: frozenset[str]):
    self._finder, self._hidden = finder, hidden

  def find_spec(self, name, path=None, target=None):
    return None if name.split(".")[0] in self._hidden else self._finder.find_spec(name, path, target)

  def __getattr__(self, name):  # find_distributions, invalidate_caches
    return getattr(self._finder, name)
