"""Checks dictionaries of captions that a program made and that were never read from a file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.terminal import shown


def check_references(references: Any) -> None:
  """Checks image key -> language code -> reference captions.

  Raises:
    UsageError: something is of another type or names an unknown language; the message says where.
  """
  for key, code, texts in _entries(references, "references"):
    if isinstance(texts, str) or not isinstance(texts, Sequence):
      _refuse("references", key, code, texts, "a list of texts")
    for text in texts:
      if not isinstance(text, str):
        _refuse("references", key, code, text, "a text, each of the list")


def check_predictions(predictions: Any) -> None:
  """Checks image key -> language code -> caption, as `check_references` does."""
  for key, code, text in _entries(predictions, "predictions"):
    if not isinstance(text, str):
      _refuse("predictions", key, code, text, "a text")


def _entries(captions: Any, name: str) -> Iterator[tuple[str, str, Any]]:
  """Yields (image key, language code, value); UsageError where a dictionary, key or code is of another type."""
  if not isinstance(captions, Mapping):
    raise UsageError(
      f"{name}: {_kind(captions)}, must be a dictionary, image key -> language code -> captions, as read_{name} "
      "returns"
    )
  for key, of_image in captions.items():
    if not isinstance(key, str):
      raise UsageError(f"{name}: the image key {_shown(key)} is {_kind(key)}, must be a text")
    if not isinstance(of_image, Mapping):
      raise UsageError(
        f"{name}[{_shown(key)}]: {_kind(of_image)}, must be a dictionary, language code -> captions"
      )
    for code, value in of_image.items():
      if code not in languages.LANGUAGES:
        if not isinstance(code, str):
          raise UsageError(
            f"{name}: the language code {_shown(code)} is {_kind(code)}, must be a text such as 'en'"
          )
        files.check_language(code, name)
      yield key, code, value


def _refuse(name: str, key: str, code: str, value: Any, wanted: str) -> None:
  raise UsageError(f"{name}[{_shown(key)}][{_shown(code)}]: {_kind(value)}, must be {wanted}")


def _kind(value: Any) -> str:
  return "a text" if isinstance(value, str) else f"of type {type(value).__name__}"


def _shown(value: Any) -> str:
  return f"'{shown(value)}'" if isinstance(value, str) else shown(repr(value))
