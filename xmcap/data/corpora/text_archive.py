"""Finds the text files of a release by name, in a folder, .tar, .tgz or .zip.

Names in an archive never become paths: members are copied under the names that the caller asks for.
"""

import os
import pathlib
import zipfile
from collections.abc import Callable, Collection, Iterator
from typing import IO

from xmcap.data.corpora import archives, tar_files
from xmcap.data.corpora.archives import FOLDER, PACKED_TAR, ZIP, File
from xmcap.data.corpora.problems import Problems
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import files
from xmcap.terminal import shown

MAX_BYTES = 256 << 20
"""Limit of a text file in an archive; the longest of COCO-CN has about 30 MB."""

_PIECE = 1 << 20
_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar", ".zip")

_Member = tuple[str, Callable[[pathlib.Path], pathlib.Path]]
"""Path of a member, and what brings it to a place (or returns where it lies); a path is called no other way."""


def gather(
  path: pathlib.Path, names: Collection[str], folder: pathlib.Path, problems: Problems
) -> dict[str, pathlib.Path]:
  """Finds files by their names at any depth: name -> where it can be read.

  Args:
    path: a folder, or an archive; a folder that has none of the files may have one archive at its top.
    names: of the files wanted; those that are not there are left out.
    folder: takes copies of the members of an archive.
    problems: gets `apple_double` (`._NAME`, the attributes that macOS packs beside a file) and `unsafe_path`.

  Raises:
    UsageError: the path is neither, or two files have one name.
    XmcapError: the archive is damaged, or a member is too long.
  """
  found = _gathered(path, names, folder, problems)
  if not found and path.is_dir():
    packed = sorted(entry for entry in path.iterdir() if entry.name.endswith(_SUFFIXES) and entry.is_file())
    packed = [entry for entry in packed if not entry.name.startswith(".")]
    if len(packed) > 1:
      raise UsageError(f"{path}: {packed[0].name} and {packed[1].name}: name one archive, not their folder")
    if packed:
      return _gathered(packed[0], names, folder, problems)
  return found


def _gathered(
  path: pathlib.Path, names: Collection[str], folder: pathlib.Path, problems: Problems
) -> dict[str, pathlib.Path]:
  kind = archives.kind_of(path)
  files.make_folder(folder)
  if kind == FOLDER:
    members = _of_folder(path)
  elif kind == ZIP:
    members = _of_zip(path, problems)
  else:
    members = _of_tar(
      File(kind, str(path), str(folder / "unpacked.tar") if kind == PACKED_TAR else ""), problems
    )
  found: dict[str, pathlib.Path] = {}
  seen: dict[str, str] = {}
  for inside, bring in members:
    name = inside.rpartition("/")[2]
    if name.startswith("._") or inside.startswith("__MACOSX/"):
      problems.add("apple_double", f"{path.name}: {shown(inside)}")
    elif name in names:
      if name in seen:
        raise UsageError(
          f"{path}: {shown(seen[name])} and {shown(inside)} have one name: name the folder of one version"
        )
      seen[name] = inside
      found[name] = bring(folder / name)
  return found


def _of_folder(path: pathlib.Path) -> Iterator[_Member]:
  for top, folders, names in os.walk(path):
    folders.sort()
    for name in sorted(names):
      place = pathlib.Path(top, name)
      if place.is_file():
        yield place.relative_to(path).as_posix(), lambda _, place=place: place


def _of_tar(file: File, problems: Problems) -> Iterator[_Member]:
  if file.kind == PACKED_TAR:
    tar_files.unpack(file.path, file.unpacked)
  try:
    with archives.Bounded(file.unpacked or file.path, max(tar_files.MAX_HEADER, _PIECE)) as opened:
      for member, inside in tar_files.members(opened):
        if inside is None:
          problems.add(*archives.unsafe(member.name, file.path))
        elif member.isreg():
          start, size = member.offset_data, member.size

          def bring(place: pathlib.Path, start: int = start, size: int = size) -> pathlib.Path:
            back = opened.tell()
            opened.seek(start)
            _copy(opened, place, size)
            opened.seek(back)
            return place

          yield inside, bring
  except tar_files.DAMAGE as error:
    raise _damaged(file.path, error) from None


def _of_zip(path: pathlib.Path, problems: Problems) -> Iterator[_Member]:
  try:
    with archives.Bounded(str(path), archives.MAX_DIRECTORY) as file, zipfile.ZipFile(file) as archive:
      for info in archive.infolist():
        inside = archives.safe_path(info.filename)
        if inside is None:
          problems.add(*archives.unsafe(info.filename, str(path)))
        elif not info.is_dir():

          def bring(place: pathlib.Path, info: zipfile.ZipInfo = info) -> pathlib.Path:
            with archive.open(info) as member:
              _copy(member, place, info.file_size)
            return place

          yield inside, bring
  except (*tar_files.DAMAGE, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
    raise _damaged(str(path), error) from None


def _copy(member: IO[bytes], place: pathlib.Path, size: int) -> None:
  if size > MAX_BYTES:
    raise XmcapError(f"{place.name}: over {MAX_BYTES >> 20} MB: give the release as it was published")
  with files.output(place) as copy:
    while size:
      piece = member.read(min(size, _PIECE))
      if not piece:
        raise EOFError(f"{place.name} is cut off")
      copy.write(piece)
      size -= len(piece)


def _damaged(path: str, error: Exception) -> XmcapError:
  return XmcapError(f"{path}: a damaged archive ({archives.reason_of(error)}): get it again")
