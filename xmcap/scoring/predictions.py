"""Predicted captions: one caption an (image, language), checked against the references before scoring.

JSONL, a line `{"image/key": ..., "language": ..., "caption": ...}`.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.references import References

Predictions = dict[str, dict[str, str]]
"""Image key -> language code -> the caption (may be empty: the model said nothing)."""

_MEMBERS = ("image/key", "language", "caption")
_FIRST_FEW = 3


def read_predictions(path: str | os.PathLike) -> Predictions:
  """Reads predictions in the order of the file.

  Raises:
    UsageError: the file cannot be read or is empty; a line lacks one of its three members, has one of the
      wrong type, or names an unknown language; or predictions are repeated (counts and the first few).
  """
  predictions: Predictions = {}
  repeated = []
  for number, row in files.read_jsonl(path):
    where = f"{path}, line {number}"
    for member in _MEMBERS:
      if not isinstance(row.get(member), str):
        raise UsageError(
          f"{where}: '{member}' is missing or no text; a prediction is "
          '{"image/key": ..., "language": ..., "caption": ...}'
        )
    key, language, caption = (row[member] for member in _MEMBERS)
    files.check_language(language, where)
    captions = predictions.setdefault(key, {})
    if language in captions:
      repeated.append(f"{language} {files.shown(key)} on line {number}")
    captions[language] = caption
  if repeated:
    raise UsageError(
      f"{path}: {_count(repeated, 'prediction')} given twice ({_few(repeated)}); keep one an "
      "image and language"
    )
  if not predictions:
    raise UsageError(f"{path}: no prediction in it; predictions are JSONL, one caption a line")
  return predictions


def write_predictions(path: str | os.PathLike, rows: Iterable[tuple[str, str, str]]) -> None:
  """Writes (image key, language, caption) rows, whole or not at all; constant memory.

  Raises:
    XmcapError: the file cannot be written.
  """
  encode = json.JSONEncoder(ensure_ascii=False).encode
  files.write_lines(path, (encode(dict(zip(_MEMBERS, row, strict=True))) + "\n" for row in rows))


def check_predictions(
  references: References, predictions: Predictions, languages: Sequence[str] | None = None
) -> tuple[str, ...]:
  """Checks that there is exactly one prediction for each image and language with references.

  An image without references in a language is not asked for in it, and a language without any is not scored;
  a prediction for either is refused, since it could not be scored.

  Args:
    references: image key -> language -> captions.
    predictions: image key -> language -> caption.
    languages: the codes to score, other predictions being left aside; None: all that have references.

  Returns:
    The codes to score, in alphabetical order.

  Raises:
    UsageError: an unknown code, a language asked for without references, no references at all, or
      predictions that are missing or left over (counts and the first few).
  """
  held = {language for captions in references.values() for language in captions}
  if languages is None:
    scored = tuple(sorted(held))
    predicted = {language for captions in predictions.values() for language in captions}
  else:
    scored = predicted = tuple(sorted({languages_lib.get(code).code for code in languages}))
  if not scored:
    raise UsageError("no language to score: the references hold no caption")
  absent = sorted(set(predicted) - held)
  if absent:
    raise UsageError(
      f"no references in {', '.join(absent)}: score other languages with --languages, or add references"
    )

  wanted = set(scored)
  asked = [pair for pair in _pairs(references) if pair[0] in wanted]
  given = {pair for pair in _pairs(predictions) if pair[0] in wanted}
  missing = [pair for pair in asked if pair not in given]
  if missing:
    lacking = sorted({language for language, _ in missing})
    where = lacking[0] if len(lacking) == 1 else f"{len(lacking)} languages"
    raise UsageError(
      f"{len(missing):,} of {len(asked):,} predictions are missing, in {where} "
      f"({_few([_shown(pair) for pair in missing])}); predict them, or name the languages to "
      "score with --languages"
    )
  extra = sorted(given.difference(asked))
  if extra:
    unknown = {key for _, key in extra if key not in references}
    raise UsageError(
      f"{_count(extra, 'prediction')} without references, {len(unknown):,} unknown "
      f"image{'' if len(unknown) == 1 else 's'} among them "
      f"({_few([_shown(pair) for pair in extra])}); remove them, or give the references that "
      "belong to them"
    )
  return scored


def _count(items: Sequence, noun: str) -> str:
  return f"{len(items):,} {noun}{'' if len(items) == 1 else 's'}"


def _pairs(captions: Mapping[str, Mapping[str, object]]) -> Iterator[tuple[str, str]]:
  return ((language, key) for key, of_image in captions.items() for language in of_image)


def _shown(pair: tuple[str, str]) -> str:
  language, key = pair
  return f"{language} {files.shown(key)}"


def _few(items: Sequence[str]) -> str:
  return ", ".join(items[:_FIRST_FEW]) + (", ..." if len(items) > _FIRST_FEW else "")
