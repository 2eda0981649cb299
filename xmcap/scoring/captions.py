"""Whether dictionaries of captions are what scoring takes them for: those of a program were never read from a file."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring import files

_flat = itertools.chain.from_iterable


def check_references(references: Any) -> None:
  """Checks image key -> language code -> reference captions.

  Raises:
    UsageError: something is of another type or names an unknown language; the message says where.
  """
  if _are_dictionaries(references):
    lists = list(_flat(map(dict.values, references.values())))
    if set(map(type, lists)) <= {list, tuple} and _are_texts(_flat(lists)):
      return
  for key, of_image in _images(references, "references").items():
    for code, texts in of_image.items():
      if isinstance(texts, str) or not isinstance(texts, Sequence):
        _refuse("references", key, code, texts, "a list of texts")
      for text in texts:
        if not isinstance(text, str):
          _refuse("references", key, code, text, "a text, each of the list")


def check_predictions(predictions: Any) -> None:
  """Checks image key -> language code -> caption; else as `check_references`."""
  if _are_dictionaries(predictions) and _are_texts(_flat(map(dict.values, predictions.values()))):
    return
  for key, of_image in _images(predictions, "predictions").items():
    for code, text in of_image.items():
      if not isinstance(text, str):
        _refuse("predictions", key, code, text, "a text")


def _are_dictionaries(captions: Any) -> bool:
  """Whether these are plain dictionaries from texts to known languages, as they mostly are: quick to see."""
  return (
    isinstance(captions, dict)
    and _are_texts(captions)
    and set(map(type, captions.values())) <= {dict}
    and languages.LANGUAGES.keys() >= set(_flat(captions.values()))
  )


def _are_texts(values: Iterable[Any]) -> bool:
  return set(map(type, values)) <= {str}


def _images(captions: Any, name: str) -> Mapping[str, Mapping[str, Any]]:
  """Checks image key -> language code -> anything."""
  if not isinstance(captions, Mapping):
    raise UsageError(
      f"{name}: {_kind(captions)}, must be a dictionary, image key -> language code -> captions, as read_{name} "
      "returns"
    )
  for key in captions:
    if not isinstance(key, str):
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
