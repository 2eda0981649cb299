"""Stages the rows of a source on disk."""

import contextlib
import json
import posixpath
import sqlite3
import tarfile
from collections.abc import Iterator
from typing import Any

import msgspec

from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import beside, columnar, kinds, webdataset
from xmcap.corpora.folder.fields import RecordFields
from xmcap.corpora.folder.language_sample import LanguageSample
from xmcap.corpora.folder.sources import TAR, Sources
from xmcap.corpora.folder.table import SPLIT, ColumnNames, TableRoles
from xmcap.errors import UsageError
from xmcap.files import databases, files
from xmcap.reading.packed import Packed
from xmcap.reading.rows import DELIMITERS, split_name

ROWS = "rows.sqlite"
"""Database of the rows in the working folder."""
PACKED = "packed.tar"
"""Tar file in the working folder with the images that were embedded in tables."""

_MOST_LOST = 0.1  # of the rows of a table
NOT_UTF8 = "the name of its picture is not UTF-8"
_ROWS = """
CREATE TABLE rows (id INTEGER PRIMARY KEY, row);
CREATE TABLE problems (kind, place, what);
CREATE TABLE columns (about, said);
"""


def read(work: BuildInProgress, sources: Sources, columns: ColumnNames) -> int:
  """Reads the rows of files into the working folder, unless done before; returns their number.

  Says what each column was recognised as, before it reads them.
  """
  path = work.folder / ROWS
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
          problems.add("bad_utf8", row.where, NOT_UTF8)
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


def split_column(work: BuildInProgress) -> str:
  """Returns the column with splits, or ""."""
  return next((name for name, about in columns(work).items() if about["role"] == SPLIT), "")


def _columns(work: BuildInProgress) -> tuple[str, str]:
  with databases.reading(work.folder / ROWS) as database:
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
  archive = stack.enter_context(tarfile.TarFile(fileobj=file, mode="w"))
  packed = stack.enter_context(contextlib.closing(Packed(archive, [source.path for source in sources.files])))
  return columnar.read(sources.files, columns, sources.name, problems, packed)
