"""Finds the text files of a release by name, in a folder, .tar, .tgz or .zip."""

import os
import pathlib
from collections.abc import Collection

from xmcap.corpora.building.problems import Problems
from xmcap.errors import UsageError, XmcapError
from xmcap.files import files
from xmcap.reading import archives, tar_files
from xmcap.reading.archives import FOLDER, PACKED_TAR, File, Found, Trouble
from xmcap.terminal import shown

_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar", ".zip")


def gather(
  path: pathlib.Path, names: Collection[str], folder: pathlib.Path, problems: Problems
) -> dict[str, pathlib.Path]:
  """Finds files by their names at any depth: name -> where it can be read.

  Args:
    path: a folder, an archive or one of the files; a folder without any of the files may have one archive at its top.
    names: names of the wanted files; missing ones are left out.
    folder: receives copies of the files of an archive.
    problems: receives `apple_double` (`._NAME`, in which macOS packs attributes of a file) and `unsafe_path`.

  Raises:
    UsageError: the path is neither, or two files have the same name.
    XmcapError: the archive is damaged, or a file is too long.
  """
  if path.name in names and path.is_file():
    return {path.name: path}
  paths = _gathered(path, names, folder, problems)
  if paths or not path.is_dir():
    return paths
  packed = sorted(entry for entry in path.iterdir() if entry.name.endswith(_SUFFIXES) and entry.is_file())
  packed = [entry for entry in packed if not entry.name.startswith(".")]
  if len(packed) > 1:
    raise UsageError(f"{path}: {packed[0].name} and {packed[1].name}: name one archive, not their folder")
  return _gathered(packed[0], names, folder, problems) if packed else {}


def _gathered(
  path: pathlib.Path, names: Collection[str], folder: pathlib.Path, problems: Problems
) -> dict[str, pathlib.Path]:
  kind = archives.kind_of(path)
  file = File(kind, str(path), str(folder / "unpacked.tar") if kind == PACKED_TAR else "")
  files.make_folder(folder)

  def role_of(inside: str) -> str:
    return "file" if os.path.basename(inside) in names or _is_apple_double(inside) else ""

  entries: dict[str, Found] = {}
  for entry in sorted(tar_files.search(file, role_of), key=lambda entry: entry[0]):  # folders have no order
    if isinstance(entry, Trouble):
      problems.add(*entry)
    elif isinstance(entry, Found):
      name = os.path.basename(entry.path)
      if _is_apple_double(entry.path):
        problems.add("apple_double", f"{path.name}: {shown(entry.path)}")
      elif name in entries:
        both = f"{shown(entries[name].path)} and {shown(entry.path)}"
        raise UsageError(f"{path}: {both} have one name: name the folder of one version")
      else:
        entries[name] = entry
  if kind == FOLDER:
    return {name: path / entry.path for name, entry in entries.items()}
  for name, entry in entries.items():
    if entry.size > archives.MAX_BYTES:
      raise XmcapError(f"{name}: over {archives.MAX_BYTES >> 20} MB: give the release as it was published")
    files.write_bytes(folder / name, archives.read(file, entry))
  return {name: folder / name for name in entries}


def _is_apple_double(inside: str) -> bool:
  return os.path.basename(inside).startswith("._") or inside.startswith("__MACOSX/")
