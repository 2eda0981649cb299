"""Parses the fields of a line, table row or sample into picture, captions, split and locale."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap import languages
from xmcap.data.corpora import line_check
from xmcap.data.corpora.problems import Problems
from xmcap.data.corpora.releases import xm3600
from xmcap.data.records import Caption
from xmcap.errors import UsageError
from xmcap.scoring.files import unknown_language
from xmcap.terminal import shown

IMAGES = (
  *("image", "file_name", "filename", "file", "image_path", "path", "filepath", "img", "image/key", "key"),
  *("image_id", "id", "image_file_name", "file_names", "images"),
)
"""Usual names of the column with the picture's name."""

_CAPTIONS = ("caption", "captions", "text", "texts", "sentence", "sentences", "description", "translation")
_LANGUAGES = ("language", "lang", "language_code")
_TEXTS = ("caption", "text", "raw", "translation")  # in an object of a list of captions
_PREFIX = re.compile(r"^(captions?|text)[_:/.-]")


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

  UsageError if a requested column is missing, or if the language of the captions is unknown.
  """
  image = named(fields, columns.image, IMAGES, where)
  picture = one(_cell(fields, image)).strip()
  if not picture:
    what = f"'{image}' does not name one picture" if image else "no column names the picture"
    problems.add("missing_field", where, what)
    return None
  split = _cell(fields, named(fields, columns.split, (), where))
  locale = fields.get("image/locale") or ""
  if image == "image/key" and not columns.captions and not {"caption", "captions"} & fields.keys():
    captions = list(xm3600.captions_of(dict(fields), where, problems))
  else:
    captions = list(_captions(fields, where, columns, problems))
  return Row(picture, where, captions, str(split or ""), locale if isinstance(locale, str) else "")


def named(fields: Mapping[str, Any], wanted: str, usual: tuple[str, ...], where: str) -> str:
  """Returns the wanted column (UsageError if it is missing), else the first usual one that exists, else ""."""
  if wanted and wanted not in fields:
    raise UsageError(f"{where}: no column '{shown(wanted)}'; there are {shown(', '.join(map(str, fields)))}")
  return wanted or next((name for name in usual if name in fields), "")


def one(picture: Any) -> str:
  """Returns the picture that a cell names, by itself or as a list of one (`file_names` of `datasets`); else ""."""
  if isinstance(picture, list) and len(picture) == 1:
    (picture,) = picture
  if isinstance(picture, int) and not isinstance(picture, bool):
    picture = str(picture)
  return picture if isinstance(picture, str) else ""


def _cell(fields: Mapping[str, Any], column: str) -> Any:
  """Returns the value in a column; None for the column "", though a table may have a column without a name."""
  return fields.get(column) if column else None


def language_of(text: str) -> str | None:
  """Returns the code of a language in a common spelling (`EN`, `pt_br`); None if it is unknown."""
  code = text.strip().replace("_", "-")
  if not languages.is_known(code):
    language, *parts = code.lower().split("-")
    parts = [part.upper() if len(part) == 2 else part.capitalize() for part in parts]
    code = "-".join([language, *parts])
  return code if languages.is_known(code) else None


def _captions(
  fields: Mapping[str, Any], where: str, columns: Columns, problems: Problems
) -> Iterator[Caption]:
  found = list(_columns(fields, columns, where))
  if not found:
    problems.add("missing_field", where, "no column with captions: give it with --caption_columns")
  language_column = named(fields, columns.language, _LANGUAGES, where)
  for name, of_column in found:
    of_cell = of_column or _cell(fields, language_column) or columns.default_language
    for text, own in _texts(fields[name]):
      language = own or of_cell
      if not language and not language_column:
        hint = "give --language=CODE or --language_column=NAME"
        raise UsageError(f"{where}: the language of '{shown(name)}' is unknown: {hint}")
      code = language_of(language) if isinstance(language, str) else None
      if not language:
        problems.add("missing_field", where, f"no language in '{language_column}'")
      elif code is None:
        problems.add("unknown_language", where, unknown_language(str(language)))
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
  return language_of(_PREFIX.sub("", name)) or ""


def _texts(value: Any) -> Iterator[tuple[Any, str]]:
  """Yields (unchecked caption, language); the language is "" if unknown."""
  if isinstance(value, Mapping):
    column = next((name for name in _TEXTS if name in value), None)
    if column is not None:
      text = value[column]
      language = next((value[name] for name in _LANGUAGES if isinstance(value.get(name), str | list)), "")
      if isinstance(language, str):
        yield text, language
      elif isinstance(text, list) and len(language) == len(text):
        # A list of objects, which `datasets` stores as an object of lists.
        yield from zip(text, map(str, language), strict=True)
      else:
        yield text, ""
      return
    for language, texts in value.items():
      for text, _ in _texts(texts):
        yield text, str(language)
  elif isinstance(value, list | tuple):
    for item in value:
      yield from _texts(item)
  else:
    yield value, ""
