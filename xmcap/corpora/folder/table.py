"""What the columns of a source were recognised as: roles, languages and reasons, and the table for the user."""

import dataclasses
import itertools
import pathlib
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xmcap import languages
from xmcap.corpora.folder import kinds
from xmcap.corpora.folder.kinds import ColumnProfile
from xmcap.reading import columns
from xmcap.reading.columns import ColumnNames, bare_of, language_in
from xmcap.terminal import shown

PICTURE, KEY, CAPTION, LANGUAGE, SPLIT, IGNORED = "picture", "key", "caption", "language", "split", "ignored"
ADDRESS, SOURCE = "address", "source"

PICTURES = (
  *columns.FILE_NAMES, "file_names", "images", "photos", "pictures", *map(str.lower, columns.KEYS), "id",
  "image_url", "image_urls", "img_url", "url",
)  # fmt: skip
"""Usual names of the column with the image or its name; of several the first counts."""

ADDRESSES = PICTURES[-4:]
"""Usual names of the column with the URL of the image, which finds what img2dataset fetched."""

TURNS = ("conversations", "messages")
"""Usual names of columns with conversations, which may hold one caption."""

CAPTIONS = (
  "caption", "captions", *columns.TEXTS, "sentences", "sentences_raw", "annotations_captions", *columns.OUTPUTS, *TURNS,
)  # fmt: skip
"""Usual names of columns with captions; of several the first counts."""
BESIDE = {"comment": "comment_number", "raw": "sentids"}
"""Names of columns with captions that are usual only beside another: those of the two tables of Flickr30k."""

FILE_LANGUAGE = "the file's name"
"""In the place of a column: the language in the name of each file."""
LANGUAGES = (*columns.LANGUAGES, FILE_LANGUAGE)
KEYS = (*map(str.lower, columns.KEYS), "__key__", "id", "index")

_COPY = re.compile(r"[_/](tokenized|lowercase)$|^(reference_strs|reference_tokens|caption_tokens)$")
OFTEN_OTHER = ("id", "no", "in")
"""Codes that as a header are more often an identifier, a number or a word than a language."""

MOST_COLUMNS = 10_000
"""Fields of JSON beyond so many are ignored."""

OBJECTS = "each by its language"
"""Why a column is one of captions if its cells say the languages."""

_WIDTH = 100  # of a printed line


class Placed(NamedTuple):
  """The place of a line, row or sample, for messages, its fields, and where it was read if the reader needs that."""

  where: str
  fields: dict[str, Any]
  origin: Any = None


@dataclasses.dataclass(frozen=True)
class SourceFile:
  """A file of captions, or a folder with texts beside its images.

  Attributes:
    path: the file.
    name: its path below the folder of all files, for messages, and for images beside it.
    language: the language that its name says; "": none, or the user says another.
    lists: the lists of pictures among the files, which the lines of texts without keys follow.
  """

  path: pathlib.Path
  name: str
  language: str = ""
  lists: tuple[pathlib.Path, ...] = ()

  @property
  def fields(self) -> Mapping[str, str]:
    """The field with the language of the name, which every row of the file has."""
    return {FILE_LANGUAGE: self.language} if self.language else {}


@dataclasses.dataclass(frozen=True)
class ColumnRole:
  """What a column was recognised as.

  Attributes:
    name: its name in the source.
    role: PICTURE, ADDRESS, KEY, CAPTION, LANGUAGE, SPLIT, SOURCE or IGNORED.
    language: code of its captions; "": the row says it.
    why: the reason, for the user.
    missed: whether it looks like captions and is ignored.
    is_open: whether the sample has no value of it, so that the first value decides.
  """

  name: str
  role: str
  language: str = ""
  why: str = ""
  missed: bool = False
  is_open: bool = False


class TableRoles:
  """The columns of a source, as they were recognised.

  Attributes:
    source: the name of the source, for messages.
    asked: what the user asked for.
    columns: the columns of the sample, in their order.
    image, address, split, language, key, written_by: names of the columns of these roles, or "".
  """

  def __init__(self, source: str, asked: ColumnNames, columns: Iterable[ColumnRole]):
    self.source, self.asked = source, asked
    self.columns = {column.name: column for column in columns}
    self.image, self.address, self.split, self.language, self.key, self.written_by = (
      next((column.name for column in self.columns.values() if column.role == role), "")
      for role in (PICTURE, ADDRESS, SPLIT, LANGUAGE, KEY, SOURCE)
    )

  @property
  def captions(self) -> list[ColumnRole]:
    """The columns with captions."""
    return [column for column in self.columns.values() if column.role == CAPTION]

  @property
  def missed(self) -> list[ColumnRole]:
    """The columns that look like captions and are ignored."""
    return [column for column in self.columns.values() if column.missed]

  def captions_of(self, fields: Mapping[str, Any]) -> Iterator[ColumnRole]:
    """Yields the columns with captions that a row has, and decides about columns that no row had before."""
    for name in fields:
      column = self.columns.get(name)
      if column is None or column.is_open:
        column = self._late(name, fields[name])
      if column is not None and column.role == CAPTION:
        yield column

  def lacks(self) -> str:
    """Returns why no row can be used: the columns, what was wanted, and the option that mends it; "" if some can."""
    may_come = any(column.is_open and language_in(column.name) for column in self.columns.values())
    if not self.columns or (self.image and (self.captions or may_come)):
      return ""
    begin = f"{self.source}: none of its lines can be used"
    if not self.image:
      advice = f"one such as {', '.join(PICTURES[:4])}: give --image_column=NAME"
      return f"{begin}: no column names the picture; {_listed(self)}: wanted is {advice}"
    advice = f"{CAPTIONS[0]}, {CAPTIONS[2]}, or a language such as en, Thai or caption_en"
    option = f"give {self.option_for_all() if self.missed else '--caption_columns=NAME or LANGUAGE=NAME'}"
    return f"{begin}: no column with captions; {_listed(self)}: wanted is {advice}: {option}"

  def lines(self) -> list[str]:
    """Returns the table for the user, a line per column: name, role with language, reason."""
    rows = [
      (shown(column.name or "(no name)", 32), f"{column.role} {column.language}".strip(), column.why)
      for column in self.columns.values()
    ]
    widths = [max((len(row[place]) for row in rows), default=0) for place in (0, 1)]
    lines = [f"  {name:<{widths[0]}}  {role:<{widths[1]}}  {why}".rstrip() for name, role, why in rows]
    return [
      f"columns of {shown(posixpath.basename(self.source), 80)}:",
      *(shown(line, _WIDTH) for line in lines),
      *([f"to read all captions: {self.option_for_all()}"] if self.missed else []),
    ]

  def option_for_all(self) -> str:
    """Returns the option that reads the columns with captions and those that look like captions."""
    says_language = self.language or self.asked.default_language
    elements = [
      column.name
      if not column.language and (says_language or OBJECTS in column.why)
      else f"{column.language or 'LANGUAGE'}={column.name}"
      for column in (*self.captions, *self.missed)
    ]
    return f"--caption_columns={shlex.quote(shown(','.join(elements), None))}"

  def as_json(self) -> dict[str, Any]:
    """Returns the table for the JSON file of a corpus."""
    return {
      name: {"role": column.role, "language": column.language, "why": column.why}
      for name, column in self.columns.items()
    }

  def _late(self, name: str, value: Any) -> ColumnRole | None:
    profile = ColumnProfile()
    profile.add(value)
    if not profile.count or (name not in self.columns and len(self.columns) >= MOST_COLUMNS):
      return None
    is_wide = not (self.asked.captions or self.language)
    column = of_language(name, profile, self.captions) if is_wide else None
    self.columns[name] = column or other(name, profile, not is_wide)
    return self.columns[name]


def of_language(name: str, profile: ColumnProfile, others: Sequence[ColumnRole]) -> ColumnRole | None:
  """Returns a column whose name says a language, if its values are captions; else None.

  `id` is read as Indonesian if its values are of several words, or stand beside captions in `others`.
  """
  language = language_in(name) or (languages.canonical(name) or "" if profile.released else "")
  if not language or not profile.are_words:
    return None
  beside = any(column.language for column in others)
  if name.strip().lower() in OFTEN_OTHER and not (profile.are_phrases or beside):
    return None
  why = f"{languages.get(language).english_name}, by its name"
  if (base := languages.variety_base(language)) is not None and language not in languages.LANGUAGES:
    why += f"; --caption_columns={base}={shown(name, 20)} reads it as {base}"
  return ColumnRole(name, CAPTION, language, why)


def other(name: str, profile: ColumnProfile, chosen: bool = False) -> ColumnRole:
  """Returns a column that is ignored; `chosen` if the user listed the columns with captions."""
  bare = bare_of(name)
  language = language_in(name) or (languages.canonical(bare) or "" if bare else "")
  if _COPY.search(name):
    return ColumnRole(name, IGNORED, why="captions in another form")
  if profile.are_like_captions or (language and profile.are_words and (profile.are_phrases or bare != name)):
    return ColumnRole(name, IGNORED, language_in(name), "looks like captions", missed=not chosen)
  if not profile.count:
    return ColumnRole(name, IGNORED, why="no value in the first rows: the first one decides", is_open=True)
  return ColumnRole(
    name, IGNORED, why=profile.most if profile.most != kinds.WORDS else "words, under no usual name"
  )


def _listed(table: TableRoles) -> str:
  """Returns the columns with what they hold, for a message."""
  return "there are " + ", ".join(
    f"'{shown(column.name, 32)}'"
    + (f" ({column.why or column.role})" if column.role == IGNORED and column.why else "")
    for column in itertools.islice(table.columns.values(), 12)
  )
