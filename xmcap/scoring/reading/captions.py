"""Checks dictionaries of captions that a caller built in memory, and the lengths of captions."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.terminal import shown

MAX_CAPTION = 10_000
"""Longest caption in characters. Some normalisations and segmenters take quadratic time."""


def check_references(references: Any) -> None:
  """Checks image key -> language code -> reference captions.

  Raises:
    UsageError: a value has the wrong type, or a language is unknown; the message says where.
  """
  _check("references", references, _are_texts, "a list of strings")


def check_predictions(predictions: Any) -> None:
  """Checks image key -> language code -> caption, as `check_references` does."""
  _check("predictions", predictions, lambda value: isinstance(value, str), "a string")


def check_lengths(
  references: Mapping[str, Mapping[str, Sequence[str]]],
  predictions: Mapping[str, Mapping[str, str]],
  languages: Iterable[str],
) -> None:
  """Raises UsageError if captions in these languages have over MAX_CAPTION characters; it names them all together.

  Those that were read from files with a limit, their `longest`, are known to be short enough.
  """
  if all((getattr(held, "longest", None) or math.inf) <= MAX_CAPTION for held in (references, predictions)):
    return
  flat = itertools.chain.from_iterable
  all_texts = flat(flat(of_image.values() for of_image in references.values()))
  all_captions = flat(of_image.values() for of_image in predictions.values())
  if max(map(len, itertools.chain(all_texts, all_captions)), default=0) <= MAX_CAPTION:
    return
  lengths = Lengths(MAX_CAPTION)
  for code in languages:
    for key, of_image in references.items():
      if texts := of_image.get(code):
        lengths.see(key, {code: (predictions[key][code], *texts)})
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
    for code, texts in captions.items():
      for text in texts:
        if len(text) > self._longest:
          where = f", {place.format(number)}" if place else ""
          self._found.append(f"{code} {shown(key)}{where}: {len(text):,}")

  def refuse(self, where: str = "", hint: str = "") -> None:
    """Raises UsageError if there are any; `where` names the file, and `hint` says what else may help."""
    if self._found:
      count = files.count(len(self._found), "caption")
      raise UsageError(
        f"{where}{count} of more than {self._longest:,} characters ({files.first_few(self._found)}); shorten or "
        f"remove them{hint}"
      )


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
