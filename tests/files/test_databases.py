"""Databases that are written once: whole or absent, and named where they cannot be written."""

import sqlite3

import pytest

from xmcap.errors import XmcapError
from xmcap.files import databases

SCHEMA = "CREATE TABLE words (word)"


def test_what_was_written_is_read_and_cannot_be_changed(tmp_path):
  path = tmp_path / "a name % ? #.sqlite"
  with databases.writing(path, SCHEMA) as database:
    database.executemany("INSERT INTO words VALUES (?)", [("one",), ("two",)])
    assert not path.exists()
  with databases.reading(path) as database:
    assert database.execute("SELECT word FROM words").fetchall() == [("one",), ("two",)]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
      database.execute("DELETE FROM words")


def test_an_error_leaves_nothing(tmp_path):
  with pytest.raises(KeyError), databases.writing(tmp_path / "a", SCHEMA):
    raise KeyError
  assert not list(tmp_path.iterdir())
  with pytest.raises(sqlite3.Error), databases.reading(tmp_path / "a"):
    pass


def test_a_folder_that_is_absent_is_named(tmp_path):
  with (
    pytest.raises(XmcapError, match="cannot write .*absent/a: "),
    databases.writing(tmp_path / "absent" / "a", SCHEMA),
  ):
    pass
