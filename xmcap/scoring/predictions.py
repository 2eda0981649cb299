"""Predicted captions: one caption an (image, language), matched with the references before scoring."""

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NoReturn

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files, layouts, plain_text
from xmcap.scoring.inputs import Input, uncollected
from xmcap.scoring.references import ReferenceMapping
from xmcap.terminal import shown


class Unmatched(UsageError):
  """References and predictions do not fit together; `output.score_files` adds which files they are from."""


Predictions = dict[str, dict[str, str]]
"""Image key -> language code -> the caption (may be empty: the model said nothing)."""

MISSING = ("refuse", "empty")
"""The ways to treat missing predictions."""

_HINT = '; a prediction is {"image/key": ..., "language": ..., "caption": ...}'
_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".txt")


class CheckedPredictions(Predictions):
  """Predictions from a file, whose types the reader has checked; `score` does not check them again."""


def read_predictions(
  path: str | os.PathLike, language: str | None = None, references: ReferenceMapping | None = None
) -> Predictions:
  """Reads predictions in the order of the file; its content says which layout it has, but for CSV and text.

  Args:
    path: plain JSONL, COCO results, CSV (`.csv`, `.tsv`) or text (`.txt`), or a folder of them, `CODE.jsonl` and so
      on, which are read in the order of the codes; files whose names begin with a dot are passed over.
    language: the code of captions that come without one; those that name theirs must agree.
    references: in whose order captions without keys stand, as those of text do.

  Raises:
    UsageError: the file cannot be read, holds none or something else, repeats predictions, or needs `language`.
  """
  if language is not None:
    language = languages_lib.get(language).code
  predictions = CheckedPredictions()
  with uncollected():
    if os.path.isdir(path):
      for code, file in _files(pathlib.Path(path), language):
        _read(file, code, "the file's name says", predictions, references)
    else:
      _read(path, language, "--language says", predictions, references)
  return predictions


def _files(folder: pathlib.Path, language: str | None) -> list[tuple[str, pathlib.Path]]:
  """Returns (language, file) of a folder with one file a language."""
  try:
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
  except OSError as error:
    raise UsageError(f"{folder}: cannot be read ({error.strerror or error})") from error
  codes = [entry.stem for entry in entries]
  for code, entry in zip(codes, entries, strict=True):
    is_of_language = languages_lib.is_known(code) and entry.suffix in _SUFFIXES and entry.is_file()
    if not is_of_language or codes.count(code) > 1 or language not in (None, code):
      raise UsageError(
        f"{folder}: {shown(entry.name)} is not the one file of {language or 'a language'}'s predictions (CODE.jsonl, "
        ".json, .csv, .tsv or .txt); remove it"
      )
  if not entries:
    raise UsageError(f"{folder}: no predictions in it; a folder holds a file a language, such as en.jsonl")
  return list(zip(codes, entries, strict=True))


def _read(
  path: str | os.PathLike,
  language: str | None,
  says: str,
  predictions: Predictions,
  references: ReferenceMapping | None,
) -> None:
  """Adds the predictions of a file. `says`: who says that they are in `language`, for messages."""
  repeated = []
  empty = True
  with Input(path) as source:
    if plain_text.is_plain(path):
      rows, place = plain_text.captions(source, language, says, references), "on line {}"
    elif layouts.is_results(source.head):
      rows, place = _of_coco(source, language), "as results[{}]"
    else:
      rows, place = _of_lines(source, language, says), "on line {}"
    for number, key, code, caption in rows:
      empty = False
      captions = predictions.setdefault(key, {})
      if code in captions:
        repeated.append(f"{code} {shown(key)} {place.format(number)}")
      captions[code] = caption
  if repeated:
    raise UsageError(
      f"{source.name}: {files.count(len(repeated), 'prediction')} given twice ({files.first_few(repeated)}); keep "
      "one an image and language"
    )
  if empty:
    raise UsageError(
      f"{source.name}: no prediction in it; predictions are JSONL, one caption a line, or the results of COCO"
    )


def _of_lines(source: Input, language: str | None, says: str) -> Iterator[tuple[int, str, str, str]]:
  """Yields (line, image key, language, caption)."""
  for number, row in source.rows():
    key, code, caption = row.get("image/key"), row.get("language", language), row.get("caption")
    if (
      not (isinstance(key, str) and isinstance(code, str) and isinstance(caption, str))
      or not languages_lib.is_known(code)
      or language not in (None, code)
    ):
      _refuse({"language": language, **row}, f"{source.name}, line {number}", f"{says} {language}")
    yield number, key, code, caption


def _refuse(row: dict[str, Any], where: str, says: str) -> NoReturn:
  """Raises a UsageError about a line that is no prediction in the language it should be in."""
  for member in ("image/key", "language", "caption"):
    layouts.text(row, member, where, _HINT)
  files.check_language(row["language"], where)
  raise UsageError(f"{where}: language is {row['language']}, but {says}; change one")


def _of_coco(source: Input, language: str | None) -> Iterator[tuple[int, str, str, str]]:
  """Yields (position, image key, language, caption)."""
  if language is None:
    raise UsageError(f"{source.name}: COCO's JSON names no language; give it with --language=CODE")
  for position, key, caption in layouts.results(source):
    yield position, key, language, caption


def write_predictions(path: str | os.PathLike, captions: Iterable[tuple[str, Mapping[str, str]]]) -> None:
  """Writes (image key, {language: caption}), the items of `Predictions`, as plain JSONL, whole or not at all.

  Raises:
    XmcapError: the file cannot be written.
  """
  files.write_lines(path, as_lines(captions))


def as_lines(captions: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[str]:
  """Yields the lines of plain JSONL, with their ends."""
  for key, of_image in captions:
    for language, caption in of_image.items():
      # Texts alone are encoded many times as fast as an object.
      quoted = (encode_basestring(text) for text in (key, language, caption))
      yield '{{"image/key": {}, "language": {}, "caption": {}}}\n'.format(*quoted)


def match_references(
  references: ReferenceMapping,
  predictions: Predictions,
  languages: Sequence[str] | None = None,
  missing: str = "refuse",
) -> tuple[str, ...]:
  """Checks that there is exactly one prediction for each image and language with references; no more, no less.

  Args:
    references, predictions: the captions.
    languages: the codes to score, other predictions being left aside; None: all that have references.
    missing: `refuse`, or `empty`: missing predictions are no error, and `fill_missing` makes them empty ones.

  Returns:
    The codes to score, in alphabetical order.

  Raises:
    Unmatched: a language without references, or predictions that are missing or left over.
    UsageError: an unknown code, or another way to treat missing predictions than `MISSING`.
  """
  check_missing(missing)
  _refuse_foreign(references, predictions)
  held = {language for captions in references.values() for language, texts in captions.items() if texts}
  if languages is None:
    scored = tuple(sorted(held))
    predicted = {language for captions in predictions.values() for language in captions}
  else:
    scored = predicted = tuple(sorted({languages_lib.get(code).code for code in languages}))
  if not scored:
    raise Unmatched("no language to score: the references hold no caption")
  absent = sorted(set(predicted) - held)
  if absent:
    raise Unmatched(
      f"no references in {', '.join(absent)}: score other languages with --languages, or add references"
    )
  if missing == "refuse":
    _refuse_missing(references, predictions, scored)
  _refuse_extra(references, predictions, scored)
  return scored


def check_missing(missing: str) -> None:
  """Raises a UsageError if `missing` is none of `MISSING`."""
  if missing not in MISSING:
    raise UsageError(f"--missing={shown(str(missing))}: choose {' or '.join(MISSING)}")


def fill_missing(
  references: ReferenceMapping, predictions: Predictions, languages: Iterable[str]
) -> tuple[Predictions, dict[str, int]]:
  """Adds an empty caption wherever there are references in one of the languages but no prediction.

  Returns:
    The predictions in a new dictionary; and language -> how many were missing, only of those with any.
  """
  filled, counts = dict(predictions), {}
  for language, key in _missing(references, predictions, languages):
    filled[key] = {**filled.get(key, {}), language: ""}
    counts[language] = counts.get(language, 0) + 1
  return filled, dict(sorted(counts.items()))


def _refuse_foreign(references: ReferenceMapping, predictions: Predictions) -> None:
  """Refuses predictions of which not one is of an image with references: the keys are written in another way."""
  if not references or not predictions or not references.keys().isdisjoint(predictions):
    return
  theirs, ours = next(iter(predictions)), next(iter(references))
  stems = {os.path.splitext(os.path.basename(key))[0] for key in predictions}
  how = "write them as the references do"
  if not stems.isdisjoint(references):
    how = "the references have names without folder and ending"
  raise Unmatched(
    f"none of the {len(predictions):,} predicted images is among the {len(references):,} of the references (keys such "
    f"as '{shown(theirs)}' against '{shown(ours)}'); {how}"
  )


def _refuse_missing(references: ReferenceMapping, predictions: Predictions, scored: tuple[str, ...]) -> None:
  missing = list(_missing(references, predictions, scored))
  if missing:
    wanted = sum(bool(captions.get(language)) for captions in references.values() for language in scored)
    raise Unmatched(
      f"{len(missing):,} of {wanted:,} predictions are missing ({_few_pairs(missing)}); predict them, name the "
      "languages to score with --languages, or score them as empty captions with --missing=empty"
    )


def _refuse_extra(references: ReferenceMapping, predictions: Predictions, scored: tuple[str, ...]) -> None:
  extra = sorted(
    (code, key)
    for key, captions in predictions.items()
    for code in captions
    if code in scored and not references.get(key, {}).get(code)
  )
  if extra:
    unknown = {key for _, key in extra if key not in references}
    raise Unmatched(
      f"{files.count(len(extra), 'prediction')} without references, {files.count(len(unknown), 'unknown image')} "
      f"among them ({_few_pairs(extra)}); remove them, or give the references that belong to them"
    )


def _missing(
  references: ReferenceMapping, predictions: Predictions, languages: Iterable[str]
) -> Iterator[tuple[str, str]]:
  """Yields (language, image key) where there are references and no prediction, in the references' order."""
  wanted = set(languages)
  for key, captions in references.items():
    given = predictions.get(key, {})
    for language, texts in captions.items():
      if texts and language in wanted and language not in given:
        yield language, key


def _few_pairs(pairs: Sequence[tuple[str, str]]) -> str:
  return files.first_few([f"{language} {shown(key)}" for language, key in pairs])
