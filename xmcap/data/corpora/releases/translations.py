"""Lines of COCO-35L and CC3M-35L -> captions, parsed and checked.

A line is a JSON object: an id (`image_id` or `rec_num`), `trg_lang`, `caption_tokenized` (English, the same in the
lines of all languages) and `translation_tokenized`; other members are not read.
"""

import dataclasses
import io
import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import regex

from xmcap import languages
from xmcap.data.corpora.problems import MAX_CAPTION_BYTES, Problems

# Translations into English would stand beside the original.
_TARGETS = {code: number for number, code in enumerate(languages.LANGUAGES) if code != "en"}
ENGLISH = tuple(languages.LANGUAGES).index("en")
HUMAN, MT = 0, 1  # as in records.SOURCES
_MAX_NUMBER = 255

_CONTROLS = regex.compile(r"\p{Cc}")
_SPACES = re.compile(r"[\t\n\v\f\r\x85]")
_SHORT = MAX_CAPTION_BYTES // 4  # so many characters are never too many bytes
_BOM = b"\xef\xbb\xbf"
_COCO_ID = re.compile(r"([0-9]{1,15})_([0-9]{1,3})")
_REC_NUM = re.compile(r"[0-9]{1,18}")


class _CocoLine(msgspec.Struct, gc=False):
  trg_lang: str
  caption_tokenized: str
  translation_tokenized: str
  id: str = msgspec.field(name="image_id")


class _Cc3mLine(msgspec.Struct, gc=False):
  trg_lang: str
  caption_tokenized: str
  translation_tokenized: str
  id: int | str = msgspec.field(name="rec_num")


class CaptionRow(NamedTuple):
  """A caption: position of its picture, number there, positions in LANGUAGES and SOURCES, line in the file, text."""

  picture: int
  number: int
  language: int
  source: int
  line: int
  text: str


@dataclasses.dataclass(frozen=True)
class CocoIds:
  """`<coco id>_<N>` -> position of the picture and N. `positions`: COCO id -> position."""

  positions: Mapping[int, int]
  line_type = _CocoLine

  def find(self, id: str) -> tuple[int, int] | None:
    """None if the release has no such picture."""
    match = _COCO_ID.fullmatch(id)
    if match is None or int(match[1]) not in self.positions or int(match[2]) > _MAX_NUMBER:
      return None
    return self.positions[int(match[1])], int(match[2])


@dataclasses.dataclass(frozen=True)
class Cc3mIds:
  """`rec_num`, which counts the `count` lines of the TSV from 1 -> position of the picture, and 1."""

  count: int
  line_type = _Cc3mLine

  def find(self, id: int | str) -> tuple[int, int] | None:
    """None if the release has no such picture."""
    if isinstance(id, str):
      id = int(id) if _REC_NUM.fullmatch(id) else 0
    return (id - 1, 1) if 1 <= id <= self.count else None


@dataclasses.dataclass(frozen=True)
class Parser:
  """Parses the lines of a file. Picklable.

  Attributes:
    name: of the file, for messages.
    ids: which pictures there are.
  """

  name: str
  ids: CocoIds | Cc3mIds

  def parse(self, text: bytes, first: int, problems: Problems) -> tuple[list[CaptionRow], int]:
    """Returns the captions of whole lines, and the number of lines.

    English is returned once for each (picture, number): from the first line in which it can be used.

    Args:
      text: lines with their ends; the last may have none.
      first: number of the first line.
      problems: takes what is wrong; a line that is left out is counted under one kind.
    """
    decoder = msgspec.json.Decoder(self.ids.line_type)
    rows: list[CaptionRow] = []
    english: dict[tuple[int, int], CaptionRow | None] = {}
    places: dict[int | str, tuple[int, int] | None] = {}
    count = 0
    for count, line in enumerate(io.BytesIO(text), 1):
      number = first + count - 1
      if number == 1 and line.startswith(_BOM):
        problems.add("bom", self._where(number))
        line = line[len(_BOM) :]
      if line.endswith(b"\r\n"):
        problems.add("crlf", self._where(number))
      line = line.strip(b" \t\r\n")
      if not line:
        continue
      try:
        row = decoder.decode(line)
      except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problems.add(_kind(line, error), self._where(number), str(error))
        continue
      if row.id not in places:
        places[row.id] = self.ids.find(row.id)
      found = places[row.id]
      language = _TARGETS.get(row.trg_lang)
      if language is None:
        problems.add("unknown_language", self._where(number), repr(row.trg_lang)[:40])
      elif found is None:
        problems.add("unknown_id", self._where(number), repr(row.id)[:40])
      elif translation := self._usable(row.translation_tokenized, number, problems):
        rows.append(CaptionRow(*found, language, MT, number, translation))
      if found is not None and english.get(found) is None:
        # Where the first is bad that is counted; the lines of the other languages repeat it.
        known = problems if found not in english else Problems()
        original = self._usable(row.caption_tokenized, number, known)
        english[found] = CaptionRow(*found, ENGLISH, HUMAN, number, original) if original else None
    rows += [row for row in english.values() if row is not None]
    return rows, count

  def _where(self, number: int) -> str:
    return f"{self.name}, line {number:,}"

  def _usable(self, text: str, number: int, problems: Problems) -> str:
    # Most captions are seen to be right at once; one with U+200C, as Persian has it, is looked at again.
    if text.isprintable() and len(text) <= _SHORT and text.strip():
      return text
    return mended(text, self._where(number), problems)


def mended(text: str, where: str, problems: Problems) -> str:
  """A caption as it can be used, "" if it cannot: no control characters, not too long, something to be seen.

  Line ends and tabs become spaces; other control characters are taken out.
  """
  if not any(unicodedata.category(char)[0] not in "CZ" for char in text):
    problems.add("empty_caption", where)
    return ""
  if len(text) > _SHORT and len(text.encode("utf-8", "replace")) > MAX_CAPTION_BYTES:
    problems.add("long_caption", where, f"{len(text):,} characters")
    return ""
  if _CONTROLS.search(text):
    problems.add("control_characters", where, ascii(_CONTROLS.search(text)[0]))
    text = _CONTROLS.sub("", _SPACES.sub(" ", text))
  return text


def _kind(line: bytes, error: Exception) -> str:
  """The kind of problem of a line that cannot be decoded."""
  try:
    line.decode()
  except UnicodeDecodeError:
    return "bad_utf8"
  if isinstance(error, msgspec.ValidationError):
    return "missing_field" if line.startswith(b"{") else "not_json"
  return "cut_line" if line.startswith(b"{") and "truncated" in str(error) else "not_json"
