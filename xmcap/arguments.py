"""Checks the arguments of public functions by their annotations, so that a wrong type is one line, not a TypeError."""

import contextlib
import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from xmcap.errors import UsageError
from xmcap.terminal import shown

P = ParamSpec("P")
T = TypeVar("T")

_NAMES = {
  str: "a string", os.PathLike: "a path", bool: "True or False", int: "a whole number", float: "a number",
  type(None): "None", Mapping: "a dictionary", Sequence: "a list", Collection: "a list", Iterable: "a list",
}  # fmt: skip
_UNIONS = (typing.Union, types.UnionType)
_SCALARS = {str: str, bool: (bool, np.bool_), int: numbers.Integral, float: numbers.Real}


def checked(function: Callable[P, T]) -> Callable[P, T]:
  """Makes a function raise UsageError for an argument of another type than it is annotated with.

  Numbers and strings of NumPy, and lists of them, become Python's. What is nested, such as dictionaries of captions, is
  left to the function.
  """
  signature = inspect.signature(function)
  hints = functools.cache(lambda: typing.get_type_hints(function))

  @functools.wraps(function)
  def call(*args: P.args, **kwargs: P.kwargs) -> T:
    bound = signature.bind(*args, **kwargs)
    for name, value in bound.arguments.items():
      bound.arguments[name] = _as_annotated(name, value, hints().get(name, Any))
    return function(*bound.args, **bound.kwargs)

  return call


def check_fields(options: Any) -> None:
  """Raises UsageError for a field of a frozen dataclass of another type than it is annotated with, as `checked`."""
  for name, hint in typing.get_type_hints(type(options)).items():
    object.__setattr__(options, name, _as_annotated(name, getattr(options, name), hint))


def _as_annotated(name: str, value: Any, hint: Any) -> Any:
  try:
    return _fitted(value, hint)
  except _Misfit:
    raise UsageError(f"{name}={shown(repr(value))} must be {_named(hint)}") from None


class _Misfit(Exception):
  """A value is of another type than its annotation."""


def _fitted(value: Any, hint: Any) -> Any:
  """Returns the value as a plain one of the annotated type."""
  kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
  is_deep = (
    not parts
    or parts[-1] is Any
    or typing.get_origin(parts[-1]) in (Mapping, Sequence, Collection, dict, list)
  )
  if kind in _UNIONS:
    for part in parts:
      with contextlib.suppress(_Misfit):
        return _fitted(value, part)
  elif kind in _SCALARS:
    if isinstance(value, _SCALARS[kind]) and (kind is bool or not isinstance(value, bool)):
      return kind(value)
  elif kind in (Mapping, dict) and (is_deep or isinstance(value, Mapping)):
    return value if is_deep else {_fitted(key, str): _fitted(inner, parts[1]) for key, inner in value.items()}
  elif kind in (Sequence, Collection) and not is_deep:
    if isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping):
      return [_fitted(item, parts[0]) for item in value]
  elif _is_instance(value, kind):
    return value
  raise _Misfit


def _is_instance(value: Any, kind: Any) -> bool:
  try:
    return isinstance(value, kind) and (kind is object or not isinstance(value, str | bytes))
  except TypeError:  # Any, a type variable, a protocol
    return True


def _named(hint: Any) -> str:
  """Returns what an annotation asks for, in words."""
  kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
  if kind in _UNIONS:
    return " or ".join(dict.fromkeys(map(_named, parts)))
  items = " of strings" if kind in (Sequence, Collection) and parts[0] is str else ""
  article = "an" if kind.__name__[0] in "AEIO" else "a"
  return f"{_NAMES.get(kind) or f'{article} {kind.__name__}'}{items}"
