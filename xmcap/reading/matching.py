"""Matches predictions with references: by order, names of images, other spellings of keys, varieties of languages."""

import collections
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from xmcap import languages, wording
from xmcap.errors import UsageError
from xmcap.reading import archives, rows
from xmcap.reading.ids import Namer
from xmcap.terminal import shown

T = TypeVar("T")

_PREFIX = re.compile(r"COCO_(train|val|test)\d{4}_(?=\d)")
_XM3600 = re.compile(r"[0-9a-f]{16}")
_MEDIA = (*archives.PICTURES, ".mp4", ".webm", ".mkv", ".avi", ".wav", ".mp3", ".flac")


def in_order(
  source: rows.Rows,
  items: Iterator[tuple[int | str, str | None, object, str]],
  language: str | None,
  says: str,
  references: Mapping[str, Mapping] | None,
  namer: Namer,
) -> Iterator[tuple[int | str, str, object, str]]:
  """Gives captions without keys those of the references' images, in their order."""
  without_key: dict[str, list[tuple[int | str, str]]] = {}
  for number, key, written, caption in items:
    if key is not None:
      yield number, key, written, caption
      continue
    code = language if written is None else namer.language(written, source.where(number))
    code = code or namer.of_name(source.path)
    if code is None:
      raise UsageError(
        f"{source.where(number)}: no language; give it with --language=CODE, or in the CSV column 'language'"
      )
    if language not in (None, code):
      raise UsageError(f"{source.where(number)}: language is {code}, but {says} {language}; change one")
    without_key.setdefault(code, []).append((number, caption))
  for code, of_language in without_key.items():
    if references is None:
      raise UsageError(f"{source.name}: captions without keys; give CSV with 'image/key', or JSONL")
    keys = [key for key, of_image in references.items() if of_image.get(code)]
    if len(keys) != len(of_language):
      raise UsageError(
        f"{source.name}: {wording.count(len(of_language), 'caption')} in {code} without keys, but the references have "
        f"{wording.count(len(keys), 'image')}: give one line per image in their order (empty if the caption "
        "is), or keys"
      )
    for key, (number, caption) in zip(keys, of_language, strict=True):
      yield number, key, code, caption


def align(
  predictions: dict[str, dict[str, T]],
  references: Mapping[str, Mapping],
  namer: Namer,
  names: Mapping[str, str] | None = None,
) -> dict[str, dict[str, T]]:
  """Returns predictions under the keys and codes of the references, where there is one way to match them.

  The names of images that either file has beside its keys come first: `names`, key -> name, of the predictions, and
  those of the references. Then a key is matched without folder, suffix of an image, COCO's prefix, leading zeros and a
  final `.0`; or, if that fits no key and this all, with the numbers of its letters (`_numbered`). A variety of a
  language, such as pt-BR, is read as the language if only that has references. All are noted.
  """
  if any(
    languages.variety_of(language)
    for language in namer.languages.values()
    if language not in languages.LANGUAGES
  ):
    codes = {language for of_image in references.values() for language in of_image}
    predicted = {language for of_image in predictions.values() for language in of_image}
    of_variety = {
      language: base
      for language in sorted(predicted - codes)
      if (base := languages.variety_of(language)) is not None and base in codes and base not in predicted
    }
    if len(set(of_variety.values())) == len(of_variety):
      for language, base in of_variety.items():
        namer.note("language '{}' is read as '{}', of which it is a variety", language, base)
      for captions in predictions.values():
        for language in of_variety.keys() & captions:
          captions[of_variety[language]] = captions.pop(language)
  if named := _by_name(predictions, references, names or {}, namer):
    predictions = {named.get(key, key): captions for key, captions in predictions.items()}
  unknown = predictions.keys() - references.keys()
  if not unknown:
    return predictions
  renamed = _renamed(predictions, references, bare)
  if not renamed:
    numbered = _renamed(predictions, references, _numbered)
    renamed = numbered if numbered.keys() == unknown else {}
  if not renamed or len(set(renamed.values())) < len(renamed):
    return predictions
  theirs, ours = next(iter(renamed.items()))
  form = ", in another Unicode form" if not unicodedata.is_normalized("NFC", f"{theirs} {ours}") else ""
  namer.note(
    f"{wording.count(len(renamed), 'key')} written another way, '{shown(theirs)}' for '{shown(ours)}'" + form
  )
  return {renamed.get(key, key): captions for key, captions in predictions.items()}


def _by_name(
  predictions: Mapping[str, object],
  references: Mapping[str, object],
  their_names: Mapping[str, str],
  namer: Namer,
) -> dict[str, str]:
  """Returns key of a prediction -> another key of the reference whose image has the same name; notes it.

  Keys that all are those of references stay, unless the predictions have names, which all say otherwise.
  """
  our_names: Mapping[str, str] = getattr(references, "names", {})
  if not our_names and not their_names:
    return {}
  theirs = {key: their_names.get(key, key) for key in predictions}
  ours = {key: our_names.get(key, key) for key in references}
  named = _named(theirs, ours)
  if predictions.keys() <= references.keys() and (not their_names or len(named) < len(predictions)):
    others = [key for key, of_name in named.items() if of_name != key]
    if others and not their_names:
      namer.note(
        f"{wording.count(len(others), 'key')} could be the number of another picture, as '{shown(others[0])}' of "
        f"'{shown(ours[named[others[0]]])}'; read as the references' own"
      )
    return {}
  if len(named) < len(predictions):
    named = {
      key: of_name for key, of_name in named.items() if key not in references and of_name not in predictions
    }
  if all(key == of_name for key, of_name in named.items()):
    return {}
  numbers = {bare(key): key for key in references}
  guessed = sum(numbers.get(bare(key), of_name) != of_name for key, of_name in named.items())
  key, of_name = next((key, of_name) for key, of_name in named.items() if key != of_name)
  namer.note(
    f"{wording.count(len(named), 'key')} matched by the names of pictures, '{shown(theirs[key])}' is '{shown(of_name)}'"
    + (f"; by number {guessed:,} would be another image" if guessed else "")
  )
  return named


def _named(theirs: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
  """Returns key of theirs -> key of ours, given the names of either, where one image of each has the name."""
  named: dict[str, str] = {}
  for spelled in (str, _file, bare):
    by_name: dict[str, list[str]] = {}
    for key, name in ours.items():
      by_name.setdefault(spelled(name), []).append(key)
    for key, name in theirs.items():
      if key not in named and len(of_name := by_name.get(spelled(name), [])) == 1:
        named[key] = of_name[0]
  counts = collections.Counter(named.values())
  return {key: of_name for key, of_name in named.items() if counts[of_name] == 1}


def _renamed(
  predictions: Mapping[str, object], references: Mapping[str, object], spelled: Callable[[str], str]
) -> dict[str, str]:
  """Returns unknown key of a prediction -> the one key of a reference that is spelled as it is when bare."""
  by_spelling: dict[str, list[str]] = {}
  for key in references:
    by_spelling.setdefault(spelled(key), []).append(key)
  names: Mapping[str, str] = getattr(references, "names", {})
  candidates = {key: by_spelling.get(bare(key), []) for key in predictions if key not in references}
  # The name of an image is not that of a reference with another name, though the numbers agree.
  return {
    key: matches[0]
    for key, matches in candidates.items()
    if len(matches) == 1
    and matches[0] not in predictions
    and not (matches[0] in names and os.path.splitext(key)[1].lower() in _MEDIA)
  }


def _numbered(key: str) -> str:
  """Returns a key of XM3600 as PangeaBench writes it (lmms_eval/tasks/xm100/utils.py), as a number; `a` is 1."""
  if not _XM3600.fullmatch(key):
    return key
  return bare("".join(str(ord(char) - 96) if char.isalpha() else char for char in key))


def bare(key: str) -> str:
  """Returns a key in NFC without folder, suffix of an image, COCO's prefix, leading zeros and a final `.0`."""
  name = _file(key)
  stem, ending = os.path.splitext(name)
  name = _PREFIX.sub("", stem if ending.lower() in _MEDIA else name)
  number = name.removesuffix(".0")
  return number.lstrip("0") or "0" if number.isascii() and number.isdigit() else name


def _file(key: str) -> str:
  return unicodedata.normalize("NFC", key.replace("\\", "/").rsplit("/", 1)[-1])
