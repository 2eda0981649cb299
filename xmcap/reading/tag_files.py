"""Files of tags: JSONL or text; and vocabularies, with one tag per line.

Text is that of COCO-CN (Li et al. 2019): lines `ID tag tag ...` by people, or `ID tag score tag score ...` of their
taggers (`id.tagvotes.txt`). A file is all one or all the other, which its numbers decide: no number in text is a tag.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xmcap import languages as languages_lib
from xmcap import wording
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.progress import Say
from xmcap.reading import label_words
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

Scores = dict[str, dict[str, dict[str, float]]]
"""Language code -> image key -> tag -> score; the scores of a ranked list are 0, -1, -2, ..."""

_LARGEST = 1e300  # an integer in JSON may be too large for a float
_HINT = 'a line is {"image/key": ..., "language": ..., "tags": [best first]}, or with "tags": {tag: score}'
_TEXT_HINT = "a line is `ID tag tag ...` or `ID tag score tag score ...`; JSONL may have numbers as tags"
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def read(
  path: str | os.PathLike,
  language: str | None = None,
  languages: Sequence[str] | None = None,
  say: Say = lambda line: None,
) -> Scores:
  """Reads tags, true or predicted, in the order of the file.

  Args:
    path: JSONL with `image/key` (or `key`), `language` and `tags`, a ranked list or {tag: score}; or text, see above,
      separated by white space. An image may have no tag.
    language: code of lines that name none; text needs it.
    languages: codes to keep; None keeps all. The whole file is checked either way.
    say: takes a line if text is recognised as tags with scores.

  Raises:
    UsageError: the file cannot be read or is malformed, repeats an image of a language or a tag of an image, or has
      tags that are numbers, which may be scores.
  """
  default = None if language is None else languages_lib.get(language).code
  scores: Scores = {}
  with Input(path) as source:
    rows = _of_json(source, default) if source.head.lstrip()[:1] == b"{" else _of_text(source, default, say)
    for where, code, key, tags in rows:
      of_language = scores.setdefault(code, {})
      if key in of_language:
        raise UsageError(f"{where}: '{shown(key)}' is given twice in '{code}'; keep one line")
      of_language[key] = tags
  if not scores:
    raise UsageError(f"{path}: no tags in it; {_HINT}")
  return languages_lib.choose(scores, languages, path, "tags")


def read_vocabulary(path: str | os.PathLike) -> tuple[str, ...]:
  """Reads tags, one per line, in the order of the file; UsageError if there are none, or if one is repeated."""
  with Input(path) as source:
    tags = tuple(source.distinct_lines())
  if not tags:
    raise UsageError(f"{path}: no tag in it; write one per line")
  return tags


def is_number(word: str) -> bool:
  """Whether a word of a text is a number, such as the score of the tag before it."""
  return _NUMBER.fullmatch(word) is not None


def are_scored(words: Sequence[str]) -> bool:
  """Whether the words after an image's id are `tag score tag score ...`."""
  return len(words) > 1 and len(words) % 2 == 0 and all(map(is_number, words[1::2]))


def write(path: str | os.PathLike, predictions: Scores) -> None:
  """Writes predicted tags with their scores as JSONL, for `xmcap score tags`."""
  rows = (
    as_line(key, language, tags)
    for language, of_language in predictions.items()
    for key, tags in of_language.items()
  )
  files.write_lines(path, rows)


def as_line(key: str, language: str, tags: Mapping[str, float]) -> str:
  """Returns a line of JSONL with the tags of an image and their scores."""
  row = {"image/key": key, "language": language, "tags": tags}
  return f"{json.dumps(row, ensure_ascii=False)}\n"


def _of_json(source: Input, default: str | None) -> Iterator[tuple[str, str, str, dict[str, float]]]:
  for number, row in source.rows():
    where = f"{source.name}, line {number}"
    key, language, tags = row.get("image/key", row.get("key")), row.get("language", default), row.get("tags")
    if not isinstance(key, str) or not key:
      raise UsageError(f"{where}: 'image/key' is missing or no text; {_HINT}")
    if not isinstance(language, str):
      raise UsageError(f"{where}: 'language' is missing; name it there, or all lines' by --language=CODE")
    code = languages_lib.canonical(language)
    if code is None:
      raise UsageError(f"{where}: {languages_lib.unknown(language)}")
    yield where, code, key, _of_value(tags, where)


def _of_text(
  source: Input, default: str | None, say: Say
) -> Iterator[tuple[str, str, str, dict[str, float]]]:
  if default is None:
    raise UsageError(
      f"{source.name}: text names no language; give it with --language=CODE, or TagPrompts.language in gin"
    )
  first, scored = "", False  # the first line with tags, and what it says of all
  for number, line in source.lines():
    where = f"{source.name}, line {number}"
    key, *words = line.split()
    if words and not first:
      first, scored = f"line {number}", are_scored(words)
    if not scored and (numbers := list(filter(is_number, words))):
      raise UsageError(f"{where}: {shown(numbers[0])} is a number, no tag; {_TEXT_HINT}")
    if scored and words and not are_scored(words):
      raise UsageError(f"{where}: no score after each tag, which {first} has; {_TEXT_HINT}")
    scores = list(map(float, words[1::2])) if scored else None
    yield where, default, key, _scores(words[::2] if scored else words, scores, where)
  if scored:
    say(f"{source.name}: read as `ID tag score tag score ...`")


def _of_value(tags: Any, where: str) -> dict[str, float]:
  """Returns the scores of a value of JSON."""
  if isinstance(tags, dict):
    return _scores(list(tags), list(tags.values()), where)
  if not isinstance(tags, list):
    raise UsageError(f"{where}: 'tags' is missing or no list; {_HINT}")
  # What a split of a text line gives; whole numbers alone may be tags, as those of a clock or a hundred.
  if all(isinstance(tag, str) for tag in tags) and are_scored(tags) and any("." in tag for tag in tags[1::2]):
    raise UsageError(f"{where}: every second tag is a number, such as {shown(tags[1])}; {_HINT}")
  return _scores(tags, None, where)


def _scores(names: list[Any], scores: list[Any] | None, where: str) -> dict[str, float]:
  """Returns the scores by tag; without `scores`, those of a ranked list."""
  scores = [-float(place) for place in range(len(names))] if scores is None else scores
  for name, score in zip(names, scores, strict=True):
    if not isinstance(name, str) or not name.strip():
      raise UsageError(f"{where}: a tag is empty or no text; leave it out")
    is_finite = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_finite or not -_LARGEST <= score <= _LARGEST:
      raise UsageError(f"{where}: the score of '{shown(name)}' is no finite number; mend it")
  if repeated := wording.repeated(map(label_words.word, names)):
    raise UsageError(f"{where}: the tag '{shown(repeated[0])}' is given twice; keep one")
  return dict(zip(names, map(float, scores), strict=True))
