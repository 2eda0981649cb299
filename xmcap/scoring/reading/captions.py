"""Checks dictionaries of captions that a caller built in memory."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.terminal import shown


def check_references(references: Any) -> None:
  """Checks image key -> language code -> reference captions.

  Raises:
    UsageError: a value has the wrong type, or a language is unknown; the message says where.
  """
  _check("references", references, _are_texts, "a list of strings")


def check_predictions(predictions: Any) -> None:
  """Checks image key -> language code -> caption, as `check_references` does."""
  _check("predictions", predictions, lambda value: isinstance(value, str), "a string")


def _are_texts(value: Any) -> bool:
  is_list = isinstance(value, Sequence) and not isinstance(value, str)
  return is_list and all(isinstance(text, str) for text in value)


def _check(name: str, captions: Any, is_good: Callable[[Any], bool], wanted: str) -> None:
  _check_dictionary(captions, name, "image key -> language code -> captions")
  for key, of_image in captions.items():
    where = f"{name}[{shown(repr(key))}]"
    _check_dictionary(of_image, where, "language code -> captions")
    for code, value in of_image.items():
      files.check_language(code, where)
      if not is_good(value):
        raise UsageError(f"{where}[{shown(repr(code))}]: {shown(repr(value))} must be {wanted}")


def _check_dictionary(value: Any, where: str, wanted: str) -> None:
  if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
    raise UsageError(f"{where}: {shown(repr(value))} must be a dictionary, {wanted}, with strings as keys")
