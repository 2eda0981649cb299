"""The pictures that a command names: files, folders and patterns, and the keys that their captions get."""

import collections
import glob
import os
from collections.abc import Iterator, Sequence

from etils import epath

from xmcap.data import images
from xmcap.errors import UsageError
from xmcap.scoring import files as files_lib

ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")
"""Of the files in a folder that are pictures; others are passed over."""

KEYS = ("stem", "path")
"""The kinds of keys: a file's name without folder and ending, or the file as it was found."""


def find(names: Sequence[str]) -> list[str]:
  """Returns the pictures of files, folders and patterns such as `photos/**/*.jpg`, each once, a folder's by name.

  Raises:
    UsageError: a name is of nothing, or of something that is no picture.
  """
  found = list(dict.fromkeys(file for name in names for file in _files(name)))
  for file in found:
    images.check(read(file), file)
  return found


def read(file: str) -> bytes:
  """Returns the contents of a file; UsageError if it cannot be read."""
  try:
    return epath.Path(file).read_bytes()
  except OSError as error:
    raise UsageError(
      f"{file}: cannot be read ({error.strerror or error}): name a JPEG or PNG file, or a folder of them"
    ) from None


def keys(found: Sequence[str], kind: str) -> list[str]:
  """Returns the key of each file, of one of `KEYS`; UsageError if two files would have the same."""
  if kind == "path":
    return list(found)
  stems = [os.path.splitext(os.path.basename(file))[0] for file in found]
  count = collections.Counter(stems)
  repeated = [file for file, stem in zip(found, stems, strict=True) if count[stem] > 1]
  if repeated:
    raise UsageError(
      f"{files_lib.count(len(repeated), 'picture')} with the name of another ({files_lib.first_few(repeated)}): rename "
      "them, or give --keys=path"
    )
  return stems


def _files(name: str) -> Iterator[str]:
  path = epath.Path(name)
  if path.is_dir():
    inside = sorted(os.fspath(file) for file in path.iterdir())
    inside = [file for file in inside if file.lower().endswith(ENDINGS) and not epath.Path(file).is_dir()]
    if not inside:
      raise UsageError(f"{name}: no picture in this folder: name one with {', '.join(ENDINGS)} files")
    yield from inside
  elif glob.has_magic(name) and not path.exists():
    # A folder that matches is passed over, as the pattern may name what is in it too.
    matching = [file for file in sorted(glob.glob(name, recursive=True)) if not os.path.isdir(file)]
    if not matching:
      raise UsageError(f"{name}: no file is called so: name a JPEG or PNG file, a folder, or another pattern")
    yield from matching
  else:
    yield name
