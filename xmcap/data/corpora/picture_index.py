"""The table of the pictures of a release: searched for once, kept on disk, read by any number of processes.

A working folder holds, under `pictures/`,

  index.json           what was searched, and the problems found; written last, so its presence says "whole"
  entries, names       where each picture lies, and its path there
  keys.table           names of pictures -> entries (name_table.py)
  urls.table           addresses -> entries, where they are known
  mapped.table         keys of the key map -> entries, where there is one
  unpacked-00000.bin   the pictures of a .tgz, one behind the other

picture_search.py fills `parts/`, of which this makes one table.
"""

import dataclasses
import functools
import io
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xmcap.data import files
from xmcap.data.corpora import archives, name_table, picture_search
from xmcap.data.corpora.archives import FOLDER, File, Found, Trouble
from xmcap.data.corpora.picture_search import ENTRY, ENTRY_FORMAT, Unit
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError

_MAX_MAP_LINE = 1 << 16


class Index:
  """Looks pictures up; pickles as its folder.

  Attributes:
    files: what the numbers of files stand for.
    has_urls: whether addresses are known.
  """

  def __init__(self, folder: pathlib.Path):
    self._folder = folder
    about = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    self.files = [File(*file) for file in about["files"]]
    self.has_urls = about["has_urls"]
    self._count = about["pictures"]
    self._is_mapped = about["is_mapped"]
    self._entries = io.FileIO(folder / "entries")
    self._names = io.FileIO(folder / "names")
    self._keys = name_table.Table(folder / "keys.table")
    self._urls = name_table.Table(folder / "urls.table")
    self._mapped = name_table.Table(folder / "mapped.table")

  def __reduce__(self):
    return Index, (self._folder,)

  def __len__(self) -> int:
    return self._count

  def find(self, key: str) -> tuple[int, Found]:
    """A picture by a key of the key map, by a path as a release gives it, or by its name; KeyError if there is none."""
    if self._is_mapped:
      found = self._mapped.find(picture_search.KEY, _canonical(key))
    else:
      found = _find_path(self._keys, key)
    if found is None:
      raise KeyError(key)
    return self.entry(found[0])

  def find_url(self, url: str) -> tuple[int, Found]:
    """A picture by its address; KeyError if there is none."""
    found = self._urls.find(picture_search.URL, url)
    if found is None:
      raise KeyError(url)
    return self.entry(found[0])

  def names(self) -> Iterator[str]:
    """The names of all pictures, without folder and suffix, in the order they were found; a name may come again."""
    for number in range(len(self)):
      yield archives.split_suffix(self.entry(number)[1].path.rpartition("/")[2])[0]

  def entry(self, number: int) -> tuple[int, Found]:
    """The number of the file that a picture lies in, and where."""
    data = os.pread(self._entries.fileno(), ENTRY.itemsize, number * ENTRY.itemsize)
    file_number, crc, offset, size, packed, name, length = ENTRY_FORMAT.unpack(data)
    path = os.fsdecode(os.pread(self._names.fileno(), length, name))
    return file_number, Found(path, offset, size, packed, crc)


def _find_path(keys: name_table.Table, key: str) -> tuple[int, int] | None:
  folder, _, name = key.rpartition("/")
  if folder:
    found = keys.find(picture_search.TAIL, f"{folder.rpartition('/')[2]}/{name}")
    if found is not None:
      return found
  found = keys.find(picture_search.STEM, archives.split_suffix(name)[0])
  # Of several pictures with this name none lies where the path says.
  return None if folder and found is not None and found[1] else found


def _canonical(key: str) -> str:
  """A key of a key map; numbers are the same with and without zeros before them."""
  return key.lstrip("0") or "0" if key.isdecimal() and key.isascii() else key


def make(
  places: Sequence[str | os.PathLike],
  work_dir: str | os.PathLike,
  *,
  key_map: str | os.PathLike | None,
  on_bad: str,
  processes: int | None,
  progress: Callable[[str], None],
) -> tuple[Index, Problems]:
  """Searches places and makes the table, or takes the one that is there; see `pictures.open_pictures`."""
  folder = pathlib.Path(work_dir) / "pictures"
  parts = folder / "parts"
  listed, units = picture_search.find_units(places, folder, paths=key_map is not None)
  try:
    inputs = [unit.fingerprint() for unit in units]
    mapped = [] if key_map is None else archives.fingerprint(key_map)
  except OSError as error:
    raise UsageError(f"{error.filename}: {error.strerror}: name a file that can be read") from None
  wanted = {"version": picture_search.VERSION, "inputs": inputs, "key_map": mapped}
  about = picture_search.read_json(folder / "index.json")
  held = about is not None and {name: about.get(name) for name in wanted} == wanted
  if not held or not all(os.path.exists(file.unpacked) for file in listed if file.unpacked):
    files.make_folder(parts)
    (folder / "index.json").unlink(missing_ok=True)
    picture_search.search(units, processes, progress)
    about = {**wanted, **_merge(folder, listed, units, key_map, progress)}
    files.write_text(folder / "index.json", json.dumps(about))
    shutil.rmtree(parts, ignore_errors=True)
  # Added again one by one, for on_bad may be another than the last time.
  problems = Problems(on_bad)
  for trouble in about["problems"]:
    problems.add(*trouble)
  return Index(folder), problems


def _merge(
  folder: pathlib.Path,
  listed: Sequence[File],
  units: Sequence[Unit],
  key_map: str | os.PathLike | None,
  progress: Callable[[str], None],
) -> dict[str, Any]:
  """Makes one table of the parts; returns what index.json says about it."""
  found = [picture_search.read_json(unit.of("json")) for unit in units]
  shifts = np.concatenate([[0], np.cumsum([about["pictures"] for about in found])]).astype(np.int64)
  total = int(shifts[-1])
  progress(f"pictures: {total:,} found; sorting their names")
  if not total:
    raise UsageError(
      f"{', '.join(file.path for file in listed[:3])}: no picture in it: name where the pictures are"
    )
  if total > name_table.MAX_NUMBER:
    raise UsageError(f"{total:,} pictures are more than the {name_table.MAX_NUMBER:,} that can be told apart")
  _merge_entries(folder, units)
  problems = [tuple(trouble) for about in found for trouble in about["problems"]]
  duplicates = _Duplicates(folder, listed, shifts, [about["addresses"] > 0 for about in found])
  with open(folder / "names", "rb") as duplicates.names, open(folder / "entries", "rb") as duplicates.entries:
    rows = [name_table.Part(unit.of("keys"), int(shift)) for unit, shift in zip(units, shifts, strict=False)]
    rows += [
      name_table.Part(unit.of("bases"), int(shift))
      for unit, shift, about in zip(units, shifts, found, strict=False)
      if about["addresses"]
    ]
    name_table.build(rows, folder / "keys.table", duplicates.first)
  problems += duplicates.problems
  keys = name_table.Table(folder / "keys.table")
  parts = folder / "parts"
  with name_table.RowWriter(parts / "urls") as urls, name_table.RowWriter(parts / "mapped") as mapped:
    has_urls = _add_addresses(units, keys, urls)
    if key_map is not None:
      has_urls |= _add_map(key_map, keys, urls, mapped)
  name_table.build([name_table.Part(parts / "urls", 0)], folder / "urls.table")
  name_table.build([name_table.Part(parts / "mapped", 0)], folder / "mapped.table", _first_line)
  return {
    "files": [dataclasses.astuple(file) for file in listed],
    "pictures": total,
    "has_urls": has_urls,
    "is_mapped": key_map is not None,
    "problems": problems,
  }


def _merge_entries(folder: pathlib.Path, units: Sequence[Unit]) -> None:
  with files.output(folder / "entries") as entries, files.output(folder / "names") as names:
    for unit in units:
      shift = names.tell()
      with open(unit.of("entries"), "rb") as part:
        while len(rows := np.fromfile(part, ENTRY, 1 << 16)):
          rows["name"] += np.uint64(shift)
          entries.write(rows.tobytes())
      with open(unit.of("names"), "rb") as part:
        shutil.copyfileobj(part, names)


class _Duplicates:
  """Chooses among pictures with one name, and counts the others.

  Where addresses are known, pictures are told apart by their paths, for keys begin anew in each fetch; else by
  their names.
  """

  def __init__(
    self, folder: pathlib.Path, listed: Sequence[File], shifts: np.ndarray, have_urls: Sequence[bool]
  ):
    self._listed = listed
    self._shifts = shifts
    self._have_urls = have_urls
    self.problems: list[Trouble] = []

  def first(self, space: int, numbers: np.ndarray) -> int:
    places = sorted(self._place(number) for number in numbers.tolist())
    if space in (picture_search.STEM, picture_search.BASE):
      for *_, number, path in places[1:]:
        unit = int(np.searchsorted(self._shifts, number, side="right")) - 1
        if self._have_urls[unit] == (space == picture_search.BASE):
          self.problems.append(Trouble("duplicate_picture", path, ""))
          picture_search.check_count(self.problems)
    return places[0][2]

  def _place(self, number: int) -> tuple[int, str, int, str]:
    """What pictures are ordered by: the file's number, the path in a folder, the number; and where it is."""
    self.entries.seek(number * ENTRY.itemsize)
    entry = np.fromfile(self.entries, ENTRY, 1)[0]
    self.names.seek(int(entry["name"]))
    name = os.fsdecode(self.names.read(int(entry["length"])))
    file = self._listed[entry["file"]]
    where = archives.described(file, name, whole=False)
    return int(entry["file"]), name if file.kind == FOLDER else "", number, where


def _add_addresses(units: Sequence[Unit], keys: name_table.Table, urls: name_table.RowWriter) -> bool:
  any_found = False
  for unit in units:
    with open(unit.of("addresses"), "rb") as part:
      for pair in iter(functools.partial(part.read, 32), b""):
        found = keys.find_digest(pair[:16])
        if found is not None:
          urls.add_digest(picture_search.URL, pair[16:], found[0])
          any_found = True
  return any_found


def _add_map(
  path: str | os.PathLike, keys: name_table.Table, urls: name_table.RowWriter, mapped: name_table.RowWriter
) -> bool:
  """Adds the rows of a key map, whose files are looked up, never opened."""
  has_urls = False
  with open(path, "rb") as lines:
    for number, line in enumerate(iter(functools.partial(lines.readline, _MAX_MAP_LINE), b""), 1):
      try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
      except UnicodeDecodeError:
        raise UsageError(f"{path}, line {number:,}: not UTF-8: save the key map as UTF-8") from None
      if not text:
        continue
      key, tab, file = text.partition("\t")
      if not (key and tab and file) or len(line) == _MAX_MAP_LINE:
        raise UsageError(f"{path}, line {number:,}: give a key, a tab and the name of a file")
      found = keys.find(
        picture_search.PATH, "/".join(part for part in file.split("/") if part not in ("", "."))
      )
      found = found or _find_path(keys, file)
      if found is None:
        continue  # it is counted as missing when it is asked for
      if "://" in key:
        urls.add(picture_search.URL, key, found[0])
        has_urls = True
      else:
        mapped.add(picture_search.KEY, _canonical(key), found[0])
  return has_urls


def _first_line(space: int, numbers: np.ndarray) -> int:
  raise UsageError("the key map names a key twice, for two files: keep one line a key")
