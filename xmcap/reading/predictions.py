"""Predicted captions, one per image and language."""

import itertools
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from json.encoder import encode_basestring

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.arguments import checked
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.reading import captions as captions_lib
from xmcap.reading import failed_requests, ids, joining, layouts, matching, provenance, rows
from xmcap.reading.columns import ColumnNames
from xmcap.reading.failed_requests import Failed, Failures
from xmcap.reading.inputs import uncollected
from xmcap.reading.references import ReferenceMapping, References
from xmcap.terminal import shown

Predictions = dict[str, dict[str, str]]
"""Image key -> language code -> caption, which may be empty."""


class CheckedPredictions(Predictions):
  """Predictions whose types the reader has checked, so that `score` need not.

  Attributes:
    notes: what was recognised and is not evident, for readers of the scores.
    longest: the most characters that the reader let a caption have; None: any number.
    failed: the requests that failed, which are no captions.
    captioner: what wrote them, for the signature of their scores; "" if their file does not say.
    columns: of the columns that were asked for, those that a file has.
  """

  notes: tuple[str, ...] = ()
  longest: int | None = None

  def __init__(self, *predictions: Predictions):
    super().__init__(*predictions)
    self.failed: Failures = {}
    self.captioner = ""
    self.columns: set[str] = set()


@checked
def read_predictions(
  path: joining.Paths,
  language: str | None = None,
  references: ReferenceMapping | None = None,
  key: str | None = None,
  longest: int | None = None,
  columns: ColumnNames | None = None,
) -> CheckedPredictions:
  """Reads predictions in the order of the file; `docs/scoring.md` lists the layouts.

  Args:
    path: rows of any of `layouts`, in any file of `rows`; or a folder of such files, `CODE.jsonl` and so on, which are
      read in the order of the codes; names that begin with a dot are skipped. Several files are joined: other
      languages, or other images.
    language: code of captions that come without one; captions with a language must agree.
    references: gives the order of captions without keys, such as those of text files, and the keys and languages that
      others are matched with.
    key: a regular expression whose group is the image's key in an id; a group `language` gives the language.
    longest: the most characters of a caption; None: any number.
    columns: names of columns; a file that lacks them is read by the usual names.

  Raises:
    UsageError: the file cannot be read, is malformed or empty, repeats predictions or those of another file, has too
      long captions, or needs `language`.
  """
  if language is not None:
    language = languages_lib.get(language).code
  if references is not None and not isinstance(references, References):
    references = References(references)
  namer = ids.Namer("predictions", key, columns)
  parts: list[tuple[str, Predictions]] = []
  with uncollected():
    for part in joining.listed(path):
      of_part: Predictions = {}
      names: dict[str, str] = {}
      if os.path.isdir(part):
        for code, file in namer.files(pathlib.Path(part), language):
          _read(file, code, "the file's name says", of_part, references, namer, longest, names)
      else:
        _read(part, language, "--language says", of_part, references, namer, longest, names)
      if references is not None:
        of_part = matching.align(of_part, references, namer, names)
      parts.append((str(part), of_part))
    if len(parts) > 1:
      namer.note(joining.note((name, sum(map(len, of_part.values()))) for name, of_part in parts))
    predictions = CheckedPredictions(joining.predictions(parts) if len(parts) > 1 else parts[0][1])
    num_read = sum(len(captions) for _, of_part in parts for captions in of_part.values())
    _note_again(namer, num_read - sum(map(len, predictions.values())))
  predictions.failed = failed_requests.apart(predictions)
  predictions.captioner = provenance.captioner(joining.listed(path))
  predictions.notes, predictions.longest, predictions.columns = tuple(namer.notes), longest, namer.present
  return predictions


def _read(
  path: str | os.PathLike,
  language: str | None,
  says: str,
  predictions: Predictions,
  references: ReferenceMapping | None,
  namer: ids.Namer,
  longest: int | None,
  names: dict[str, str],
) -> None:
  """Adds the predictions of a file, and key -> name of its image; `says` names the source of `language`."""
  differing, cut, num_read, num_filled, num_same, num_keys, num_again = [], [], 0, 0, 0, 0, 0
  lengths = captions_lib.Lengths(longest)
  limit = math.inf if longest is None else longest
  heads, width = failed_requests.HEADS, failed_requests.WIDTH
  with rows.opened(path) as source:
    table = rows.of(source)
    keys = () if references is None else references
    items = matching.in_order(table, _items(table, namer, language, names), language, says, references, namer)
    for number, key, code, caption in namer.named(table, items, language, says, keys):
      num_read += 1
      num_keys += caption.startswith(key) and _is_key(key, caption)
      num_filled += caption != ""
      if caption[:width] in heads:
        caption = failed_requests.judged(caption)
      if type(caption) is not str:
        caption = _unusual(caption, f"{code} {shown(key)}", table.place.format(number), cut)
      elif len(caption) > limit:
        lengths.see(key, {code: [caption]}, table.place, number)
      captions = predictions.get(key)
      if captions is None:
        captions = predictions[key] = {}
      if code in captions:
        first = captions[code]
        if isinstance(first, Failed) or isinstance(caption, Failed):
          num_again += 1
          caption = first if isinstance(caption, Failed) else caption
        elif first == caption:
          num_same += 1
        else:
          differing.append(f"{code} {shown(key)}, {table.place.format(number)}")
      captions[code] = caption
  lengths.refuse(f"{table.name}: ", ", or what a model left there with --clean")
  if differing:
    raise UsageError(
      f"{table.name}: {wording.count(len(differing), 'prediction')} given twice, with another caption "
      f"({wording.first_few(differing)}); keep one per image and language"
    )
  namer.tally(num_same, "prediction", "given twice with the same caption; counted once")
  _note_again(namer, num_again)
  if cut:
    namer.note(
      f"{wording.count(len(cut), 'answer')} cut off at the limit of tokens ({wording.first_few(cut)})"
    )
  if not num_read:
    raise UsageError(f"{table.name}: contains no predictions; give JSONL of captions, or COCO results")
  if num_read > 1 and not num_filled:
    raise UsageError(
      f"{table.name}: all {num_read:,} captions are empty; name the column with the captions 'caption'"
    )
  if num_read > 1 and num_keys * 2 > num_read:
    raise UsageError(
      f"{table.name}: {num_keys:,} of {num_read:,} captions begin with the key of their image; give the "
      "captions alone, or a table with the columns image/key and caption"
    )


def _is_key(key: str, caption: str) -> bool:
  """Whether a caption that begins with the key of its image is that, or that before a caption.

  A key without a digit may be a word: captions of `dog` begin with "dog" by right.
  """
  if caption == key:
    return True
  return caption[len(key)].isspace() and any(map(str.isdigit, key))


def _note_again(namer: ids.Namer, count: int) -> None:
  namer.tally(count, "request", "asked again after an error; the answer counts")


def _unusual(caption: str, of: str, place: str, cut: list[str]) -> str:
  """Returns a failed request with its place, or the text of an answer that was cut off, which is listed."""
  if isinstance(caption, Failed):
    caption.place = place
    return caption
  cut.append(f"{of}, {place}")
  return str(caption)


def _items(
  source: rows.Rows, namer: ids.Namer, language: str | None, names: dict[str, str]
) -> Iterator[tuple[int | str, str | None, object, str]]:
  """Yields (number, image key or None, language or None, caption); adds key -> file name of the image to `names`."""
  first = next(source.rows, None)
  if first is None:
    return
  where = source.where(1 if source.ordered else first[0])
  layout = namer.layout(first[1], where, source.ordered, language)
  for note in layout.notes:
    namer.note(note)
  get_captions, of_language = layout.get_captions, layout.language
  several = len(layout.captions) > 1
  key_field, file_name, fields = "" if layout.get_key else layout.key, layout.file_name, layout.captions
  for number, row in itertools.chain((first,), source.rows):
    key = row.get(key_field)
    if type(key) is not str or not key:  # the usual key costs no call
      key = layouts.key_of(row, layout, source.where, number) if layout.key else None
    if file_name and key and isinstance(name := row.get(file_name), str):
      names.setdefault(key, name)
    for field, code in fields:
      caption = get_captions(row, source.where(number)) if get_captions else row.get(field)
      if several and not caption:
        continue  # an empty cell of a table that has a column for each language: missing
      if not isinstance(caption, str) or (not caption and row.get("error")):
        caption = _single(caption, row, field, source.where(number))
      yield number, key, code or row.get(of_language) or None, caption
  names |= {key: name for key, name in (source.images or {}).items() if name}
  for note in source.notes:
    namer.note(note)


def _single(caption: object, row: dict[str, object], member: str, where: str) -> str:
  """Returns the caption of a list of one, as lmms-eval writes for COCO's test, or a request that failed."""
  value = caption[0] if isinstance(caption, list) and len(caption) == 1 else caption
  if isinstance(value, str) and value:
    return value
  failed = failed_requests.value(row if row.get("error") else value)
  if failed is not None and (member in row or row.get("error")):
    return failed
  if isinstance(caption, list) and all(isinstance(text, str) for text in caption):
    raise UsageError(f"{where}: '{member}' has {len(caption)} captions; a prediction is one")
  raise UsageError(f"{where}: '{member}' is missing or not a string")


@checked
def write_predictions(path: str | os.PathLike, captions: Iterable[tuple[str, Mapping[str, str]]]) -> None:
  """Writes the items of `Predictions`, (image key, {language: caption}), as plain JSONL, atomically.

  Raises:
    UsageError: the items are others.
    XmcapError: the file cannot be written.
  """
  try:
    files.write_lines(path, as_lines(captions))
  except (TypeError, ValueError, AttributeError) as error:
    raise UsageError(
      f"{path}: captions must be pairs of an image key and {{language: caption}}, such as predictions.items() ({error})"
    ) from error


def as_lines(captions: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[str]:
  """Yields lines of plain JSONL, including their newlines."""
  for key, of_image in captions:
    # Encoding only the strings is many times as fast as encoding an object.
    begin = f'{{"image/key": {encode_basestring(key)}, "language": '
    for language, caption in of_image.items():
      yield f'{begin}{encode_basestring(language)}, "caption": {encode_basestring(caption)}}}\n'
