"""Predicted captions, one per image and language, and their matching with the references."""

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.reading import captions as captions_lib
from xmcap.scoring.reading import layouts, plain_text
from xmcap.scoring.reading.inputs import Input, uncollected
from xmcap.scoring.reading.references import ReferenceMapping
from xmcap.terminal import shown


class Unmatched(UsageError):
  """References and predictions do not match; `output.score_files` adds the names of the files."""


Predictions = dict[str, dict[str, str]]
"""Image key -> language code -> caption, which may be empty."""

MISSING = ("refuse", "empty")
"""Ways to treat missing predictions."""

_HINT = '; a prediction is {"image/key": ..., "language": ..., "caption": ...}'
_SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".txt")


class CheckedPredictions(Predictions):
  """Predictions whose types the reader has checked, so that `score` need not."""


def read_predictions(
  path: str | os.PathLike,
  language: str | None = None,
  references: ReferenceMapping | None = None,
  longest: int | None = None,
) -> Predictions:
  """Reads predictions in the order of the file. CSV and text are known by suffix, other layouts by content.

  Args:
    path: plain JSONL, COCO results, CSV (`.csv`, `.tsv`) or text (`.txt`), or a folder of such files, `CODE.jsonl` and
      so on, which are read in the order of the codes; names that begin with a dot are skipped.
    language: code of captions that come without one; captions with a language must agree.
    references: gives the order of captions without keys, such as those of text files.
    longest: the most characters of a caption; None: any number.

  Raises:
    UsageError: the file cannot be read, is malformed or empty, repeats predictions, has too long captions, or needs
      `language`.
  """
  if language is not None:
    language = languages_lib.get(language).code
  predictions = CheckedPredictions()
  with uncollected():
    if os.path.isdir(path):
      for code, file in _files(pathlib.Path(path), language):
        _read(file, code, "the file's name says", predictions, references, longest)
    else:
      _read(path, language, "--language says", predictions, references, longest)
  return predictions


def _files(folder: pathlib.Path, language: str | None) -> list[tuple[str, pathlib.Path]]:
  """Returns (language, file) for a folder with one file per language."""
  try:
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
  except OSError as error:
    raise UsageError(f"{folder}: cannot be read ({error.strerror or error})") from error
  codes = [entry.stem for entry in entries]
  for code, entry in zip(codes, entries, strict=True):
    is_of_language = languages_lib.is_known(code) and entry.suffix in _SUFFIXES and entry.is_file()
    if not is_of_language or codes.count(code) > 1 or language not in (None, code):
      raise UsageError(
        f"{folder}: {shown(entry.name)} is not the only file of predictions in {language or 'a language'} (CODE.jsonl, "
        ".json, .csv, .tsv or .txt); remove it"
      )
  if not entries:
    raise UsageError(f"{folder}: contains no predictions; give a file per language, such as en.jsonl")
  return list(zip(codes, entries, strict=True))


def _read(
  path: str | os.PathLike,
  language: str | None,
  says: str,
  predictions: Predictions,
  references: ReferenceMapping | None,
  longest: int | None,
) -> None:
  """Adds the predictions of a file; `says` names the source of `language` in messages."""
  repeated, long = [], []
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
      if longest is not None and len(caption) > longest:
        long.append((f"{code} {shown(key)} {place.format(number)}", len(caption)))
  captions_lib.refuse_long(long, f"{source.name}: ", ", or what a model left there with --clean")
  if repeated:
    raise UsageError(
      f"{source.name}: {files.count(len(repeated), 'prediction')} given twice ({files.first_few(repeated)}); keep "
      "one per image and language"
    )
  if empty:
    raise UsageError(f"{source.name}: contains no predictions; give JSONL of captions, or COCO results")


def _of_lines(source: Input, language: str | None, says: str) -> Iterator[tuple[int, str, str, str]]:
  """Yields (line, image key, language, caption)."""
  for number, row in source.rows():
    key, code, caption = row.get("image/key"), row.get("language", language), row.get("caption")
    if (
      not (isinstance(key, str) and isinstance(code, str) and isinstance(caption, str))
      or not languages_lib.is_known(code)
      or language not in (None, code)
    ):
      where = f"{source.name}, line {number}"
      for member in ("image/key", "language", "caption"):
        layouts.text({"language": language, **row}, member, where, _HINT)
      files.check_language(code, where)
      raise UsageError(f"{where}: language is {code}, but {says} {language}; change one")
    yield number, key, code, caption


def _of_coco(source: Input, language: str | None) -> Iterator[tuple[int, str, str, str]]:
  """Yields (position, image key, language, caption)."""
  if language is None:
    raise UsageError(f"{source.name}: COCO's JSON names no language; give it with --language=CODE")
  for position, key, caption in layouts.results(source):
    yield position, key, language, caption


def write_predictions(path: str | os.PathLike, captions: Iterable[tuple[str, Mapping[str, str]]]) -> None:
  """Writes the items of `Predictions`, (image key, {language: caption}), as plain JSONL, atomically.

  Raises:
    XmcapError: the file cannot be written.
  """
  files.write_lines(path, as_lines(captions))


def as_lines(captions: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[str]:
  """Yields lines of plain JSONL, including their newlines."""
  for key, of_image in captions:
    for language, caption in of_image.items():
      # Encoding only the strings is many times as fast as encoding an object.
      quoted = (encode_basestring(text) for text in (key, language, caption))
      yield '{{"image/key": {}, "language": {}, "caption": {}}}\n'.format(*quoted)


def match_references(
  references: ReferenceMapping,
  predictions: Predictions,
  languages: Sequence[str] | None = None,
  missing: str = "refuse",
) -> tuple[str, ...]:
  """Checks that there is exactly one prediction for each image and language with references.

  Args:
    references, predictions: the captions.
    languages: codes to score, ignoring other predictions; None: all that have references.
    missing: `refuse`, or `empty` if `fill_missing` will replace missing predictions by empty ones.

  Returns:
    The codes to score, in alphabetical order.

  Raises:
    Unmatched: a language has no references, or predictions are missing or have no references.
    UsageError: a code is unknown, or `missing` is not in `MISSING`.
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
    raise Unmatched("no language to score: the references have no captions")
  absent = sorted(set(predicted) - held)
  if absent:
    raise Unmatched(f"no references in {', '.join(absent)}: choose other --languages, or add references")
  if missing == "refuse":
    _refuse_missing(references, predictions, scored)
  _refuse_extra(references, predictions, scored)
  return scored


def check_missing(missing: str) -> None:
  """Raises UsageError if `missing` is not in `MISSING`."""
  if missing not in MISSING:
    raise UsageError(f"--missing={shown(str(missing))}: choose {' or '.join(MISSING)}")


def fill_missing(
  references: ReferenceMapping, predictions: Predictions, languages: Iterable[str]
) -> tuple[Predictions, dict[str, int]]:
  """Adds an empty caption for each missing prediction in the languages.

  Returns:
    The predictions in a new dictionary, and language -> number of missing predictions, if above 0.
  """
  filled, counts = dict(predictions), {}
  for language, key in _missing(references, predictions, languages):
    filled[key] = {**filled.get(key, {}), language: ""}
    counts[language] = counts.get(language, 0) + 1
  return filled, dict(sorted(counts.items()))


def _refuse_foreign(references: ReferenceMapping, predictions: Predictions) -> None:
  """Raises Unmatched if no predicted image has references, because the keys are written differently."""
  if not references or not predictions or not references.keys().isdisjoint(predictions):
    return
  theirs, ours = next(iter(predictions)), next(iter(references))
  stems = {os.path.splitext(os.path.basename(key))[0] for key in predictions}
  how = "write them as the references do"
  if not stems.isdisjoint(references):
    how = "the references use names without folder and suffix"
  raise Unmatched(
    f"none of the {len(predictions):,} predicted images is among the {len(references):,} of the references (keys such "
    f"as '{shown(theirs)}' and '{shown(ours)}'); {how}"
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
      f"among them ({_few_pairs(extra)}); remove them, or add their references"
    )


def _missing(
  references: ReferenceMapping, predictions: Predictions, languages: Iterable[str]
) -> Iterator[tuple[str, str]]:
  """Yields (language, image key) with references but no prediction, in the order of the references."""
  wanted = set(languages)
  for key, captions in references.items():
    given = predictions.get(key, {})
    for language, texts in captions.items():
      if texts and language in wanted and language not in given:
        yield language, key


def _few_pairs(pairs: Sequence[tuple[str, str]]) -> str:
  return files.first_few([f"{language} {shown(key)}" for language, key in pairs])
