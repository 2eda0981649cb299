"""Lines of COCO-35L and CC3M-35L -> captions: parsed and checked, a batch of lines at a time.

A line is a JSON object: an id (`image_id` or `rec_num`), `trg_lang`, `caption_tokenized` (English, the same in the
lines of all languages) and `translation_tokenized`; what else it holds is passed over unread.
"""

import dataclasses
import unicodedata
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import regex

from xmcap import languages
from xmcap.data.corpora.problems import MAX_CAPTION_BYTES, Problems
from xmcap.storage import strict_json

LANGUAGE_NUMBERS = {code: number for number, code in enumerate(languages.LANGUAGES)}
ENGLISH = LANGUAGE_NUMBERS["en"]
# What captions are translated into; a translation into English would stand beside the original.
_TARGETS = {code: number for code, number in LANGUAGE_NUMBERS.items() if code != "en"}
HUMAN, MT = 0, 1  # as in records.SOURCES
MAX_NUMBER = 255

_CONTROLS = regex.compile(r"\p{Cc}")
_CRLF = regex.compile(rb"\r(?=\n|\Z)")
_SPACES = regex.compile(r"[\t\n\v\f\r\x85]")
_FEW = MAX_CAPTION_BYTES // 4  # so many characters are never too many bytes
_BOM = b"\xef\xbb\xbf"
_IDENTIFIER = regex.compile(r"(\d{1,15})_(\d{1,3})")

Identify = Callable[[Sequence], tuple[np.ndarray, np.ndarray]]
"""Ids as they stand in the lines -> int64 [N] pictures (-1: unknown) and int64 [N] caption numbers."""


class _CocoLine(msgspec.Struct, gc=False):
  """A line of COCO-35L."""

  image_id: str
  trg_lang: str
  caption_tokenized: str
  translation_tokenized: str


class _Cc3mLine(msgspec.Struct, gc=False):
  """A line of CC3M-35L."""

  rec_num: int | str
  trg_lang: str
  caption_tokenized: str
  translation_tokenized: str


@dataclasses.dataclass
class Captions:
  """Captions in columns, N of them.

  Attributes:
    pictures: int64 [N], positions in the list of pictures.
    numbers: int64 [N], which caption of the picture.
    languages: int64 [N], positions in the table of languages.
    sources: int64 [N], HUMAN or MT.
    lines: int64 [N], the line that it stands in, from 1 in what was parsed.
    texts: N strings.
  """

  pictures: np.ndarray
  numbers: np.ndarray
  languages: np.ndarray
  sources: np.ndarray
  lines: np.ndarray
  texts: list[str]


@dataclasses.dataclass(frozen=True)
class CocoIds:
  """`<coco id>_<N>` -> pictures in the order of `cocoids`, int64 [pictures]. Picklable."""

  cocoids: np.ndarray
  field: str = "image_id"

  def __post_init__(self):
    object.__setattr__(self, "_order", np.argsort(self.cocoids, kind="stable"))
    object.__setattr__(self, "_sorted", self.cocoids[self._order])

  def __call__(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """As `Identify` says."""
    try:
      pairs = np.fromstring(",".join(ids).replace("_", ","), np.int64, sep=",")
      if pairs.size != 2 * len(ids) or any(id.count("_") != 1 for id in ids):
        raise ValueError("not pairs")
    except ValueError:
      found = [_IDENTIFIER.fullmatch(id) for id in ids]
      pairs = np.array(
        [[int(part) for part in match.groups()] if match else (-1, 0) for match in found], np.int64
      )
    cocoids, numbers = pairs.reshape(-1, 2).T
    places = np.minimum(np.searchsorted(self._sorted, cocoids), len(self._sorted) - 1)
    known = (self._sorted[places] == cocoids) & (numbers >= 0) & (numbers <= MAX_NUMBER)
    return np.where(known, self._order[places], -1), numbers


@dataclasses.dataclass(frozen=True)
class Cc3mIds:
  """`rec_num`, which counts the lines of the TSV from 1 -> pictures in the order of the TSV. Picklable."""

  count: int
  field: str = "rec_num"

  def __call__(self, ids: Sequence[int | str]) -> tuple[np.ndarray, np.ndarray]:
    """As `Identify` says; there is one caption a picture."""
    numbers = np.array([_small(id) for id in ids], np.int64)
    return np.where((numbers >= 1) & (numbers <= self.count), numbers - 1, -1), np.ones_like(numbers)


class Parser:
  """Parses batches of lines. Picklable.

  Args:
    ids: how pictures are known; its `field` says which lines are read.
  """

  def __init__(self, ids: CocoIds | Cc3mIds):
    self.ids = ids
    self._struct = _CocoLine if ids.field == "image_id" else _Cc3mLine
    self._decoder = msgspec.json.Decoder(self._struct)

  def __reduce__(self):
    return Parser, (self.ids,)

  def parse(
    self,
    batch: bytes,
    first: int,
    where: Callable[[int], str],
    problems: Problems,
    is_start: bool = False,
  ) -> tuple[Captions, int]:
    """Parses whole lines.

    Args:
      batch: lines with their ends; the last may have none.
      first: the number of its first line.
      where: line number -> the words by which problems name it.
      problems: takes what is wrong; a line that is left out is counted under one kind.
      is_start: whether it begins the file: a byte order mark may stand there.

    Returns:
      The captions of the lines in their order, then the English ones, each (picture, number) once; and the number
      of lines.
    """
    characters = np.frombuffer(batch, np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    count = len(ends) + (not batch.endswith(b"\n") and bool(batch))
    if is_start and batch.startswith(_BOM):
      problems.add("bom", where(first))
      batch = batch[len(_BOM) :]
    if b"\r" in batch:
      self._count_crlf(batch, first, where, problems)
    try:
      rows = self._decoder.decode_lines(batch)
      # As many objects as lines, and each line begins one: else two may share a line, and another be blank.
      after = characters[ends[: len(ends) - batch.endswith(b"\n")] + 1]
      begun = np.count_nonzero(after == ord("{")) + batch.startswith(b"{")
      lines = None if len(rows) == count == begun else ()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
      lines = ()
    if lines is None:
      lines = np.arange(first, first + count)
    else:
      rows, lines = self._one_by_one(batch, first, where, problems)
    return self._captions(rows, lines, where, problems), count

  def _count_crlf(self, batch: bytes, first: int, where: Callable[[int], str], problems: Problems) -> None:
    number, counted = first, 0
    for found in _CRLF.finditer(batch):
      number += batch.count(b"\n", counted, found.start())
      counted = found.start()
      problems.add("crlf", where(number))

  def _one_by_one(
    self, batch: bytes, first: int, where: Callable[[int], str], problems: Problems
  ) -> tuple[list, np.ndarray]:
    """Lines of a batch of which not all are right: the good ones and their numbers; the others are counted."""
    rows, lines = [], []
    for number, line in strict_json.filled_lines(batch, first - 1):
      line = line.strip(b" \t\r")
      try:
        rows.append(self._decoder.decode(line))
        lines.append(number)
      except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        problems.add(_kind(line, error), where(number), str(error))
    return rows, np.array(lines, np.int64)

  def _captions(
    self, rows: list, lines: np.ndarray, where: Callable[[int], str], problems: Problems
  ) -> Captions:
    field = self.ids.field
    ids = [getattr(row, field) for row in rows]
    pictures, numbers = self.ids(ids)
    codes = np.array([_TARGETS.get(row.trg_lang, -1) for row in rows], np.int64)
    texts = [row.translation_tokenized for row in rows]
    keep = (codes >= 0) & (pictures >= 0)
    for place in np.flatnonzero(~keep):
      if codes[place] < 0:
        problems.add("unknown_language", where(lines[place]), repr(rows[place].trg_lang)[:40])
      else:
        problems.add("unknown_id", where(lines[place]), repr(ids[place])[:40])
    for place, text in enumerate(texts):
      # Most captions are seen to be right at once; \u200c of Persian, for one, is looked at again.
      if not (text.isprintable() and len(text) <= _FEW and text.strip()) and keep[place]:
        texts[place] = mended(text, where(lines[place]), problems)
        keep[place] = bool(texts[place])
    english, spoken = self._english(rows, pictures, numbers, lines, where, problems)
    kept = np.flatnonzero(keep)
    if len(kept) < len(texts):
      texts = [texts[place] for place in kept]
    places = np.concatenate([kept, english])
    count = len(kept)
    return Captions(
      pictures=pictures[places],
      numbers=numbers[places],
      languages=np.concatenate([codes[kept], np.full(len(english), ENGLISH)]),
      sources=np.concatenate([np.full(count, MT), np.full(len(english), HUMAN)]),
      lines=lines[places],
      texts=texts + spoken,
    )

  def _english(
    self, rows: list, pictures: np.ndarray, numbers: np.ndarray, lines: np.ndarray, where, problems: Problems
  ) -> tuple[np.ndarray, list[str]]:
    """The first good English caption of each (picture, number): places in `rows`, and texts."""
    known = np.flatnonzero(pictures >= 0)
    keys = pictures[known] * (MAX_NUMBER + 1) + numbers[known]
    _, firsts = np.unique(keys, return_index=True)
    places, texts = [], []
    for place in np.sort(firsts):
      text = rows[known[place]].caption_tokenized
      if not (text.isprintable() and len(text) <= _FEW and text.strip()):
        text = mended(text, where(lines[known[place]]), problems)
        others = iter(np.flatnonzero(keys == keys[place])[1:])
        while not text and (other := next(others, None)) is not None:
          place, text = other, mended(rows[known[other]].caption_tokenized, "", Problems())
      if text:
        places.append(known[place])
        texts.append(text)
    return np.array(places, np.int64), texts


def mended(text: str, where: str, problems: Problems) -> str:
  """A caption as it can be used, "" if it cannot: no control characters, not too long, something to be seen.

  Line ends and tabs become spaces; other control characters are taken out.
  """
  if not any(unicodedata.category(char)[0] not in "CZ" for char in text):
    problems.add("empty_caption", where)
    return ""
  if len(text) > _FEW and len(text.encode("utf-8", "replace")) > MAX_CAPTION_BYTES:
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


def _small(id: int | str) -> int:
  """A rec_num as a number, -1 if it is none of a picture."""
  if isinstance(id, str):
    if not (id.isascii() and id.isdigit() and len(id) < 19):
      return -1
    return int(id)
  return id if 0 < id < 1 << 62 else -1
