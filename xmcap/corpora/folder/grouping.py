"""Groups the staged rows by image in constant memory, whatever their order: one record an image, in one split.

Rows are of one image if they name the same file, or if they share a key, a path or a URL and their files have the same
bytes. With --duplicates=merge, images with the same pixels are one, whatever their names.
"""

import collections
import hashlib
import os
import posixpath
import sqlite3
from collections.abc import Iterator

import msgspec

from xmcap import languages
from xmcap.corpora.building import duplicates
from xmcap.corpora.building.image_search import ByPath, Wanted
from xmcap.corpora.building.options import BuildInProgress
from xmcap.corpora.building.problems import Problems
from xmcap.corpora.folder import split_choice, staging
from xmcap.corpora.folder.fields import RecordFields
from xmcap.corpora.folder.split_choice import SplitRule, SplitSource
from xmcap.data.records import Caption
from xmcap.files import databases, keys
from xmcap.reading import archives

_FILE = "grouped.sqlite"
# The id of a picture is that of its first row, and the order of the records.
_SCHEMA = """
CREATE TABLE pictures (id INTEGER PRIMARY KEY, identity UNIQUE, number, key, path, place, locale);
CREATE TABLE names (picture, name, PRIMARY KEY (picture, name)) WITHOUT ROWID;
CREATE TABLE sources (picture, cell, file, path, PRIMARY KEY (picture, cell, file, path)) WITHOUT ROWID;
CREATE TABLE captions (picture, id, captions);
CREATE TABLE hashes (number INTEGER PRIMARY KEY, bytes, pixels);
CREATE TABLE owners (picture INTEGER PRIMARY KEY, owner);
CREATE TABLE settled (picture INTEGER PRIMARY KEY, key UNIQUE, split, usable);
CREATE INDEX numbers ON pictures (number);
CREATE INDEX keys ON pictures (key);
CREATE INDEX of_picture ON captions (picture, id);
"""
_NUMBERS = "SELECT DISTINCT number FROM pictures WHERE number IS NOT NULL"
_OWNERS = """
SELECT id, min(owner) FROM (
  SELECT id, min(id) OVER (PARTITION BY {same}) AS owner FROM pictures JOIN hashes USING (number)
  JOIN names ON names.picture = id
) GROUP BY id HAVING min(owner) < id ORDER BY id
"""
_JOIN = """
UPDATE captions SET picture = (SELECT owner FROM owners WHERE owners.picture = captions.picture)
  WHERE picture IN (SELECT picture FROM owners);
UPDATE OR IGNORE sources SET picture = (SELECT owner FROM owners WHERE owners.picture = sources.picture)
  WHERE picture IN (SELECT picture FROM owners);
DELETE FROM pictures WHERE id IN (SELECT picture FROM owners);
"""
# An image is usable if it was found and has a caption.
_TO_SETTLE = """
SELECT id, identity, key, path, place, number IS NOT NULL AND EXISTS (
  SELECT 1 FROM captions WHERE captions.picture = pictures.id AND captions != CAST('[]' AS BLOB)
) FROM pictures ORDER BY id
"""
_SOURCES = "SELECT cell, file, path FROM sources WHERE picture = ?"
_ALL_SOURCES = """
SELECT cell, file, sources.path FROM sources JOIN pictures ON pictures.id = picture WHERE number IS NOT NULL
"""
_USABLE = "SELECT split FROM settled WHERE usable"
_WANTED = """
SELECT id, number, settled.key, place, locale, pixels FROM pictures JOIN settled ON settled.picture = id
LEFT JOIN hashes USING (number) WHERE split = ? ORDER BY id
"""
_ROW = msgspec.json.Decoder(RecordFields)
_CAPTIONS = msgspec.json.Decoder(list[Caption])


def gather(work: BuildInProgress, images: ByPath, rule: SplitRule) -> tuple[list[str], dict[str, int]]:
  """Groups the rows by image; returns the names of the splits, and language -> number of rows with its captions.

  A key is the name of the image's file without its suffix, in NFC. If it has characters that a key may not have, or
  several images have it, a hash of the path is appended. Says which splits the source names, if no rule was asked for.
  """
  counts: collections.Counter[str] = collections.Counter()
  with (
    databases.reading(work.folder / staging.ROWS) as rows,
    databases.writing(work.folder / _FILE, _SCHEMA) as database,
  ):
    for number, data in rows.execute("SELECT id, row FROM rows ORDER BY id"):
      row = _ROW.decode(data)
      counts.update({caption.language for caption in row.captions})
      try:
        _add(database, number, row, images, work.problems)
      except UnicodeEncodeError:
        work.problems.add("bad_utf8", row.where, staging.NOT_UTF8)
    for number, path in images.paths():
      named = database.execute("SELECT 1 FROM pictures WHERE number = ?", (number,)).fetchone()
      if not named and archives.split_suffix(path)[1]:
        work.problems.add("no_captions", path, "no line names it")
    _join(database, work, images)
    names = _settle(database, work, rule)
  return split_choice.ordered(names), {language: counts[language] for language in languages.ordered(counts)}


def wanted(work: BuildInProgress, split: str) -> Iterator[Wanted]:
  """Yields the images of a split with their captions, in the order of first occurrence."""
  with databases.reading(work.folder / _FILE) as database:
    for picture, number, key, place, locale, pixels in database.execute(_WANTED, (split,)):
      captions = list(_captions(database, picture, key, work.problems))
      name = "" if number is None else str(number)
      yield Wanted(key, place, name, locale=locale, captions=captions, pixels=pixels or "")


def _add(
  database: sqlite3.Connection, number: int, row: RecordFields, images: ByPath, problems: Problems
) -> None:
  image = images.resolve(row.image, row.archive) or next(filter(None, map(images.fetched, row.names)), None)
  if image is None and (alike := images.alike(row.image)):
    problems.add("same_name", row.where, f"{row.image} may be {' or '.join(alike)}")
    return
  path = "" if image is None else posixpath.join(os.path.basename(row.archive), image[1])
  name = (row.key or path or row.image).replace("\\", "/").rstrip("/").rpartition("/")[2]
  key = keys.normal(archives.split_suffix(name)[0])
  # Rows of Parquet with other keys may share the bytes, and so the file, of an image.
  shared = f" {key}" if row.key and not row.archive else ""
  identity = f"?{row.image}" if image is None else f"#{image[0]}{shared}"
  place = row.where if image else f"{row.where} ({row.image})"
  earlier = database.execute("SELECT id FROM pictures WHERE identity = ?", (identity,)).fetchone()
  picture = number if earlier is None else earlier[0]
  if earlier is None:
    values = (number, identity, image and image[0], key, path, place, row.locale)
    database.execute("INSERT INTO pictures VALUES (?, ?, ?, ?, ?, ?, ?)", values)
  source = (picture, row.split, row.file, path or row.image)
  database.execute("INSERT OR IGNORE INTO sources VALUES (?, ?, ?, ?)", source)
  names = [(picture, name) for name in (key, *row.names)]
  database.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", names)
  captions = msgspec.json.encode(row.captions)
  database.execute("INSERT INTO captions VALUES (?, ?, ?)", (picture, number, captions))


def _join(database: sqlite3.Connection, work: BuildInProgress, images: ByPath) -> None:
  """Gives the captions and sources of an image to the first that is the same one."""
  (count,) = database.execute(f"SELECT count(*) FROM ({_NUMBERS})").fetchone()
  numbers = (number for (number,) in database.execute(f"{_NUMBERS} ORDER BY number"))
  hashes = duplicates.hash_images(work, images, numbers, count)
  database.executemany("INSERT INTO hashes VALUES (?, ?, ?)", hashes)
  same = "pixels" if work.options.duplicates == "merge" else "bytes, name"
  for picture, first in database.execute(_OWNERS.format(same=same)):
    row = database.execute("SELECT owner FROM owners WHERE picture = ?", (first,)).fetchone()
    owner = first if row is None else row[0]
    database.execute("INSERT INTO owners VALUES (?, ?)", (picture, owner))
    key, place, owner_key = database.execute(
      "SELECT one.key, one.place, other.key FROM pictures AS one, pictures AS other WHERE one.id = ? AND other.id = ?",
      (picture, owner),
    ).fetchone()
    work.problems.add("same_picture", place, f"{key} is {owner_key}")
  database.executescript(_JOIN)


def _settle(database: sqlite3.Connection, work: BuildInProgress, rule: SplitRule) -> list[str]:
  """Gives each image its key and its split; returns the names of the splits."""
  is_asked = bool(rule.text)
  if not is_asked:
    rule, line = split_choice.published(
      staging.split_column(work), lambda: map(SplitSource._make, database.execute(_ALL_SOURCES))
    )
    if line:
      work.say(line)
  for picture, identity, key, path, place, usable in database.execute(_TO_SETTLE):
    safe = _key(database, key, path or identity, identity)
    if safe != key:
      work.problems.add("renamed_key", path or place, f"its key is {safe}")
    split = (
      rule.of_key(safe) if rule.intervals else _split(database, picture, rule, place, usable, work.problems)
    )
    database.execute("INSERT INTO settled VALUES (?, ?, ?, ?)", (picture, safe, split, usable))
  _fill_empty(database, rule)
  # Missing images, which are only counted, make no split.
  lost = f"NOT IN ({_USABLE})" if not is_asked else "= ''"
  database.execute(
    f"UPDATE settled SET split = ({_USABLE} LIMIT 1) WHERE split {lost} AND EXISTS ({_USABLE})"
  )
  return [name for (name,) in database.execute("SELECT DISTINCT split FROM settled")]


def _split(
  database: sqlite3.Connection, picture: int, rule: SplitRule, place: str, usable: bool, problems: Problems
) -> str:
  """Returns the split that the source names; "" if it names none for an image that makes no record."""
  sources = [*map(SplitSource._make, database.execute(_SOURCES, (picture,)))]
  if not usable and not all(map(rule.written, sources)):
    return ""
  splits = rule.of_sources(sources, place)
  if len(splits) > 1:
    problems.add("other_split", place, f"{' and '.join(splits)}: {splits[0]} counts")
  return splits[0]


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


def _captions(database: sqlite3.Connection, picture: int, key: str, problems: Problems) -> Iterator[Caption]:
  """Yields the captions of an image, without those that an earlier line gave."""
  seen: dict[tuple[str, str], int] = {}
  lines = database.execute("SELECT id, captions FROM captions WHERE picture = ? ORDER BY id", (picture,))
  for number, encoded in lines:
    for caption in _CAPTIONS.decode(encoded):
      first = seen.setdefault((caption.language, caption.text), number)
      if first == number:  # within a line, two people may have written the same
        yield caption
      else:
        problems.add("duplicate_line", key, f"'{caption.language}': {caption.text}")
