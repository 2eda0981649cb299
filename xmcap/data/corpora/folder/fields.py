"""Parses the fields of a line, table row or sample into picture, captions, split and locale."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap import languages
from xmcap.data.corpora import line_check
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases import xm3600
from xmcap.data.records import Caption
from xmcap.errors import UsageError
from xmcap.terminal import shown

IMAGES = (
  *("image", "file_name", "filename", "file", "image_path", "path", "filepath", "img", "image/key", "key"),
  *("image_id", "id", "image_file_name", "file_names", "images"),
)
"""Usual names of the column with the picture's name."""

_CAPTIONS = ("caption", "captions", "text", "texts", "sentence", "sentences", "description", "translation")
_LANGUAGES = ("language", "lang", "language_code")
_TEXTS = ("caption", "text", "raw", "translation")  # in an object of a list of captions


@dataclasses.dataclass(frozen=True)
class Columns:
  """Names of columns; "" and () mean the usual names.

  Attributes:
    captions: columns with captions, `NAME`, or `LANGUAGE=NAME` for a column in one language.
    default_language: language of captions that do not name one.
  """

  image: str = ""
  captions: tuple[str, ...] = ()
  language: str = ""
  split: str = ""
  default_language: str = ""


@dataclasses.dataclass
class Row:
  """The parsed fields of a line about a picture.

  Attributes:
    picture: path of its file, or a part of the path.
    where: place of the line, for messages.
    archive: the tar file that contains the picture, if known.
    key: its key in the records; "": the name of its file.
  """

  picture: str
  where: str
  captions: list[Caption]
  split: str = ""
  locale: str = ""
  archive: str = ""
  key: str = ""


def parse(fields: Mapping[str, Any], where: str, columns: Columns, problems: Problems) -> Row | None:
  """Returns the row for the fields of a line; None if it names no picture, which counts as a problem.

  Raises:
    UsageError: a requested column is missing, or the language of the captions is unknown.
  """
  image = named(fields, columns.image, IMAGES, where)
  picture = one(fields.get(image)).strip() if image else ""
  if not picture:
    problems.add(
      "missing_field",
      where,
      f"'{image}' does not name one picture" if image else "no column names the picture",
    )
    return None
  named(fields, columns.split, (), where)
  split = fields.get(columns.split) if columns.split else ""
  locale = fields.get("image/locale") or ""
  if image == "image/key" and not columns.captions and not {"caption", "captions"} & fields.keys():
    captions = list(xm3600.captions_of(dict(fields), where, problems))
  else:
    captions = list(_captions(fields, where, columns, problems))
  return Row(picture, where, captions, str(split or ""), locale if isinstance(locale, str) else "")


def named(fields: Mapping[str, Any], wanted: str, usual: tuple[str, ...], where: str) -> str:
  """Returns the wanted column (UsageError if it is missing), else the first usual one that exists, else ""."""
  if wanted and wanted not in fields:
    raise UsageError(
      f"{where}: no column '{shown(wanted)}'; there are {shown(', '.join(map(str, fields)), 200)}"
    )
  return wanted or next((name for name in usual if name in fields), "")


def one(picture: Any) -> str:
  """Returns the picture in a field, given by itself or as a list of one (`file_names` of `datasets`); else ""."""
  if isinstance(picture, list) and len(picture) == 1:
    (picture,) = picture
  if isinstance(picture, int) and not isinstance(picture, bool):
    picture = str(picture)
  return picture if isinstance(picture, str) else ""


def language_of(text: str) -> str | None:
  """Returns the code of a language in a common spelling (`EN`, `pt_br`); None if it is unknown."""
  code = text.strip().replace("_", "-")
  if languages.is_known(code):
    return code
  parts = code.lower().split("-")
  shaped = [parts[0], *(part.upper() if len(part) == 2 else part.capitalize() for part in parts[1:])]
  code = "-".join(shaped)
  return code if languages.is_known(code) else None


def _captions(
  fields: Mapping[str, Any], where: str, columns: Columns, problems: Problems
) -> Iterator[Caption]:
  found = list(_columns(fields, columns, where))
  if not found:
    problems.add("missing_field", where, "no column with captions: give it with --caption_columns")
  language_column = named(fields, columns.language, _LANGUAGES, where)
  for name, of_column in found:
    given = (
      of_column or (fields.get(language_column) if language_column else None) or columns.default_language
    )
    for text, own in _texts(fields[name]):
      language = own or given
      if not language:
        if language_column:
          problems.add("missing_field", where, f"no language in '{language_column}'")
          continue
        raise UsageError(
          f"{where}: the language of '{shown(name)}' is unknown: give --language=CODE or --language_column=NAME"
        )
      code = language_of(language) if isinstance(language, str) else None
      if code is None:
        problems.add("unknown_language", where, _unknown(language))
      elif not isinstance(text, str):
        # In a table with a column per language, an empty cell means that there is no caption.
        if text is not None:
          problems.add("missing_field", where, f"'{shown(name)}' is not a string")
      elif (text.strip() or not of_column) and (text := line_check.usable(text, where, problems)):
        yield Caption(code, text.strip())


def _columns(fields: Mapping[str, Any], columns: Columns, where: str) -> Iterator[tuple[str, str]]:
  """Yields (column, language); the language is "" if the column does not imply it."""
  if columns.captions:
    for given in columns.captions:
      language, equals, name = given.partition("=")
      yield named(fields, name if equals else given, (), where), language if equals else _in_name(given)
    return
  if usual := named(fields, "", _CAPTIONS, where):
    yield usual, ""
    return
  for name in fields:
    if name not in ("id", *_LANGUAGES) and (language := _in_name(name)):
      yield name, language


def _in_name(name: str) -> str:
  """Returns the language in the name of a column: `th` for `th`, `caption_th` and `captions:th`; else ""."""
  for start in ("caption", "captions", "text"):
    if name.startswith(start) and name[len(start) : len(start) + 1] in ("_", ":", "-", "/", "."):
      name = name[len(start) + 1 :]
      break
  return language_of(name) or ""


def _texts(value: Any) -> Iterator[tuple[Any, str]]:
  """Yields (unchecked caption, language); the language is "" if unknown."""
  if isinstance(value, Mapping):
    text = next((name for name in _TEXTS if name in value), None)
    if text:
      language = next((value[name] for name in _LANGUAGES if isinstance(value.get(name), str | list)), "")
      if isinstance(language, list) and isinstance(value[text], list) and len(language) == len(value[text]):
        # A list of objects, which `datasets` stores as an object of lists.
        yield from zip(value[text], map(str, language), strict=True)
      else:
        yield value[text], language if isinstance(language, str) else ""
      return
    for language, texts in value.items():
      for text, _ in _texts(texts):
        yield text, str(language)
  elif isinstance(value, list | tuple):
    for item in value:
      yield from _texts(item)
  else:
    yield value, ""


def _unknown(language: Any) -> str:
  try:
    languages.get(shown(str(language), 40))
  except UsageError as error:
    return str(error)
  return repr(language)[:40]
