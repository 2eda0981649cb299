"""Whether dictionaries of captions are what scoring takes them for: those of a program were never read from a file."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import files

# Nearly always the very types, which are quick to see; all that behaves like them will do.
_KEYS, _LISTS, _TEXTS = {str}, {list, tuple}, {str}


def check_references(references: Any) -> None:
  """Checks image key -> language code -> reference captions.

  Raises:
    UsageError: something is of another type or names an unknown language; the message says where.
  """
  for key, of_image in _images(references, "references").items():
    if not set(map(type, of_image.values())) <= _LISTS:
      for code, texts in of_image.items():
        if isinstance(texts, str) or not isinstance(texts, Sequence):
          _refuse("references", key, code, texts, "a list of texts")
    if not set(map(type, itertools.chain.from_iterable(of_image.values()))) <= _TEXTS:
      for code, texts in of_image.items():
        for text in texts:
          if not isinstance(text, str):
            _refuse("references", key, code, text, "a text, each of the list")


def check_predictions(predictions: Any) -> None:
  """Checks image key -> language code -> caption; else as `check_references`."""
  for key, of_image in _images(predictions, "predictions").items():
    if not set(map(type, of_image.values())) <= _TEXTS:
      for code, text in of_image.items():
        if not isinstance(text, str):
          _refuse("predictions", key, code, text, "a text")


def _images(captions: Any, name: str) -> Mapping[str, Mapping[str, Any]]:
  """Checks image key -> language code -> anything."""
  if not isinstance(captions, Mapping):
    raise UsageError(
      f"{name}: {_kind(captions)}, must be a dictionary, image key -> language code -> captions, as read_{name} "
      "returns"
    )
  if not set(map(type, captions)) <= _KEYS:
    key = next((key for key in captions if not isinstance(key, str)), None)
    if key is not None:
      raise UsageError(f"{name}: the image key {_shown(key)} is {_kind(key)}, must be a text")
  codes: set[Any] = set()
  for key, of_image in captions.items():
    if not isinstance(of_image, Mapping):
      raise UsageError(
        f"{name}[{_shown(key)}]: {_kind(of_image)}, must be a dictionary, language code -> captions"
      )
    codes.update(of_image)
  for code in codes - languages.LANGUAGES.keys():
    if not isinstance(code, str):
      raise UsageError(
        f"{name}: the language code {_shown(code)} is {_kind(code)}, must be a text such as 'en'"
      )
  for code in sorted(codes - languages.LANGUAGES.keys()):
    files.check_language(code, name)
  return captions


def _refuse(name: str, key: str, code: str, value: Any, wanted: str) -> None:
  raise UsageError(f"{name}[{_shown(key)}][{_shown(code)}]: {_kind(value)}, must be {wanted}")


def _kind(value: Any) -> str:
  return "a text" if isinstance(value, str) else f"of type {type(value).__name__}"


def _shown(value: Any) -> str:
  return f"'{files.shown(value)}'" if isinstance(value, str) else files.shown(repr(value))
