"""Whether values of a configuration are of the types that are asked for, said before anything is called.

Gin hands over whatever a file says; a text where a number is wanted would fail somewhere within, without a word of the
line that is wrong.
"""

import collections.abc
import inspect
import types
import typing
from typing import Any

from gin import config as gin_config

from xmcap.errors import UsageError
from xmcap.terminal import shown

_MACRO = "gin.macro"


def check() -> None:
  """Checks all bindings of gin's configuration against the annotations of what they are for.

  Looked at are numbers, texts, truth values, None and lists of them. What is made by a call (`@Optimizer()`), and what
  is annotated otherwise or not at all, is not.

  Raises:
    UsageError: a value is of another type; names the parameter, and the macro that it comes from.
  """
  for (_, selector), bindings in gin_config._CONFIG.items():
    if selector == _MACRO or not gin_config._REGISTRY.matching_selectors(selector):
      continue
    hints = _hints(gin_config._REGISTRY.get_match(selector).wrapped)
    for name, bound in bindings.items():
      value, macro = _of_macro(bound)
      if name in hints and not _fits(value, hints[name]):
        short = f"{selector.rsplit('.', 1)[-1]}.{name}"
        by = f" (from {macro})" if macro else ""
        raise UsageError(f"{short} = {shown(repr(value), 60)}{by}: takes {_words(hints[name])}")


def _hints(configurable: Any) -> dict[str, Any]:
  """{parameter: annotation} of a function or of what makes a class."""
  function = configurable.__init__ if inspect.isclass(configurable) else configurable
  try:
    return typing.get_type_hints(function)
  except (NameError, TypeError, AttributeError):
    return {}  # annotations that only a type checker can resolve


def _of_macro(value: Any, seen: tuple[str, ...] = ()) -> tuple[Any, str]:
  """The value that a macro stands for, and the macro's name; a value that is none stays, with ""."""
  if not isinstance(value, gin_config.ConfigurableReference) or value.selector != _MACRO:
    return value, ""
  name = value.scoped_selector.rpartition("/")[0]
  found = gin_config._CONFIG.get((name, _MACRO), {}).get("value", value)
  if found is value or name in seen:
    return value, name
  return _of_macro(found, (*seen, name))[0], name


def _fits(value: Any, hint: Any) -> bool:
  """Whether a value may be what an annotation says; True where that cannot be told."""
  if isinstance(value, gin_config.ConfigurableReference) or hint is Any:
    return True
  origin = typing.get_origin(hint)
  if origin in (typing.Union, types.UnionType):
    return any(_fits(value, choice) for choice in typing.get_args(hint))
  if hint is float:
    return isinstance(value, int | float) and not isinstance(value, bool)
  if hint is int:
    return isinstance(value, int) and not isinstance(value, bool)
  if hint in (str, bool, type(None)):
    return isinstance(value, hint) if hint is not type(None) else value is None
  if origin in (collections.abc.Sequence, list, tuple):
    inner = [choice for choice in typing.get_args(hint) if choice is not Ellipsis]
    each = inner[0] if len(inner) == 1 else Any
    return isinstance(value, list | tuple) and all(_fits(item, each) for item in value)
  # A plain value cannot be an object of another kind, but numbers of numpy and the like may be asked for.
  return True


def _words(hint: Any) -> str:
  names = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", type(None): "None"}
  origin = typing.get_origin(hint)
  if hint in names:
    return names[hint]
  if origin in (typing.Union, types.UnionType):
    return " or ".join(_words(choice) for choice in typing.get_args(hint))
  return str(hint).removeprefix("collections.abc.").removeprefix("typing.")
