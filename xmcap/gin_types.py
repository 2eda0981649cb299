"""Checks bound values against the type annotations of their parameters, before anything is called.

Gin passes values unchecked: a string instead of a number would fail later, with a message that does not name the
binding.
"""

import graphlib
import inspect
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from gin import config as gin_config

from xmcap.errors import UsageError
from xmcap.terminal import shown

_MACRO = "gin.macro"
_BY_POLICY = {("remat", True): "'full'", ("remat", False): "'no'"}
"""(Parameter, value that does not fit) -> the value that means it."""


def check() -> None:
  """Checks all bindings except references; UsageError names the parameter, and the macro of the value.

  First it checks that no macros are defined by each other.
  """
  _check_macros()
  for (_, selector), bindings in gin_config._CONFIG.items():
    if selector == _MACRO or not gin_config._REGISTRY.matching_selectors(selector):
      continue
    hints = annotations(gin_config._REGISTRY.get_match(selector).wrapped)
    for name, bound in bindings.items():
      value, macro = resolved(bound)
      if name in hints and not _fits(value, hints[name]):
        short = f"{selector.rsplit('.', 1)[-1]}.{name}"
        by = f" (from {macro})" if macro else ""
        policy = _BY_POLICY.get((name, value)) if isinstance(value, bool) else None
        raise UsageError(
          f"{short} = {shown(repr(value), 60)}{by}: give {policy or inspect.formatannotation(hints[name])}"
        )


def _check_macros() -> None:
  """UsageError for macros that are defined by each other."""
  named = {
    name: [part.scoped_selector.rpartition("/")[0] for part in _references(bound.get("value"))]
    for (name, selector), bound in gin_config._CONFIG.items()
    if selector == _MACRO
  }
  try:
    graphlib.TopologicalSorter(named).prepare()
  except graphlib.CycleError as error:
    raise UsageError(f"macros that are defined by each other: {', '.join(error.args[1][1:])}") from None


def _references(value: Any) -> Iterator[gin_config.ConfigurableReference]:
  """The macros in a value."""
  for part in gin_config._iterate_flattened_values(value):
    if isinstance(part, gin_config.ConfigurableReference) and part.selector == _MACRO:
      yield part


def annotations(configurable: Any) -> dict[str, Any]:
  """{parameter: annotation} of a function or a class's constructor, without the limits of values."""
  function = configurable.__init__ if inspect.isclass(configurable) else configurable
  try:
    return typing.get_type_hints(function)
  except (NameError, TypeError, AttributeError):
    return {}  # only a type checker can resolve them


def resolved(value: Any) -> tuple[Any, str]:
  """Follows macros; returns the value, and the name of the first macro or ""."""
  first = ""
  while isinstance(value, gin_config.ConfigurableReference) and value.selector == _MACRO:
    name = value.scoped_selector.rpartition("/")[0]
    bound = gin_config._CONFIG.get((name, _MACRO), {})
    first = first or name
    if "value" not in bound:
      break
    value = bound["value"]
  return value, first


def _fits(value: Any, hint: Any) -> bool:
  """Whether a value matches an annotation; True if that cannot be decided."""
  parts = gin_config._iterate_flattened_values(value)
  if any(isinstance(part, gin_config.ConfigurableReference) for part in parts):
    return True
  try:
    msgspec.convert(value, hint)
  except msgspec.ValidationError:
    return False
  except TypeError:
    pass  # msgspec does not support this annotation
  return True
