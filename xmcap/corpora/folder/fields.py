"""Parses the fields of a line, table row or sample into image, captions, split and locale."""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from xmcap import languages
from xmcap.corpora.building import line_check
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import kinds
from xmcap.corpora.folder.table import LANGUAGES, PICTURES, ColumnRole, TableRoles
from xmcap.corpora.releases import xm3600
from xmcap.data.records import SOURCES, Caption
from xmcap.errors import UsageError
from xmcap.languages import unknown as unknown_language
from xmcap.reading import layouts
from xmcap.terminal import shown

_MODEL = ("gpt", "assistant", "model", "bot")  # who speaks in a conversation
_PLACEHOLDER = re.compile(r"<(image|video)>")


@dataclasses.dataclass
class RecordFields:
  """The parsed fields of a line about an image.

  Attributes:
    image: path of its file, or a part of the path.
    where: place of the line, for messages.
    archive: the tar file that contains the image, if known.
    key: its key in the records; "": the name of its file.
    split: the cell of the column with the split.
    file: file of the line, relative to the source, if its name or folder may name the split.
    names: other names of the image, such as its URL: images that share one, and all bytes, are the same.
  """

  image: str
  where: str
  captions: list[Caption]
  split: str = ""
  locale: str = ""
  archive: str = ""
  key: str = ""
  file: str = ""
  names: list[str] = dataclasses.field(default_factory=list)


def parse(
  fields: Mapping[str, Any], where: str, table: TableRoles, problems: Problems
) -> RecordFields | None:
  """Returns the row for the fields of a line; None if it names no image, which counts as a problem.

  UsageError if the language of the captions is unknown.
  """
  image = one(fields.get(table.image)).strip() if table.image else ""
  if not image:
    cell = fields.get(table.image)
    flaw = f"'{table.image}' does not name one picture" if table.image else "no column names the picture"
    if isinstance(cell, list) and len(cell) > 1:
      flaw = f"'{table.image}' has {len(cell)} pictures: give each a row of its own, with its own captions"
    problems.add("missing_field", where, flaw)
    return None
  if layouts.is_rejected(fields):
    problems.add("rejected", where)
    return None
  columns = list(table.captions_of(fields))
  if not columns:
    problems.add("missing_field", where, "no column with captions: give it with --caption_columns")
  split = fields.get(table.split) if table.split else ""
  locale = fields.get("image/locale") or fields.get("image_locale") or ""
  if table.image == "image/key" and columns and all(_is_released(fields[column.name]) for column in columns):
    named = {column.name for column in columns}
    released = {name: value for name, value in fields.items() if name in named or name.startswith("image/")}
    captions = list(xm3600.captions_of(released, where, problems))
  else:
    captions = [
      caption for column in columns for caption in _captions(fields, column, where, table, problems)
    ]
  row = RecordFields(image, where, captions, str(split or ""), locale if isinstance(locale, str) else "")
  others = (value for name, value in fields.items() if name != table.image and name.lower() in PICTURES)
  row.names = [str(value) for value in others if isinstance(value, str | int) and value != ""]
  return row


def one(image: Any) -> str:
  """Returns the image that a cell names, by itself or as a list of one (`file_names` of `datasets`); else ""."""
  if isinstance(image, list) and len(image) == 1:
    (image,) = image
  return layouts.plain_id(image) or ""


def _is_released(value: Any) -> bool:
  return isinstance(value, Mapping) and isinstance(value.get("caption"), list)


def _captions(
  fields: Mapping[str, Any], column: ColumnRole, where: str, table: TableRoles, problems: Problems
) -> Iterator[Caption]:
  """Yields the usable captions of a column."""
  source = (fields.get(table.written_by) or SOURCES[0]) if table.written_by else SOURCES[0]
  if source not in SOURCES:
    problems.add("missing_field", where, f"'{table.written_by}' is none of {', '.join(SOURCES)}")
    return
  of_row = fields.get(table.language) if table.language else None
  texts = list(_texts(fields[column.name], where, problems))
  of_texts = of_row if isinstance(of_row, list) and len(of_row) == len(texts) else [of_row] * len(texts)
  for (text, own), of_text in zip(texts, of_texts, strict=True):
    language = own or column.language or of_text or table.asked.default_language
    if not language and not table.language:
      hint = "give --language=CODE, --language_column=NAME, or --caption_columns=LANGUAGE=NAME"
      raise UsageError(f"{where}: the language of '{shown(column.name)}' is unknown: {hint}")
    code = _code(language) if isinstance(language, str) else None
    if not language:
      problems.add("missing_field", where, f"no language in '{table.language}'")
    elif code is None:
      problems.add("unknown_language", where, unknown_language(str(language)))
    elif not isinstance(text, str):
      # In a table with a column per language, an empty cell means that there is no caption.
      if text is not None:
        problems.add("missing_field", where, f"'{shown(column.name)}' is not a string")
    elif not text.strip() and column.language:
      continue
    elif (text := line_check.usable(text, where, problems)) and line_check.has_letters(
      text, code, where, problems
    ):
      yield Caption(code, text.strip(), source=source)


@functools.lru_cache(4096)
def _code(written: str) -> str | None:
  """Returns the code of a language in a common spelling (`EN`, `pt_br`, `qu`, `Quechua`); None if it is unknown."""
  return languages.named(written) or languages.canonical(written)


def _texts(value: Any, where: str, problems: Problems) -> Iterator[tuple[Any, str]]:
  """Yields (unchecked caption, language); the language is "" if unknown."""
  try:
    value = kinds.unpacked(value)
  except UsageError as error:
    problems.add("missing_field", where, str(error).removeprefix(": "))
    return
  if kinds.are_pairs(value):
    yield from ((text, language) for language, text in value)
    return
  if kinds.is_turns(value):
    answers = list(_answers(value))
    if len(answers) == 1:
      yield answers[0], ""
    else:
      problems.add("several_answers", where, f"{len(answers)} answers of the model; one is a caption")
    return
  if isinstance(value, Mapping):
    if column := kinds.text_member(value):
      text = value[column]
      language = next((value[name] for name in LANGUAGES if isinstance(value.get(name), str | list)), "")
      if isinstance(language, str):
        yield text, language
      elif isinstance(text, list) and len(language) == len(text):
        # A list of objects, which `datasets` stores as an object of lists.
        yield from zip(text, map(str, language), strict=True)
      else:
        yield text, ""
      return
    for language, texts in value.items():
      for text, _ in _texts(texts, where, problems):
        yield text, str(language)
  elif isinstance(value, list | tuple):
    for item in value:
      yield from _texts(item, where, problems)
  else:
    yield value, ""


def _answers(turns: list[Any]) -> Iterator[str]:
  """Yields the texts of the model in a conversation, without the tokens that stand for images."""
  for turn in turns:
    about = turn if isinstance(turn, Mapping) else {}
    if about.get("from", about.get("role")) not in _MODEL:
      continue
    said = about.get("value", about.get("content"))
    parts = said if isinstance(said, list) else [said]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    yield _PLACEHOLDER.sub("", " ".join(text for text in texts if isinstance(text, str))).strip()
