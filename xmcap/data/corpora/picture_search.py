"""The search for the pictures of a release: every archive, or folder in a folder, by one process into files of its own.

Of unit 7, `parts/00007.json` says what was found, and is written last, so that a search that was killed goes on with
the units that are not whole; `.entries` and `.names` say where each picture lies and its path there; `.keys` and
`.bases` are rows of names (name_table.py), and `.addresses` pairs of hashes, a path's and an address's.
"""

import dataclasses
import json
import os
import pathlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xmcap.data import files, workers
from xmcap.data.corpora import archives, name_table, tar_files
from xmcap.data.corpora.archives import FOLDER, PACKED_TAR, TAR, Address, File, Found, Trouble
from xmcap.errors import UsageError, XmcapError
from xmcap.processes import Killed

# The kinds of names that pictures have: the whole path, the last folder with the name, the name without its suffix,
# the file's number with the path without its suffix, and those that addresses and key maps give.
PATH, TAIL, STEM, BASE, URL, KEY = range(1, 7)

ENTRY = np.dtype(
  [
    *(("file", "<u4"), ("crc", "<u4"), ("offset", "<u8"), ("size", "<u8"), ("packed", "<u8")),
    *(("name", "<u8"), ("length", "<u8")),  # where its path lies among the names
  ]
)
"""Where a picture lies: the number of its file, then as in `archives.Found`."""

ENTRY_FORMAT = struct.Struct("<IIQQQQQ")
"""The same for `struct`."""

VERSION = 1
"""Of these files; other versions are made anew."""

MAX_PROBLEMS = 200_000
"""A place with more entries that are refused, or given twice, is no release; they are held in memory."""

_MAX_UNITS = 4_096  # folders in a folder that are searched by themselves


@dataclasses.dataclass(frozen=True)
class Unit:
  """What one process searches.

  Attributes:
    file_number: place of `file` in the list of files.
    file: an archive or a folder.
    part: its part files, without their endings.
    inside: of a folder, the folder in it that is searched; "" for itself.
    below: whether the folders in that are searched too.
    alone: whether the file is a release of its own, and not one of many.
    paths: whether whole paths are names, as key maps need.
  """

  file_number: int
  file: File
  part: pathlib.Path
  inside: str = ""
  below: bool = True
  alone: bool = True
  paths: bool = False

  def fingerprint(self) -> list:
    """What changes when there may be something else to find; OSError if it is not there."""
    path = os.path.join(self.file.path, self.inside) if self.inside else self.file.path
    return [*archives.fingerprint(path), self.file_number, self.below, self.paths, VERSION]

  def of(self, suffix: str) -> pathlib.Path:
    """One of its part files."""
    return self.part.with_name(f"{self.part.name}.{suffix}")


def find_units(
  places: Sequence[str | os.PathLike], folder: pathlib.Path, paths: bool
) -> tuple[list[File], list[Unit]]:
  """The files of places, and the units of their search; a folder with .tar files at its top is those files.

  Args:
    places: as for `pictures.open_pictures`.
    folder: for part files and what is unpacked.
    paths: as in `Unit`.

  Raises:
    UsageError: a place is not there, or is no folder or archive.
  """
  listed: list[File] = []
  units: list[Unit] = []

  def add(kind: str, path: str, **more: Any) -> None:
    unpacked = str(folder / f"unpacked-{len(listed):05d}.bin") if kind == PACKED_TAR else ""
    listed.append(File(kind, path, unpacked))
    add_unit(**more)

  def add_unit(**more: Any) -> None:
    part = folder / "parts" / f"{len(units):05d}"
    units.append(Unit(len(listed) - 1, listed[-1], part, paths=paths, **more))

  for place in places:
    path = os.path.abspath(place)
    kind = archives.kind_of(place)
    if kind != FOLDER:
      add(kind, path)
      continue
    tars, inside = _inside(path)
    for name in tars:
      add(TAR, os.path.join(path, name), alone=False)
    if not tars:
      many = len(inside) > _MAX_UNITS
      add(FOLDER, path, below=many)
      for name in () if many else inside:
        add_unit(inside=name)
  if not units:
    raise UsageError("no place to look for pictures: name a folder or an archive")
  return listed, units


def _inside(path: str) -> tuple[list[str], list[str]]:
  """The .tar files and the folders in a folder, by name."""
  tars, inside = [], []
  try:
    with os.scandir(path) as entries:
      for entry in entries:
        if entry.name.startswith(".") or entry.name == "__MACOSX":
          continue
        if entry.is_dir():
          inside.append(entry.name)
        elif entry.name.endswith(".tar"):
          tars.append(entry.name)
  except OSError as error:
    raise UsageError(f"{path}: {error.strerror}: name a folder that can be read") from None
  return sorted(tars), sorted(inside)


def search(units: Sequence[Unit], processes: int | None, progress: Callable[[str], None]) -> None:
  """Searches all units that were not searched before; XmcapError where an archive is damaged or the disk is full."""
  processes = min(processes or files.available_cores(), len(units))
  total = 0
  try:
    for done, count in enumerate(_searched(units, processes), 1):
      total += count
      progress(f"pictures: {done:,} of {len(units):,} archives and folders searched, {total:,} found")
  except Killed:
    raise XmcapError(
      "a process that searched for pictures was killed, perhaps for memory: use fewer processes"
    ) from None


def _searched(units: Sequence[Unit], processes: int) -> Iterator[int]:
  if processes <= 1:
    yield from map(_search, units)
    return
  with workers.pool(processes) as pool:
    yield from pool.map(_search, units)


def _search(unit: Unit) -> int:
  """Searches a unit into its part files, if that has not been done; returns the number of pictures."""
  fingerprint = unit.fingerprint()
  about = read_json(unit.of("json"))
  if about is not None and about["fingerprint"] == fingerprint:
    return about["pictures"]
  pictures = addresses = written = 0
  problems: list[Trouble] = []
  with (
    files.output(unit.of("entries")) as entries,
    files.output(unit.of("names")) as names,
    files.output(unit.of("addresses")) as address_file,
    name_table.RowWriter(unit.of("keys")) as keys,
    name_table.RowWriter(unit.of("bases")) as bases,
  ):
    for found in _entries_of(unit):
      if isinstance(found, Trouble):
        problems.append(found)
        check_count(problems)
      elif isinstance(found, Address):
        base = name_table.digest(BASE, f"{unit.file_number}/{found.stem}")
        address_file.write(base + name_table.digest(URL, found.url))
        addresses += 1
      else:
        name = found.path.encode("utf-8", "surrogateescape")
        about = (unit.file_number, found.crc, found.offset, found.size, found.packed, written, len(name))
        entries.write(ENTRY_FORMAT.pack(*about))
        names.write(name)
        written += len(name)
        _add_names(keys, bases, unit, found.path, pictures)
        pictures += 1
  about = {"fingerprint": fingerprint, "pictures": pictures, "addresses": addresses, "problems": problems}
  files.write_text(unit.of("json"), json.dumps(about))
  return pictures


def _entries_of(unit: Unit) -> Iterator[Found | Address | Trouble]:
  path = unit.file.path
  if unit.file.kind == FOLDER:
    return archives.search_folder(path, unit.inside, unit.below)
  if unit.file.kind == archives.ZIP:
    return archives.search_zip(path)
  return tar_files.search_tar(path, unit.alone, unit.file.unpacked)


def _add_names(
  keys: name_table.RowWriter, bases: name_table.RowWriter, unit: Unit, path: str, number: int
) -> None:
  folder, _, name = path.rpartition("/")
  keys.add(TAIL, f"{folder.rpartition('/')[2] or unit.file.name}/{name}", number)
  keys.add(STEM, archives.split_suffix(name)[0], number)
  if unit.paths:
    keys.add(PATH, path, number)
  bases.add(BASE, f"{unit.file_number}/{archives.split_suffix(path)[0]}", number)


def check_count(problems: Sequence[Trouble]) -> None:
  """Raises XmcapError where there are more problems than can be held."""
  if len(problems) > MAX_PROBLEMS:
    last = problems[-1]
    raise XmcapError(
      f"{last.where}: more than {MAX_PROBLEMS:,} pictures with problems ({last.kind}): name each place of pictures "
      "once, and none that is not of the release"
    )


def read_json(path: pathlib.Path) -> Any:
  """What a file of ours holds; None if it is not there, or not whole."""
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError):
    return None
