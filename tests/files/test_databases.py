"""SQLite files that are written once: complete or absent, and one-line errors."""

import sqlite3

import pytest

from xmcap.errors import XmcapError
from xmcap.files import databases

SCHEMA = "CREATE TABLE words (word)"


def test_database_is_read_only_after_writing(tmp_path):
  path = tmp_path / "a name % ? #.sqlite"
  with databases.writing(path, SCHEMA) as database:
    database.executemany("INSERT INTO words VALUES (?)", [("one",), ("two",)])
    assert not path.exists()
  with databases.reading(path) as database:
    assert database.execute("SELECT word FROM words").fetchall() == [("one",), ("two",)]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
      database.execute("DELETE FROM words")


def test_failed_write_leaves_no_database(tmp_path):
  with pytest.raises(KeyError), databases.writing(tmp_path / "a", SCHEMA):
    raise KeyError
  assert not list(tmp_path.iterdir())
  with pytest.raises(sqlite3.Error), databases.reading(tmp_path / "a"):
    pass


def test_database_in_a_missing_folder_is_refused(tmp_path):
  with (
    pytest.raises(XmcapError, match="cannot write .*absent/a: "),
    databases.writing(tmp_path / "absent" / "a", SCHEMA),
  ):
    pass
