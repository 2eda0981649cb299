"""Finds the images that a command names by files, folders and patterns, and the keys of their captions."""

import collections
import glob
import itertools
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xmcap import terminal, wording
from xmcap.data import images
from xmcap.errors import UsageError, XmcapError
from xmcap.files import addresses, paths
from xmcap.files import keys as keys_lib
from xmcap.files.bucket_paths import epath
from xmcap.reading import archives, image_formats

_START = 64  # bytes that tell whether a file of another name is a picture


def find(names: Sequence[str]) -> dict[str, str]:
  """Finds the images named by files, folders and patterns such as `photos/**/*.jpg`; those of a folder are sorted.

  A folder's images are the files that `archives.PICTURES` names, and others that are images by their first bytes. A
  line says what of a folder is passed over. What cannot be read is not known yet: see `Loader`.

  Returns:
    File -> its path relative to the named folder.

  Raises:
    UsageError: a name matches nothing, or a folder has no images.
  """
  path_of: dict[str, str] = {}
  for name in names:
    for file, path in _files(name):
      path_of.setdefault(file, path)
  return path_of


def check(file: str) -> None:
  """Reads an image; XmcapError if it is not an image, or truncated."""
  images.load(read(file), file, size=1)


def read(file: str) -> bytes:
  """Returns the contents of a file; UsageError if it cannot be read."""
  if not addresses.is_remote(file):
    paths.check_file(file)
  try:
    return epath.Path(file).read_bytes()
  except OSError as error:
    raise UsageError(
      f"{file}: cannot be read ({error.strerror or error}): name a JPEG or PNG file, or a folder of them"
    ) from None


class Loader:
  """Loads the image of a key as a model sees it, uint8 [size, size, 3]; reports what is no image, which is black.

  Args:
    files: key -> file.
    size: side in pixels.

  Attributes:
    broken: keys of the images that could not be read or decoded.
  """

  def __init__(self, files: Mapping[str, str], size: int):
    self.broken: set[str] = set()
    self._files, self._size = files, size

  def __call__(self, key: str) -> np.ndarray:
    file = self._files[key]
    try:
      return images.load(read(file), file, self._size)
    except XmcapError as error:
      self.broken.add(key)
      print(f"left out: {terminal.shown(str(error), limit=None)}", file=sys.stderr)
      return np.zeros((self._size, self._size, 3), np.uint8)


def keys(path_of: Mapping[str, str], kind: str) -> list[str]:
  """Returns the key of each file; UsageError if two files would have the same key.

  The kinds are `key` (as in a corpus of own images), `stem` (the file's name without folder and suffix) and `path`.
  """
  if kind == "path":
    return list(path_of)
  stems = [archives.split_suffix(os.path.basename(path))[0] for path in path_of.values()]
  if kind == "key":
    stems = list(map(keys_lib.normal, stems))
    count = collections.Counter(stems)
    own = [
      stem if count[stem] == 1 and keys_lib.is_safe(stem) else keys_lib.hashed(stem, path)
      for stem, path in zip(stems, path_of.values(), strict=True)
    ]
    count = collections.Counter(own)  # files in several folders may have the same relative path
    return [
      key if count[key] == 1 else keys_lib.hashed(stem, file)
      for key, stem, file in zip(own, stems, path_of, strict=True)
    ]
  count = collections.Counter(stems)
  repeated = [file for file, stem in zip(path_of, stems, strict=True) if count[stem] > 1]
  if repeated:
    raise UsageError(
      f"{wording.count(len(repeated), 'picture')} with the same name as another ({wording.first_few(repeated)}): "
      "rename them, or give --keys=path"
    )
  return stems


def _files(name: str) -> Iterator[tuple[str, str]]:
  """Yields the files that a name matches, and their paths relative to its folder, with `/`."""
  path = epath.Path(name)
  if path.is_dir():
    yield from ((file, os.path.basename(file)) for file in _in_folder(name))
  elif glob.has_magic(name) and not path.exists():
    # Folders that match are skipped, because the pattern may match their contents too.
    files = [file for file in sorted(glob.glob(name, recursive=True)) if not os.path.isdir(file)]
    if not files:
      raise UsageError(f"{name}: no file matches: name a JPEG or PNG file, a folder, or another pattern")
    parts = pathlib.Path(name).parts
    top = os.path.join("", *itertools.takewhile(lambda part: not glob.has_magic(part), parts))
    yield from ((file, pathlib.Path(os.path.relpath(file, top or ".")).as_posix()) for file in files)
  elif not path.exists():
    raise UsageError(f"{name}: cannot be read (no such file): name a JPEG or PNG file, or a folder of them")
  else:
    yield name, os.path.basename(name)


def _in_folder(folder: str) -> list[str]:
  """The images of a folder; UsageError if it has none."""
  images, others, folders = [], [], []
  for file in sorted(epath.Path(folder).iterdir()):
    if file.name.startswith("."):  # of the system, such as ._a.jpg beside a.jpg
      continue
    suffix = archives.split_suffix(file.name)[1]
    if file.is_dir():
      folders.append(file.name)
    elif suffix in archives.PICTURES or (not suffix and image_formats.is_image(_start(file))):
      images.append(os.fspath(file))
    else:
      others.append(file.name)
  parts = [
    f"{wording.count(len(names), noun)} ({wording.first_few(names)})"
    for noun, names in (("file", others), ("folder", folders))
    if names
  ]
  rest = f"no pictures, passed over: {', '.join(parts)}" if parts else ""
  inside = f"; for the pictures in its folders name '{os.path.join(folder, '**/*')}'" if folders else ""
  if not images:
    few = ", ".join(archives.PICTURES[:6])
    raise UsageError(f"{folder}: no pictures in this folder: name one with files such as {few}{inside}")
  if parts:
    print(f"{folder}: {terminal.shown(rest, limit=None)}{inside}", file=sys.stderr)
  return images


def _start(file: epath.Path) -> bytes:
  try:
    with file.open("rb") as opened:
      return opened.read(_START)
  except OSError:
    return b""
