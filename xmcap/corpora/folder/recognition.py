"""Decides once for a whole source what each of its columns is, by the names of the columns and a sample of values.

A column is used for what it was recognised as, and no row is read in another way: the decision is printed before the
build. A field that only later rows of JSON have is decided by the first of its values.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xmcap.corpora.folder import kinds
from xmcap.corpora.folder.kinds import ColumnProfile
from xmcap.corpora.folder.split_choice import COLUMNS
from xmcap.corpora.folder.table import (
  ADDRESS,
  ADDRESSES,
  BESIDE,
  CAPTION,
  CAPTIONS,
  FILE_LANGUAGE,
  KEY,
  KEYS,
  LANGUAGE,
  LANGUAGES,
  MOST_COLUMNS,
  OBJECTS,
  OFTEN_OTHER,
  PICTURE,
  PICTURES,
  SOURCE,
  SPLIT,
  TURNS,
  ColumnNames,
  ColumnRole,
  Placed,
  TableRoles,
  language_in,
  of_language,
  other,
)
from xmcap.data.records import SOURCES
from xmcap.errors import UsageError
from xmcap.reading import programs
from xmcap.reading.columns import NUMBERED
from xmcap.terminal import shown

_SAMPLE_ROWS = 200
_SAMPLE_BYTES = 8 << 20  # embedded images are large


def recognise(
  rows: Iterable[Placed], columns: ColumnNames, source: str, *, image: str = ""
) -> tuple[TableRoles, Iterator[Placed]]:
  """Reads a sample of rows and decides; returns the table and all rows, from the first.

  The sample is bounded in rows and in bytes, so memory is constant, and the same rows give the same table.

  Args:
    rows: those of all files of the source, in order.
    columns: what the user asked for.
    source: name of the source, for messages.
    image: the column with the image where the format says it (WebDataset).

  Raises:
    UsageError: an asked column does not exist, several columns have images, or one with captions has lost its
      letters. The message has the columns and what mends it.
  """
  rows = iter(rows)
  sample: list[Placed] = []
  size = 0
  for row in itertools.islice(rows, _SAMPLE_ROWS):
    sample.append(row)
    size += sum(map(_size, row.fields.values()))
    if size > _SAMPLE_BYTES:
      break
  profiles: dict[str, ColumnProfile] = {}
  for row in sample:
    for name, value in itertools.islice(row.fields.items(), MOST_COLUMNS):
      profiles.setdefault(name, ColumnProfile()).add(value)
  where = sample[0].where if sample else source
  return decide(profiles, columns, source, where, image=image), itertools.chain(sample, rows)


def decide(
  profiles: Mapping[str, ColumnProfile],
  columns: ColumnNames,
  source: str,
  where: str = "",
  *,
  image: str = "",
) -> TableRoles:
  """Returns the table for columns of these names and values, as `recognise`; `where`: place of the first row."""
  roles: dict[str, ColumnRole] = {}
  by_folded = {str(name).strip().casefold(): name for name in reversed(list(profiles))}
  named = _Names(profiles, by_folded, where or source)
  split = named.asked(columns.split)
  if split:
    roles[split] = ColumnRole(split, SPLIT, why="--splits=column:")
  elif split := next((name for name in named.usual(COLUMNS) if profiles[name].most == kinds.SPLITS), ""):
    roles[split] = ColumnRole(split, SPLIT, why=f"usual name, {kinds.SPLITS}")
  for name in named.usual(("source",)):
    if name not in roles and profiles[name].texts and profiles[name].texts <= {*SOURCES}:
      roles[name] = ColumnRole(name, SOURCE, why=f"usual name, of {', '.join(SOURCES)}")
  image = image or named.asked(columns.image)
  why = "--image_column" if columns.image else "the sample's picture"
  if not image and profiles:
    image, why = _picture(named, source)
  if image:
    roles[image] = ColumnRole(image, PICTURE, why=why)
  language = named.asked(columns.language)
  why = "--language_column" if language else "usual name"
  language = language or next((name for name in named.usual(LANGUAGES) if name not in roles), "")
  if columns.captions:
    for asked, code in columns.by_caption.items():
      name = named.asked(asked)
      roles[name] = ColumnRole(name, CAPTION, code, "--caption_columns")
  else:
    roles |= _captions(profiles, named, roles, language, columns.default_language)
  why = "by which each file is named" if language == FILE_LANGUAGE else why
  if language and language not in roles:
    roles[language] = ColumnRole(language, LANGUAGE, why=why)
  is_embedded = image in profiles and profiles[image].kinds[kinds.EMBEDDED] > 0
  of_addresses = [name for name in named.usual(ADDRESSES) if profiles[name].most == kinds.ADDRESSES]
  if not is_embedded and of_addresses and image not in of_addresses and of_addresses[0] not in roles:
    why = "usual name, of pictures that are not found by name"
    roles[of_addresses[0]] = ColumnRole(of_addresses[0], ADDRESS, why=why)
  if is_embedded and (key := next((name for name in named.usual(KEYS) if name not in roles), "")):
    roles[key] = ColumnRole(key, KEY, why="usual name")
  lost = [
    name
    for name, of_name in profiles.items()
    if name in roles and roles[name].role == CAPTION and of_name.most == kinds.LOST
  ]
  if lost:
    raise UsageError(
      f"{source}: the captions of '{shown(lost[0], 40)}' are question marks: {kinds.SAVE_AGAIN}, or name"
      " only other columns in --caption_columns"
    )
  return TableRoles(
    source,
    columns,
    [roles.get(name) or other(name, profile, bool(columns.captions)) for name, profile in profiles.items()],
  )


@dataclasses.dataclass(frozen=True)
class _Names:
  """The columns of a source by name, whatever its case: `found` has the names in lower case."""

  profiles: Mapping[str, ColumnProfile]
  by_folded: Mapping[str, str]
  where: str

  def asked(self, name: str) -> str:
    """Returns the column of a name; UsageError if there is none."""
    if not name or name in self.profiles:
      return name
    if name.strip().casefold() in self.by_folded:
      return self.by_folded[name.strip().casefold()]
    if not self.profiles:
      return name
    there = shown(", ".join(map(str, self.profiles)))
    raise UsageError(f"{self.where}: no column '{shown(name)}'; there are {there}")

  def usual(self, names: Sequence[str]) -> list[str]:
    """Returns the columns that have one of these names, in the order of the names."""
    return [self.by_folded[name] for name in names if name in self.by_folded]


def _picture(named: _Names, source: str) -> tuple[str, str]:
  """Returns the column with images, and why; UsageError if there is none, or several may be meant."""
  profiles, usual = named.profiles, named.usual(PICTURES)
  for kind in (kinds.EMBEDDED, kinds.PICTURE_FILES):
    of_kind = [name for name, profile in profiles.items() if profile.kinds[kind] and profile.most == kind]
    fitting = [name for name in usual if name in of_kind]
    if fitting and (fitting[0].lower() == "image" or len(fitting) == 1 or _are_alike(fitting, profiles)):
      others = f", and not {shown(', '.join(name for name in of_kind if name != fitting[0]), 40)}"
      return fitting[0], f"usual name, {kind}" + (others if len(of_kind) > 1 else "")
    if fitting or (of_kind and (kind == kinds.EMBEDDED or not usual)):
      if len(of_kind) == 1:
        return of_kind[0], f"the only column of {kind}"
      several = shown(", ".join(fitting if len(fitting) > 1 else of_kind))
      raise UsageError(
        f"{source}: several columns have {kind} ({several}): choose one with --image_column={shown(of_kind[0])}"
      )
  if usual:
    return usual[0], f"usual name, {profiles[usual[0]].most or 'no value yet'}"
  return "", ""


def _are_alike(names: Sequence[str], profiles: Mapping[str, ColumnProfile]) -> bool:
  """Whether columns with names of images mean the same images."""
  return all(profiles[name].names and profiles[name].names == profiles[names[0]].names for name in names)


def _captions(
  profiles: Mapping[str, ColumnProfile],
  named: _Names,
  roles: Mapping[str, ColumnRole],
  language: str,
  default: str,
) -> dict[str, ColumnRole]:
  """Returns the columns with captions by their usual names and by languages."""
  free = {name: profile for name, profile in profiles.items() if name not in roles and name != language}
  for program in programs.PROGRAMS:
    if isinstance(program.references, tuple) and program.fields <= profiles.keys():
      return {
        name: ColumnRole(name, CAPTION, code, program.whose)
        for name, code in program.references
        if name in free
      }
  chosen: dict[str, ColumnRole] = {}
  usual = [*CAPTIONS, *(caption for caption, beside in BESIDE.items() if named.usual((beside,)))]
  for name in named.usual(usual):
    profile = free.get(name)
    if profile is None or not (
      profile.turns or (name.lower() not in TURNS and (profile.are_words or not profile.count))
    ):
      continue
    says = OBJECTS if profile.by_language else f"language in '{language}'" if language else ""
    says = says or (f"--language={default}" if default else "")
    chosen[name] = ColumnRole(
      name,
      CAPTION,
      why=", ".join(filter(None, ("usual name", "the model's answer" if profile.turns else "", says))),
    )
    break
  if not chosen:
    numbered = [name for name, profile in free.items() if NUMBERED.fullmatch(name) and profile.are_words]
    chosen = {name: ColumnRole(name, CAPTION, why="numbered") for name in numbered}
  if not chosen:
    lists = [name for name, profile in free.items() if profile.by_language and profile.are_words]
    for name in lists:
      member = f", its {profiles[name].member}" if profiles[name].member else ""
      chosen[name] = ColumnRole(name, CAPTION, why=f"{OBJECTS}{member}")
  if chosen and language not in ("", FILE_LANGUAGE):
    return chosen
  of_languages = {name: profile for name, profile in free.items() if name not in chosen and language_in(name)}
  sure: list[ColumnRole] = []
  for doubtful in (False, True):
    for name, profile in of_languages.items():
      if (name.strip().lower() in OFTEN_OTHER) == doubtful and profile.count:
        column = of_language(name, profile, sure)
        if column is not None:
          chosen[name] = column
          sure.append(column)
  return chosen


def _size(value: Any) -> int:
  if isinstance(value, Mapping):
    return sum(map(_size, value.values()))
  return len(value) if isinstance(value, str | bytes | list) else 8
