"""Files of tags: JSONL, or text as COCO-CN's, with lines `ID tag tag ...`; and vocabularies, with one tag per line."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.scoring import files
from xmcap.scoring.reading.inputs import Input
from xmcap.terminal import shown

Scores = dict[str, dict[str, dict[str, float]]]
"""Language code -> image key -> tag -> score; the scores of a ranked list are 0, -1, -2, ..."""

_LARGEST = 1e300  # an integer in JSON may be too large for a float
_HINT = 'a line is {"image/key": ..., "language": ..., "tags": [best first]}, or with "tags": {tag: score}'


def read(
  path: str | os.PathLike, language: str | None = None, languages: Sequence[str] | None = None
) -> Scores:
  """Reads tags, true or predicted, in the order of the file.

  Args:
    path: JSONL with `image/key` (or `key`), `language` and `tags`, a ranked list or {tag: score}; or lines of
      `ID tag tag ...`, separated by white space. A picture may have no tag.
    language: code of lines that name none; text needs it.
    languages: codes to keep; None keeps all. The whole file is checked either way.

  Raises:
    UsageError: the file cannot be read or is malformed, or repeats an image of a language or a tag of an image.
  """
  default = None if language is None else languages_lib.get(language).code
  found: Scores = {}
  with Input(path) as source:
    rows = _of_json(source, default) if source.head.lstrip()[:1] == b"{" else _of_text(source, default)
    for where, code, key, tags in rows:
      of_language = found.setdefault(code, {})
      if key in of_language:
        raise UsageError(f"{where}: '{shown(key)}' is given twice in '{code}'; keep one line")
      of_language[key] = tags
  if not found:
    raise UsageError(f"{path}: no tags in it; {_HINT}")
  return files.choose(found, languages, path, "tags")


def read_vocabulary(path: str | os.PathLike) -> tuple[str, ...]:
  """Reads tags, one per line, in the order of the file; UsageError if there are none, or if one is repeated."""
  with Input(path) as source:
    found = tuple(source.distinct_lines())
  if not found:
    raise UsageError(f"{path}: no tag in it; write one per line")
  return found


def write(path: str | os.PathLike, predictions: Scores) -> None:
  """Writes predicted tags with their scores as JSONL, for `xmcap score tags`."""
  rows = (
    {"image/key": key, "language": code, "tags": tags}
    for code, of_language in predictions.items()
    for key, tags in of_language.items()
  )
  files.write_lines(path, (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def _of_json(source: Input, default: str | None) -> Iterator[tuple[str, str, str, dict[str, float]]]:
  for number, row in source.rows():
    where = f"{source.name}, line {number}"
    key, code, tags = row.get("image/key", row.get("key")), row.get("language", default), row.get("tags")
    if not isinstance(key, str) or not key:
      raise UsageError(f"{where}: 'image/key' is missing or no text; {_HINT}")
    if not isinstance(code, str):
      raise UsageError(f"{where}: 'language' is missing; name it there, or all lines' by --language=CODE")
    files.check_language(code, where)
    yield where, code, key, _scores(tags, where)


def _of_text(source: Input, default: str | None) -> Iterator[tuple[str, str, str, dict[str, float]]]:
  if default is None:
    raise UsageError(f"{source.name}: text names no language; give it with --language=CODE")
  for number, line in source.lines():
    where = f"{source.name}, line {number}"
    key, *tags = line.split()
    yield where, default, key, _scores(tags, where)


def _scores(tags: Any, where: str) -> dict[str, float]:
  if isinstance(tags, list):
    names = tags
    scores = [-float(place) for place in range(len(tags))]
  elif isinstance(tags, dict):
    names, scores = list(tags), list(tags.values())
  else:
    raise UsageError(f"{where}: 'tags' is missing or no list; {_HINT}")
  for name, score in zip(names, scores, strict=True):
    if not isinstance(name, str) or not name.strip():
      raise UsageError(f"{where}: a tag is empty or no text; leave it out")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not -_LARGEST <= score <= _LARGEST:
      raise UsageError(f"{where}: the score of '{shown(name)}' is no finite number; mend it")
  if len(set(names)) < len(names):
    repeated = next(name for name in names if names.count(name) > 1)
    raise UsageError(f"{where}: the tag '{shown(repeated)}' is given twice; keep one")
  return dict(zip(names, map(float, scores), strict=True))
