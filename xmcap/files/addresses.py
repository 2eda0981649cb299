"""Addresses of files: a local path, or an object such as gs://BUCKET/FOLDER/NAME.

An address is a string: `pathlib` would collapse the slashes of gs://. Hence the `join` and `parent` of this module.
"""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from xmcap.files import buckets, files, object_store, paths

Address = str | os.PathLike


def is_remote(address: Address) -> bool:
  """Whether an address is an object in a store rather than a local path. UsageError for an unknown scheme."""
  paths.check_scheme(address)
  return "://" in os.fspath(address)


def join(folder: Address, *names: str) -> str:
  """Returns the address of a file in a folder."""
  return os.path.join(os.fspath(folder), *names)


def parent(address: Address) -> str:
  """Returns the folder of a file."""
  return os.path.dirname(os.fspath(address).rstrip("/")) or "."


def absolute(address: Address) -> str:
  """Makes a local path absolute and expands `~`; leaves other addresses alone."""
  return os.fspath(address) if is_remote(address) else os.path.abspath(os.path.expanduser(os.fspath(address)))


def is_file(address: Address) -> bool:
  """Whether the file exists. XmcapError if the store does not answer."""
  return object_store.exists(os.fspath(address)) if is_remote(address) else os.path.isfile(address)


def names(folder: Address) -> list[str]:
  """Returns the sorted names of the files in a folder, [] if there are none. XmcapError if the store does not answer.

  For a local folder the names of its subfolders are included.
  """
  if is_remote(folder):
    return object_store.names(os.fspath(folder))
  try:
    return sorted(os.listdir(folder))
  except (FileNotFoundError, NotADirectoryError):
    return []


def folders(folder: Address) -> list[str]:
  """Returns the sorted names of the subfolders of a folder, [] if there are none. Raises as `names`."""
  if is_remote(folder):
    return object_store.names(os.fspath(folder), folders=True)
  return [name for name in names(folder) if os.path.isdir(join(folder, name))]


def read_bytes(address: Address, most: int = -1) -> bytes:
  """Returns the contents of a file; of a local one `most` bytes, if given.

  Raises OSError if a local file cannot be read, UsageError if it is a pipe; FileNotFoundError or XmcapError for an
  object.
  """
  if is_remote(address):
    return object_store.Read(os.fspath(address)).result()
  paths.check_file(address)
  with open(address, "rb") as file:
    return file.read(most)


def read_text(address: Address) -> str:
  """Returns the contents of a UTF-8 file with its line ends. Raises as `read_bytes`, and UnicodeDecodeError."""
  return read_bytes(address).decode("utf-8")


@contextlib.contextmanager
def local_copy(address: Address) -> Iterator[str]:
  """Gives a local path for readers that need one; the copy of an object is removed at the end.

  The copy keeps the file's name, and with it the suffix. Raises as `read_bytes`.
  """
  if not is_remote(address):
    yield os.fspath(address)
    return
  with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
    copy = pathlib.Path(folder, os.path.basename(address))
    files.write_bytes(copy, read_bytes(address))
    yield str(copy)


@contextlib.contextmanager
def local_folder(folder: Address) -> Iterator[pathlib.Path]:
  """Gives a local folder to write into; its files are copied to a folder in a bucket at the end, also after an error.

  A local folder is given itself. Raises as `buckets.explaining` if the files cannot be copied.
  """
  if not is_remote(folder):
    yield pathlib.Path(folder)
    return
  from xmcap.files.bucket_paths import epath

  with tempfile.TemporaryDirectory(prefix="xmcap-") as local:
    root = pathlib.Path(local)
    try:
      yield root
    finally:
      with buckets.explaining(os.fspath(folder)):
        for file in sorted(path for path in root.rglob("*") if path.is_file()):
          files.write_anywhere(epath.Path(join(folder, file.relative_to(root).as_posix())), file.read_bytes())
