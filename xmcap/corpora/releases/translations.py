"""Parses and checks lines of captions of COCO-35L and CC3M-35L.

A line is a JSON object with an id (`image_id` or `rec_num`), `trg_lang`, `caption_tokenized` (English, the same in the
lines of all languages) and `translation_tokenized`; other fields are ignored. The released files have 34 languages;
one's own may have any, by its BCP-47 tag.
"""

import abc
import dataclasses
import functools
import io
import re
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from xmcap import languages
from xmcap.corpora.building import line_check
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.building.spill import CaptionRow
from xmcap.data.records import SOURCES

ENGLISH = "en"
HUMAN, MT = SOURCES.index("human"), SOURCES.index("mt")
LEFT_OUT = -1
"""The position of images that are left out on purpose, with their captions."""

_MAX_NUMBER = 255

_COCO_ID = re.compile(r"([0-9]{1,15})_([0-9]{1,3})")
_REC_NUM = re.compile(r"[0-9]{1,18}")


class _CocoLine(msgspec.Struct, gc=False):  # pyright: ignore[reportCallIssue, reportGeneralTypeIssues]
  trg_lang: str
  caption_tokenized: str
  translation_tokenized: str
  id: str = msgspec.field(name="image_id")


class _Cc3mLine(msgspec.Struct, gc=False):  # pyright: ignore[reportCallIssue, reportGeneralTypeIssues]
  trg_lang: str
  caption_tokenized: str
  translation_tokenized: str
  id: int | str = msgspec.field(name="rec_num")


@functools.lru_cache(maxsize=4096)
def _target(name: str) -> tuple[str | None, str]:
  """Returns the language of a translation; or None, and why it is none."""
  if name == ENGLISH:  # it would duplicate the original
    return None, "English is in caption_tokenized"
  return (name, "") if languages.is_known(name) else (None, languages.unknown(name).partition(" The 36")[0])


@dataclasses.dataclass(frozen=True)
class TranslationParser(abc.ABC):
  """Parses the lines of the file `name`, as a `spill.Parse`."""

  name: str
  LINE: ClassVar[type[_CocoLine | _Cc3mLine]]

  @abc.abstractmethod
  def find(self, id: int | str) -> tuple[int, int] | None:
    """Returns the position of the image and the number of the caption; None if the release has no such image."""

  def __call__(self, text: bytes, first: int, problems: Problems) -> tuple[list[CaptionRow], int]:
    """Returns the captions of whole lines, and the number of lines; each skipped line is a problem.

    English is returned once for each (image, number), from the first line where it is usable.
    """
    decoder = msgspec.json.Decoder(self.LINE)
    rows: list[CaptionRow] = []
    english: dict[tuple[int, int], CaptionRow | None] = {}
    places: dict[int | str, tuple[int, int] | None] = {}
    lines = enumerate(io.BytesIO(text), first)
    for number, where, line in line_check.filled(lines, self.name, problems):
      try:
        row = decoder.decode(line)
      except msgspec.ValidationError as error:
        is_object = line.startswith(b"{")
        problems.add("missing_field" if is_object else "not_json", where, str(error))
        continue
      except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problems.add(line_check.kind_of(line), where, str(error))
        continue
      if row.id not in places:
        places[row.id] = self.find(row.id)
      place = places[row.id]
      language, why = _target(row.trg_lang)
      if language is None:
        problems.add("unknown_language", where, why)
      elif place is None:
        problems.add("unknown_id", where, repr(row.id)[:40])
      if place is None or place[0] == LEFT_OUT:
        continue
      if language is not None and (caption := line_check.usable(row.translation_tokenized, where, problems)):
        rows.append(CaptionRow(*place, language, MT, number, caption))
      if english.get(place) is None:
        # Only the first bad occurrence counts as a problem, because the lines of other languages repeat it.
        counted = problems if place not in english else Problems()
        original = line_check.usable(row.caption_tokenized, where, counted)
        english[place] = CaptionRow(*place, ENGLISH, HUMAN, number, original) if original else None
    rows += [row for row in english.values() if row is not None]
    return rows, text.count(b"\n") + bool(text and not text.endswith(b"\n"))


@dataclasses.dataclass(frozen=True)
class CocoParser(TranslationParser):
  """Finds `<coco id>_<N>`; `positions` maps the COCO id to the image's position, or `LEFT_OUT`."""

  positions: Mapping[int, int]
  LINE = _CocoLine

  def find(self, id: int | str) -> tuple[int, int] | None:
    match = _COCO_ID.fullmatch(str(id))
    if match is None or int(match[1]) not in self.positions or int(match[2]) > _MAX_NUMBER:
      return None
    return self.positions[int(match[1])], int(match[2])


@dataclasses.dataclass(frozen=True)
class Cc3mParser(TranslationParser):
  """Finds `rec_num`, which numbers the `count` lines of the TSV from 1; each has one caption, number 1."""

  count: int
  LINE = _Cc3mLine

  def find(self, id: int | str) -> tuple[int, int] | None:
    if isinstance(id, str):
      id = int(id) if _REC_NUM.fullmatch(id) else 0
    return (id - 1, 1) if 1 <= id <= self.count else None
