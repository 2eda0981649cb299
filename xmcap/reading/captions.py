"""Checks dictionaries of captions that a caller built in memory, and the lengths of captions."""

import itertools
import math
import numbers
from collections.abc import Callable, ItemsView, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.errors import UsageError
from xmcap.terminal import shown

T = TypeVar("T")

_FORM = "{image key: {language code: captions}}, such as {'7': {'en': ...}}"

MAX_CAPTION = 10_000
"""Longest caption in characters. Some normalisations and segmenters take quadratic time."""


class Wrong(Exception):
  """What a value must be instead; `nested` says where it is."""


def plain_references(references: Any, name: str = "references") -> dict[str, dict[str, list[str]]]:
  """Returns checked image key -> language code -> reference captions, in strings of Python, not of NumPy.

  A key may be a whole number, as in pycocotools; it becomes a string, as in readers of files.

  Raises:
    UsageError: a value has the wrong type, or a language is unknown; the message says where.
  """
  return nested(name, references, _FORM, plain_key, plain_language, _texts)


def plain_predictions(predictions: Any) -> dict[str, dict[str, str]]:
  """Returns checked image key -> language code -> caption, as `plain_references` does."""
  return nested("predictions", predictions, _FORM, plain_key, plain_language, _text)


def nested(
  name: str,
  value: Any,
  form: str,
  first: Callable[[Any], str],
  second: Callable[[Any], str],
  plain: Callable[[Any], T],
) -> dict[str, dict[str, T]]:
  """Returns a dictionary of dictionaries as plain ones; functions return a plain name or value, or raise `Wrong`."""
  by_outer: dict[str, dict[str, T]] = {}
  place: tuple = ()
  try:
    for outer, items in _items(value):
      place = (outer,)
      if (plain_name := first(outer)) in by_outer:
        raise Wrong(f"must be given once, and '{plain_name}' is there as a string and as a number")
      of_outer = by_outer[plain_name] = {}
      for inner, item in _items(items):
        place = (outer, inner)
        of_outer[second(inner)] = plain(item)
  except Wrong as error:
    where = "".join(f"[{shown(repr(part))}]" for part in place)
    raise UsageError(f"{name}{where}: {error}; the form is {form}") from None
  return by_outer


def plain_key(value: Any) -> str:
  """Returns the key of an image."""
  if not isinstance(value, str | numbers.Integral) or isinstance(value, bool):
    raise Wrong("the key of an image must be a string or a whole number")
  return str(value)


def plain_language(value: Any) -> str:
  """Returns a language code."""
  if not isinstance(value, str):
    raise Wrong(f"{shown(repr(value))} must be a language code such as 'en'")
  if not languages_lib.is_known(value):
    raise Wrong(languages_lib.unknown(value))
  return str(value)


def _texts(value: Any) -> Any:
  """Returns the strings; as they are if they are Python's."""
  if isinstance(value, Sequence) and not isinstance(value, str | bytes):
    if all(type(text) is str for text in value):
      return value
    if all(isinstance(text, str) for text in value):
      return list(map(str, value))
  raise Wrong(f"{shown(repr(value))} must be a list of strings")


def _text(value: Any) -> str:
  if not isinstance(value, str):
    raise Wrong(f"{shown(repr(value))} must be a string")
  return str(value)


def _items(value: Any) -> ItemsView[Any, Any]:
  if not isinstance(value, Mapping):
    raise Wrong(f"{shown(repr(value))} must be a dictionary")
  return value.items()


def check_lengths(
  references: Mapping[str, Mapping[str, Sequence[str]]],
  predictions: Mapping[str, Mapping[str, str]],
  languages: Iterable[str],
) -> None:
  """Raises UsageError if captions in these languages have over MAX_CAPTION characters; it names them all together.

  Those that were read from files with a limit, their `longest`, are known to be short enough.
  """
  if all((getattr(side, "longest", None) or math.inf) <= MAX_CAPTION for side in (references, predictions)):
    return
  flat = itertools.chain.from_iterable
  all_texts = flat(flat(of_image.values() for of_image in references.values()))
  all_captions = flat(of_image.values() for of_image in predictions.values())
  if max(map(len, itertools.chain(all_texts, all_captions)), default=0) <= MAX_CAPTION:
    return
  lengths = Lengths(MAX_CAPTION)
  for language in languages:
    for key, of_image in references.items():
      if texts := of_image.get(language):
        lengths.see(key, {language: (predictions[key][language], *texts)})
  lengths.refuse()


class Lengths:
  """Collects captions that are too long while they are read, so that one message counts all of them."""

  def __init__(self, longest: int | None):
    """Takes the most characters of a caption; None: any number."""
    self._longest = longest
    self._found: list[str] = []

  def see(
    self, key: str, captions: Mapping[str, Sequence[str]], place: str = "", number: int | str = 0
  ) -> None:
    """Takes the captions of an image by language, and where they are: a format for a number."""
    all_texts = itertools.chain.from_iterable(captions.values())
    if self._longest is None or max(map(len, all_texts), default=0) <= self._longest:
      return
    for language, texts in captions.items():
      for text in texts:
        if len(text) > self._longest:
          where = f", {place.format(number)}" if place else ""
          self._found.append(f"{language} {shown(key)}{where}: {len(text):,}")

  def refuse(self, where: str = "", hint: str = "") -> None:
    """Raises UsageError if there are any; `where` names the file, and `hint` says what else may help."""
    if self._found:
      count = wording.count(len(self._found), "caption")
      raise UsageError(
        f"{where}{count} of more than {self._longest:,} characters ({wording.first_few(self._found)}); shorten or "
        f"remove them{hint}"
      )
