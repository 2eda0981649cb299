"""Addresses of files: a path of this machine, or an object such as gs://BUCKET/FOLDER/NAME.

An address is text. `pathlib` would take a slash out of gs://, so a name is joined to an address here.
"""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from xmcap.storage import files, object_store

Address = str | os.PathLike


def is_remote(address: Address) -> bool:
  """Whether an address is an object's, not a path of this machine."""
  return "://" in os.fspath(address)


def join(folder: Address, *names: str) -> str:
  """The address of what lies in a folder."""
  if not is_remote(folder):
    return os.path.join(os.fspath(folder), *names)
  return "/".join([os.fspath(folder).rstrip("/"), *names])


def parent(address: Address) -> str:
  """The folder that a file lies in."""
  if not is_remote(address):
    return os.path.dirname(os.fspath(address)) or "."
  return os.fspath(address).rstrip("/").rpartition("/")[0]


def absolute(address: Address) -> str:
  """The address from any folder: a path is made absolute, `~` in it expanded."""
  return os.fspath(address) if is_remote(address) else os.path.abspath(os.path.expanduser(os.fspath(address)))


def is_file(address: Address) -> bool:
  """Whether there is such a file. XmcapError if the store does not answer."""
  return object_store.exists(os.fspath(address)) if is_remote(address) else os.path.isfile(address)


def names(folder: Address) -> list[str]:
  """The names of the files in a folder, sorted; [] where there are none. XmcapError if the store does not answer.

  Of a folder of this machine those of its folders are among them.
  """
  if is_remote(folder):
    return object_store.names(os.fspath(folder))
  try:
    return sorted(os.listdir(folder))
  except (FileNotFoundError, NotADirectoryError):
    return []


def folders(folder: Address) -> list[str]:
  """The names of the folders in a folder, sorted; [] where there are none. XmcapError as `names`."""
  if is_remote(folder):
    return object_store.names(os.fspath(folder), folders=True)
  return [name for name in names(folder) if os.path.isdir(join(folder, name))]


def read_bytes(address: Address) -> bytes:
  """The contents of a file; OSError if a local one cannot be read, XmcapError or FileNotFoundError for an object."""
  if is_remote(address):
    return object_store.Read(os.fspath(address)).result().data
  with open(address, "rb") as file:
    return file.read()


def read_text(address: Address) -> str:
  """The contents of a UTF-8 file, line ends as they are. Raises as `read_bytes`, and UnicodeDecodeError."""
  return read_bytes(address).decode("utf-8")


@contextlib.contextmanager
def local_copy(address: Address) -> Iterator[str]:
  """A path of this machine with the contents of a file, for readers of local files; an object's copy goes at the end.

  The copy keeps its name, so that its kind is known by it. Raises as `read_bytes`.
  """
  if not is_remote(address):
    yield os.fspath(address)
    return
  with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
    copy = pathlib.Path(folder, os.fspath(address).rstrip("/").rpartition("/")[2])
    files.write_bytes(copy, read_bytes(address))
    yield str(copy)
