"""Stages the rows of a source on disk, and groups them by image in constant memory, whatever their order."""

import collections
import contextlib
import hashlib
import json
import os
import posixpath
import sqlite3
import tarfile
from collections.abc import Iterator
from typing import Any

import msgspec

from xmcap import languages
from xmcap.corpora.building.image_search import ByPath, Wanted
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import beside, columnar, kinds, split_choice, webdataset
from xmcap.corpora.folder.fields import RecordFields
from xmcap.corpora.folder.language_sample import LanguageSample
from xmcap.corpora.folder.sources import TAR, Sources
from xmcap.corpora.folder.split_choice import SplitRule
from xmcap.corpora.folder.table import ColumnNames, TableRoles
from xmcap.data.records import Caption
from xmcap.errors import UsageError
from xmcap.files import databases, files, keys
from xmcap.reading import archives
from xmcap.reading.rows import DELIMITERS, split_name

_ROWS_FILE, _FILE = "rows.sqlite", "gathered.sqlite"
PACKED = "packed.tar"
"""Tar file in the working folder with the images that were embedded in tables."""

_MOST_LOST = 0.1  # of the rows of a table
_NOT_UTF8 = "the name of its picture is not UTF-8"
_ROWS = """
CREATE TABLE rows (id INTEGER PRIMARY KEY, row);
CREATE TABLE problems (kind, place, what);
CREATE TABLE columns (about, said);
"""
_GATHERED = """
CREATE TABLE pictures (identity PRIMARY KEY, number, first, key, path, place, split, locale);
CREATE TABLE captions (identity, id, captions);
CREATE TABLE settled (identity PRIMARY KEY, key UNIQUE, split, usable);
CREATE INDEX numbers ON pictures (number);
CREATE INDEX keys ON pictures (key);
CREATE INDEX of_picture ON captions (identity, id);
"""
# An image is usable if it was found and has a caption.
_TO_SETTLE = """
SELECT identity, key, path, place, split, number IS NOT NULL AND EXISTS (
  SELECT 1 FROM captions WHERE captions.identity = pictures.identity AND captions != CAST('[]' AS BLOB)
) FROM pictures ORDER BY first
"""
_WANTED = """
SELECT identity, number, settled.key, place, locale FROM pictures JOIN settled USING (identity)
WHERE settled.split = ? ORDER BY first
"""
_ROW = msgspec.json.Decoder(RecordFields)
_CAPTIONS = msgspec.json.Decoder(list[Caption])


def read(work: BuildInProgress, sources: Sources, columns: ColumnNames) -> int:
  """Reads the rows of files into the working folder, unless done before; returns their number.

  Says what each column was recognised as, before it reads them.
  """
  path = work.folder / _ROWS_FILE
  if not path.exists():
    problems = Problems()
    with databases.writing(path, _ROWS) as database, contextlib.ExitStack() as stack:
      for name, detail in sources.foreign:
        problems.add("other_language", name, detail)
      table, rows = _rows(work, sources, columns, problems, stack)
      said = table.lines()
      _say(work, said)
      if lacks := table.lacks():
        _add_missed(table, problems)
        work.problems.extend(problems.listed)
        brief = work.problems.in_brief()
        raise UsageError(lacks + (f"; also {brief}" if brief else ""))
      sample = LanguageSample()
      for row in rows:
        sample.add(row.captions)
        try:
          database.execute("INSERT INTO rows VALUES (NULL, ?)", (msgspec.json.encode(row),))
        except UnicodeEncodeError:
          problems.add("bad_utf8", row.where, _NOT_UTF8)
      _add_missed(table, problems)
      for detail in sample.mistaken():
        problems.add("other_language", sources.name, detail)
      if split_name(sources.files[0].path)[1] in DELIMITERS:
        _check_letters(database, sources.name, problems, work)
      database.executemany("INSERT INTO problems VALUES (?, ?, ?)", problems.listed)
      about = json.dumps(table.as_json())
      database.execute("INSERT INTO columns VALUES (?, ?)", (about, "\n".join(said)))
  else:
    _say(work, _columns(work)[1].split("\n"))
  with databases.reading(path) as database:
    work.problems.extend(database.execute("SELECT * FROM problems ORDER BY rowid"))
    return database.execute("SELECT count(*) FROM rows").fetchone()[0]


def _check_letters(
  database: sqlite3.Connection, source: str, problems: Problems, work: BuildInProgress
) -> None:
  """Raises UsageError if too many rows of a table have lost letters; lists the problems then."""
  lost = len({where for kind, where, _ in problems.listed if kind in ("bad_utf8", "lost_letters")})
  rows = database.execute("SELECT count(*) FROM rows").fetchone()[0] + problems.counts.get("bad_utf8", 0)
  if lost > _MOST_LOST * rows:
    work.problems.extend(problems.listed)
    raise UsageError(
      f"{source}: {lost:,} of {rows:,} lines have question marks for captions, or are not UTF-8: {kinds.SAVE_AGAIN}"
    )


def _add_missed(table: TableRoles, problems: Problems) -> None:
  for column in table.missed:
    detail = f"'{column.name}' {column.why}: {table.option_for_all()}"
    problems.add("unread_column", posixpath.basename(table.source), detail)


def columns(work: BuildInProgress) -> dict[str, Any]:
  """Returns what each column was recognised as, after `read`: name -> role, language and reason."""
  return json.loads(_columns(work)[0])


def _columns(work: BuildInProgress) -> tuple[str, str]:
  with databases.reading(work.folder / _ROWS_FILE) as database:
    return database.execute("SELECT * FROM columns").fetchone()


def _say(work: BuildInProgress, lines: list[str]) -> None:
  for line in lines:
    work.say(line)


def is_packed(work: BuildInProgress) -> bool:
  """Whether the tables had embedded images."""
  path = work.folder / PACKED
  if not path.exists():
    return False
  with tarfile.open(path) as packed:
    return packed.next() is not None


def _rows(
  work: BuildInProgress,
  sources: Sources,
  columns: ColumnNames,
  problems: Problems,
  stack: contextlib.ExitStack,
) -> tuple[TableRoles, Iterator[RecordFields]]:
  """Returns the table and the rows; `stack` closes what they are read from and written to."""
  first = sources.files[0].path
  if first.is_dir():
    return beside.read(first, columns, problems)
  if first.suffix.lower() == TAR:
    return webdataset.read(sources.files, columns, sources.name, problems)
  file = stack.enter_context(files.whole(work.folder / PACKED))
  packed = stack.enter_context(tarfile.TarFile(fileobj=file, mode="w"))
  return columnar.read(sources.files, columns, sources.name, problems, packed)


def gather(work: BuildInProgress, images: ByPath, rule: SplitRule) -> tuple[list[str], dict[str, int]]:
  """Groups the rows by image; returns the names of the splits, and language -> number of rows with its captions.

  A key is the name of the image's file without its suffix, in NFC. If it has characters that a key may not have, or
  several images have it, a hash of the path is appended.
  """
  counts: collections.Counter[str] = collections.Counter()
  with (
    databases.reading(work.folder / _ROWS_FILE) as rows,
    databases.writing(work.folder / _FILE, _GATHERED) as database,
  ):
    for number, data in rows.execute("SELECT id, row FROM rows ORDER BY id"):
      row = _ROW.decode(data)
      counts.update({caption.language for caption in row.captions})
      try:
        _add(database, number, row, images, work.problems)
      except UnicodeEncodeError:
        work.problems.add("bad_utf8", row.where, _NOT_UTF8)
    for number, path in images.paths():
      named = database.execute("SELECT 1 FROM pictures WHERE number = ?", (number,)).fetchone()
      if not named and archives.split_suffix(path)[1]:
        work.problems.add("no_captions", path, "no line names it")
    for identity, key, path, place, split, usable in database.execute(_TO_SETTLE):
      safe = _key(database, key, path or identity, identity)
      if safe != key:
        work.problems.add("renamed_key", path or place, f"its key is {safe}")
      split = rule.split_of(safe, path, split, place)
      database.execute("INSERT INTO settled VALUES (?, ?, ?, ?)", (identity, safe, split, usable))
    _fill_empty(database, rule)
    names = [name for (name,) in database.execute("SELECT DISTINCT split FROM settled")]
  return split_choice.ordered(names), {language: counts[language] for language in languages.ordered(counts)}


def wanted(work: BuildInProgress, split: str) -> Iterator[Wanted]:
  """Yields the images of a split with their captions, in the order of first occurrence."""
  with databases.reading(work.folder / _FILE) as database:
    for identity, number, key, place, locale in database.execute(_WANTED, (split,)):
      captions = list(_captions(database, identity, key, work.problems))
      yield Wanted(key, place, "" if number is None else str(number), locale=locale, captions=captions)


def _add(
  database: sqlite3.Connection, number: int, row: RecordFields, images: ByPath, problems: Problems
) -> None:
  image = images.resolve(row.image, row.archive) or images.fetched(row.url)
  if image is None and (alike := images.alike(row.image)):
    problems.add("same_name", row.where, f"{row.image} may be {' or '.join(alike)}")
    return
  identity = f"?{row.image}" if image is None else f"#{image[0]}"
  path = "" if image is None else posixpath.join(os.path.basename(row.archive), image[1])
  name = (row.key or path or row.image).replace("\\", "/").rstrip("/").rpartition("/")[2]
  key = keys.normal(archives.split_suffix(name)[0])
  place = row.where if image else f"{row.where} ({row.image})"
  earlier = database.execute("SELECT split FROM pictures WHERE identity = ?", (identity,)).fetchone()
  if earlier is None:
    values = (identity, image and image[0], number, key, path, place, row.split, row.locale)
    database.execute("INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
  elif row.split and earlier[0] != row.split:
    problems.add("other_split", row.where, f"'{row.split}', not '{earlier[0]}'")
  captions = msgspec.json.encode(row.captions)
  database.execute("INSERT INTO captions VALUES (?, ?, ?)", (identity, number, captions))


def _fill_empty(database: sqlite3.Connection, rule: SplitRule) -> None:
  """Moves into each empty split of a rule the nearest usable image, from a split with several."""
  counts = dict(database.execute("SELECT split, count(*) FROM settled WHERE usable GROUP BY split"))
  for name in rule.intervals:
    if name in counts:
      continue
    rows = database.execute("SELECT key, split FROM settled WHERE usable")
    distances = ((rule.distance(key, name), key, split) for key, split in rows if counts[split] > 1)
    nearest = min(distances, default=None)
    if nearest is not None:
      _, key, split = nearest
      database.execute("UPDATE settled SET split = ? WHERE key = ?", (name, key))
      counts[split] -= 1
      counts[name] = 1


def _key(database: sqlite3.Connection, key: str, path: str, identity: str) -> str:
  """Returns a unique key: the name if it is safe and unique, else with a hash."""
  alike = database.execute("SELECT 1 FROM pictures WHERE key = ? LIMIT 2", (key,)).fetchall()
  candidates = [key] if keys.is_safe(key) and len(alike) == 1 else []
  candidates += [keys.hashed(key, path), keys.hashed(key, f"{path}\n{identity}")]
  for name in candidates:
    if not database.execute("SELECT 1 FROM settled WHERE key = ?", (name,)).fetchone():
      return name
  return f"picture-{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _captions(database: sqlite3.Connection, identity: str, key: str, problems: Problems) -> Iterator[Caption]:
  """Yields the captions of an image, without those that an earlier line gave."""
  seen: dict[tuple[str, str], int] = {}
  lines = database.execute("SELECT id, captions FROM captions WHERE identity = ? ORDER BY id", (identity,))
  for number, encoded in lines:
    for caption in _CAPTIONS.decode(encoded):
      first = seen.setdefault((caption.language, caption.text), number)
      if first == number:  # within a line, two people may have written the same
        yield caption
      else:
        problems.add("duplicate_line", key, f"'{caption.language}': {caption.text}")
