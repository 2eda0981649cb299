"""Decides once for a whole source what each of its columns is, by the names of the columns and a sample of values.

A column is used for what it was recognised as, and no row is read in another way: the decision is printed before the
build. A field that only later rows of JSON have is decided by the first of its values.
"""

import dataclasses
import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xmcap import languages
from xmcap.data.corpora.folder import kinds
from xmcap.data.corpora.folder.kinds import Profile
from xmcap.errors import UsageError
from xmcap.terminal import shown

PICTURE, KEY, CAPTION, LANGUAGE, SPLIT, IGNORED = "picture", "key", "caption", "language", "split", "ignored"

PICTURES = (
  *(
    "image",
    "image_path",
    "file_name",
    "filename",
    "file",
    "path",
    "filepath",
    "file_path",
    "img",
    "img_path",
  ),
  *(
    "image_name",
    "image_file",
    "image_file_name",
    "file_names",
    "images",
    "photo",
    "photos",
    "picture",
    "pictures",
  ),
  *("image/key", "key", "image_id", "id", "image_url", "img_url", "url"),
)
"""Usual names of the column with the picture or its name; of several the first counts."""

CAPTIONS = (
  *("caption", "captions", "text", "texts", "sentence", "sentences", "description", "translation"),
  *("conversations", "messages"),
)
LANGUAGES = ("language", "lang", "language_code")
KEYS = ("key", "__key__", "image_id", "id")

_PREFIX = re.compile(
  r"^(captions?|texts?|descriptions?)[ _:/.-]+|[ _:/.-]+(captions?|texts?|descriptions?)$", re.IGNORECASE
)
_OFTEN_OTHER = ("id", "no", "in")
"""Codes that as a header are more often an identifier, a number or a word than a language."""

_SAMPLE_ROWS = 200
_SAMPLE_BYTES = 8 << 20  # embedded pictures are large
_MOST_COLUMNS = 10_000
_WIDTH = 100  # of a printed line


class Placed(NamedTuple):
  """The place of a line, row or sample, for messages, its fields, and where it was read if the reader needs that."""

  where: str
  fields: dict[str, Any]
  origin: Any = None


@dataclasses.dataclass(frozen=True)
class Columns:
  """Names of columns that the user asked for; "" and () mean the usual names.

  Attributes:
    captions: columns with captions, `NAME`, or `LANGUAGE=NAME` for a column in one language.
    default_language: language of captions that do not name one.
  """

  image: str = ""
  captions: tuple[str, ...] = ()
  language: str = ""
  split: str = ""
  default_language: str = ""


@dataclasses.dataclass(frozen=True)
class Column:
  """What a column was recognised as.

  Attributes:
    name: its name in the source.
    role: PICTURE, KEY, CAPTION, LANGUAGE, SPLIT or IGNORED.
    language: code of its captions; "": the row says it.
    why: the reason, for the user.
    missed: whether it looks like captions and is ignored.
  """

  name: str
  role: str
  language: str = ""
  why: str = ""
  missed: bool = False


class Table:
  """The columns of a source, as they were recognised.

  Attributes:
    source: the name of the source, for messages.
    asked: what the user asked for.
    columns: the columns of the sample, in their order.
    picture, split, language, key: names of the columns of these roles, or "".
  """

  def __init__(self, source: str, asked: Columns, columns: Iterable[Column]):
    self.source, self.asked = source, asked
    self.columns = {column.name: column for column in columns}
    self.picture, self.split, self.language, self.key = (
      next((column.name for column in self.columns.values() if column.role == role), "")
      for role in (PICTURE, SPLIT, LANGUAGE, KEY)
    )

  @property
  def captions(self) -> list[Column]:
    """The columns with captions."""
    return [column for column in self.columns.values() if column.role == CAPTION]

  @property
  def missed(self) -> list[Column]:
    """The columns that look like captions and are ignored."""
    return [column for column in self.columns.values() if column.missed]

  def captions_of(self, fields: Mapping[str, Any]) -> Iterator[Column]:
    """Yields the columns with captions that a row has, and decides about columns that no row had before."""
    for name in fields:
      column = self.columns.get(name) or self._late(name, fields[name])
      if column is not None and column.role == CAPTION:
        yield column

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
    ]

  def as_json(self) -> dict[str, Any]:
    """Returns the table for the JSON file of a corpus."""
    return {
      name: {"role": column.role, "language": column.language, "why": column.why}
      for name, column in self.columns.items()
    }

  def _late(self, name: str, value: Any) -> Column | None:
    profile = Profile()
    profile.add(value)
    if not profile.count or len(self.columns) >= _MOST_COLUMNS:
      return None
    is_wide = not (self.asked.captions or self.language)
    column = _of_language(name, profile, self.captions) if is_wide else None
    return self.columns.setdefault(name, column or _other(name, profile, not is_wide))


def recognise(
  rows: Iterable[Placed], columns: Columns, source: str, *, picture: str = "", keyed: bool = False
) -> tuple[Table, Iterator[Placed]]:
  """Reads a sample of rows and decides; returns the table and all rows, from the first.

  The sample is bounded in rows and in bytes, so memory is constant, and the same rows give the same table.

  Args:
    rows: those of all files of the source, in order.
    columns: what the user asked for.
    source: name of the source, for messages.
    picture: the column with the picture where the format says it (WebDataset).
    keyed: whether a column may give the keys of embedded pictures.

  Raises:
    UsageError: an asked column does not exist; there is no column with pictures, or several; there is no column with
      captions. The message has the columns and the option that mends it.
  """
  rows = iter(rows)
  held: list[Placed] = []
  size = 0
  for row in itertools.islice(rows, _SAMPLE_ROWS):
    held.append(row)
    size += sum(map(_size, row.fields.values()))
    if size > _SAMPLE_BYTES:
      break
  profiles: dict[str, Profile] = {}
  for row in held:
    for name, value in itertools.islice(row.fields.items(), _MOST_COLUMNS):
      profiles.setdefault(name, Profile()).add(value)
  where = held[0].where if held else source
  return decide(profiles, columns, source, where, picture=picture, keyed=keyed), itertools.chain(held, rows)


def decide(
  profiles: Mapping[str, Profile],
  columns: Columns,
  source: str,
  where: str = "",
  *,
  picture: str = "",
  keyed: bool = False,
) -> Table:
  """Returns the table for columns of these names and values, as `recognise`; `where`: place of the first row."""
  roles: dict[str, Column] = {}
  found = {str(name).strip().casefold(): name for name in reversed(list(profiles))}
  named = _Names(profiles, found, where or source)
  split = named.asked(columns.split)
  if split:
    roles[split] = Column(split, SPLIT, why="--splits=column:")
  image = picture or named.asked(columns.image)
  why = "--image_column" if columns.image else "the sample's picture"
  if not image and profiles:
    image, why = _picture(named, source)
  if image:
    roles[image] = Column(image, PICTURE, why=why)
  language = named.asked(columns.language)
  why = "--language_column" if language else "usual name"
  language = language or next((name for name in named.usual(LANGUAGES) if name not in roles), "")
  if columns.captions:
    for given in columns.captions:
      code, name = _asked_caption(given, named)
      roles[name] = Column(name, CAPTION, code, "--caption_columns")
  else:
    roles |= _captions(profiles, named, roles, language, columns.default_language)
  if language and language not in roles:
    roles[language] = Column(language, LANGUAGE, why=why)
  if keyed and (key := next((name for name in named.usual(KEYS) if name not in roles), "")):
    roles[key] = Column(key, KEY, why="usual name")
  table = Table(
    source,
    columns,
    [roles.get(name) or _other(name, profile, bool(columns.captions)) for name, profile in profiles.items()],
  )
  if profiles and not table.captions:
    raise UsageError(
      f"{source}: none of its lines can be used: no column with captions; {_listed(table)}: wanted is {CAPTIONS[0]}, "
      f"{CAPTIONS[2]}, or a language such as en, Thai or caption_en: give --caption_columns=NAME or LANGUAGE=NAME"
    )
  return table


@dataclasses.dataclass(frozen=True)
class _Names:
  """The columns of a source by name, whatever its case: `found` has the names in lower case."""

  profiles: Mapping[str, Profile]
  found: Mapping[str, str]
  where: str

  def asked(self, name: str) -> str:
    """Returns the column of a name; UsageError if there is none."""
    if not name or name in self.profiles:
      return name
    if name.strip().casefold() in self.found:
      return self.found[name.strip().casefold()]
    if not self.profiles:
      return name
    there = shown(", ".join(map(str, self.profiles)))
    raise UsageError(f"{self.where}: no column '{shown(name)}'; there are {there}")

  def usual(self, names: Sequence[str]) -> list[str]:
    """Returns the columns that have one of these names, in the order of the names."""
    return [self.found[name] for name in names if name in self.found]


def _picture(named: _Names, source: str) -> tuple[str, str]:
  """Returns the column with pictures, and why; UsageError if there is none, or several may be meant."""
  profiles, usual = named.profiles, named.usual(PICTURES)
  for kind in (kinds.EMBEDDED, kinds.PICTURE_FILES):
    of_kind = [name for name, profile in profiles.items() if profile.kinds[kind] and profile.most == kind]
    known = [name for name in usual if name in of_kind]
    if known and (known[0].lower() == "image" or len(known) == 1 or _are_alike(known, profiles)):
      others = f", and not {shown(', '.join(name for name in of_kind if name != known[0]), 40)}"
      return known[0], f"usual name, {kind}" + (others if len(of_kind) > 1 else "")
    if known or (of_kind and (kind == kinds.EMBEDDED or not usual)):
      if len(of_kind) == 1:
        return of_kind[0], f"the only column of {kind}"
      several = shown(", ".join(known if len(known) > 1 else of_kind))
      raise UsageError(
        f"{source}: several columns have {kind} ({several}): choose one with --image_column={shown(of_kind[0])}"
      )
  if usual:
    return usual[0], f"usual name, {profiles[usual[0]].most or 'no value yet'}"
  there = shown(", ".join(f"'{name}'" for name in profiles))
  raise UsageError(
    f"{source}: none of its lines can be used: no column names the picture; there are {there}: wanted is one such as "
    f"{', '.join(PICTURES[:4])}: give --image_column=NAME"
  )


def _are_alike(names: Sequence[str], profiles: Mapping[str, Profile]) -> bool:
  """Whether columns with names of pictures mean the same pictures."""
  return all(profiles[name].names and profiles[name].names == profiles[names[0]].names for name in names)


def _asked_caption(given: str, named: _Names) -> tuple[str, str]:
  """Returns code and column of an element of --caption_columns; the code is "" if nothing says the language."""
  written, equals, name = given.partition("=")
  if not equals:
    return _language_in(given) or languages.canonical(given) or "", named.asked(given)
  code = languages.named(written) or languages.canonical(written) or languages.get(written.strip()).code
  return code, named.asked(name)


def _captions(
  profiles: Mapping[str, Profile], named: _Names, roles: Mapping[str, Column], language: str, default: str
) -> dict[str, Column]:
  """Returns the columns with captions by their usual names and by languages."""
  free = {name: profile for name, profile in profiles.items() if name not in roles and name != language}
  chosen: dict[str, Column] = {}
  # `comment` is Flickr30k's; elsewhere it may be anybody's remark.
  usual = (*CAPTIONS, "comment") if named.usual(("comment_number",)) else CAPTIONS
  for name in named.usual(usual):
    profile = free.get(name)
    if profile is None or not (profile.are_words or profile.turns or not profile.count):
      continue
    says = "each by its language" if profile.by_language else f"language in '{language}'" if language else ""
    says = says or (f"--language={default}" if default else "")
    chosen[name] = Column(
      name,
      CAPTION,
      why=", ".join(filter(None, ("usual name", "the model's answer" if profile.turns else "", says))),
    )
    break
  if chosen and language:
    return chosen
  of_languages = {
    name: profile for name, profile in free.items() if name not in chosen and _language_in(name)
  }
  sure: list[Column] = []
  for doubtful in (False, True):
    for name, profile in of_languages.items():
      if (name.strip().lower() in _OFTEN_OTHER) == doubtful and profile.count:
        column = _of_language(name, profile, sure)
        if column is not None:
          chosen[name] = column
          sure.append(column)
  return chosen


def _of_language(name: str, profile: Profile, others: Sequence[Column]) -> Column | None:
  """Returns a column whose name says a language, if its values are captions; else None.

  `id` is read as Indonesian if its values are of several words, or stand beside captions in `others`.
  """
  code = _language_in(name) or (languages.canonical(name) or "" if profile.released else "")
  if not code or not profile.are_words:
    return None
  beside = any(column.language for column in others)
  if name.strip().lower() in _OFTEN_OTHER and not (profile.are_phrases or beside):
    return None
  why = f"{languages.get(code).english_name}, by its name"
  if profile.most == kinds.LOST:
    why += f"; {kinds.LOST}"
  elif (base := languages.variety_base(code)) is not None and code not in languages.LANGUAGES:
    why += f"; --caption_columns={base}={shown(name, 20)} reads it as {base}"
  return Column(name, CAPTION, code, why)


def _language_in(name: str) -> str:
  """Returns the language in the name of a column: `th` for `th`, `caption_th`, `Thai` and `Thai caption`; else ""."""
  bare = _PREFIX.sub("", str(name).strip())
  return languages.named(str(name)) or (languages.named(bare) if bare else "") or ""


def _other(name: str, profile: Profile, chosen: bool = False) -> Column:
  """Returns a column that is ignored; `chosen` if the user listed the columns with captions."""
  bare = _PREFIX.sub("", str(name).strip())
  code = _language_in(name) or (languages.canonical(bare) or "" if bare else "")
  if profile.are_like_captions or (code and profile.are_words and (profile.are_phrases or bare != name)):
    option = f"--caption_columns={code and f'{code}='}{shown(str(name), 32)}"
    return Column(name, IGNORED, why=f"looks like captions: {option}", missed=not chosen)
  if not profile.count:
    return Column(name, IGNORED, why="no values in the first rows")
  return Column(name, IGNORED, why=profile.most if profile.most != kinds.WORDS else "words, under no usual name")


def _listed(table: Table) -> str:
  """Returns the columns with what they hold, for a message."""
  return "there are " + ", ".join(
    f"'{shown(column.name, 32)}'"
    + (f" ({column.why or column.role})" if column.role == IGNORED and column.why else "")
    for column in itertools.islice(table.columns.values(), 12)
  )


def _size(value: Any) -> int:
  if isinstance(value, Mapping):
    return sum(map(_size, value.values()))
  return len(value) if isinstance(value, str | bytes | list) else 8
