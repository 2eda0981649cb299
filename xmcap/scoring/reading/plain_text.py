"""Predictions in simple formats: CSV with a header, or text with one caption per line.

The suffix of the file says which. CSV (`.csv` with commas, `.tsv` with tabs) has the column `caption` and, if needed,
`image/key` (or `key`, `image_id`) and `language`; text (`.txt`) has only captions. Captions without keys must be in the
order of the references, with an empty line for an empty caption.
"""

import os
from collections.abc import Iterator

from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.reading.inputs import Input
from xmcap.scoring.reading.references import ReferenceMapping
from xmcap.terminal import shown

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PACKED = (".gz", ".bz2")
_KEYS = ("image/key", "key", "image_id")


def is_plain(path: str | os.PathLike) -> bool:
  """Whether the suffix of a file is that of CSV or text."""
  return _ending(path) in (*_DELIMITERS, ".txt")


def captions(
  source: Input, language: str | None, says: str, references: ReferenceMapping | None
) -> Iterator[tuple[int, str, str, str]]:
  """Yields (line, image key, language, caption); `says` names the source of `language` in messages.

  Raises:
    UsageError: the file is broken, needs `language` or `references`, or its captions do not match the references in
      number.
  """
  delimiter = _DELIMITERS.get(_ending(source.path))
  rows = _of_text(source) if delimiter is None else _of_csv(source, delimiter)
  without_key: dict[str, list[tuple[int, str]]] = {}
  for number, key, code, caption in rows:
    where = f"{source.name}, line {number}"
    code = code or language
    if code is None:
      raise UsageError(f"{where}: no language; give it with --language=CODE, or in the CSV column 'language'")
    files.check_language(code, where)
    if language not in (None, code):
      raise UsageError(f"{where}: language is {code}, but {says} {language}; change one")
    if key is None:
      without_key.setdefault(code, []).append((number, caption))
    else:
      yield number, key, code, caption
  for code, of_language in without_key.items():
    if references is None:
      raise UsageError(f"{source.name}: captions without keys; give CSV with 'image/key', or JSONL")
    keys = [key for key, held in references.items() if held.get(code)]
    if len(keys) != len(of_language):
      raise UsageError(
        f"{source.name}: {files.count(len(of_language), 'caption')} in {code} without keys, but the references have "
        f"{files.count(len(keys), 'image')}: give one line per image in their order (empty if the caption is), or keys"
      )
    for key, (number, caption) in zip(keys, of_language, strict=True):
      yield number, key, code, caption


def _ending(path: str | os.PathLike) -> str:
  stem, ending = os.path.splitext(path)
  return os.path.splitext(stem)[1] if ending in _PACKED else ending


def _of_text(source: Input) -> Iterator[tuple[int, None, None, str]]:
  lines = source.text().split("\n")
  if not lines[-1]:
    lines.pop()
  for number, line in enumerate(lines, 1):
    yield number, None, None, line.strip()


def _of_csv(source: Input, delimiter: str) -> Iterator[tuple[int, str | None, str | None, str]]:
  rows = source.csv(delimiter)
  _, headings = next(rows, (1, []))
  named = [name for name in _KEYS if name in headings]
  if "caption" not in headings or len(named) > 1 or len(set(headings)) < len(headings):
    raise UsageError(
      f"{source.name}, line 1: the columns are '{shown(', '.join(headings))}'; they must be 'caption' and, if needed, "
      f"one of {', '.join(_KEYS)} and 'language', each once"
    )
  if not named and (others := [name for name in headings if name not in ("caption", "language")]):
    # An unknown column may be the key; ignoring it would match the captions by order.
    raise UsageError(
      f"{source.name}, line 1: unknown column '{shown(others[0])}'; name the column of image keys 'image/key', or keep "
      "only 'caption' (and 'language') for captions in the order of the references"
    )
  for number, cells in rows:
    row = dict(zip(headings, cells, strict=True))
    key = row[named[0]] if named else None
    if key == "":
      raise UsageError(f"{source.name}, line {number}: '{named[0]}' is empty; name the image")
    yield number, key, row.get("language"), row["caption"]
