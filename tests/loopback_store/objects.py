"""Objects with generations as files in a folder: FOLDER/BUCKET/NAME."""

import contextlib
import dataclasses
import os
import pathlib
import re
import threading
import time
from collections.abc import Iterator, Mapping

_PART = ".xmcap-part-"
_MARKER = "%2F"
"""The file of an object whose name ends in a slash, as libraries write them in place of folders."""


_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class InvalidNameError(Exception):
  """A name that is no object's or bucket's here, such as one that leads out of the bucket."""


class PreconditionError(Exception):
  """The object's generation is not the one that the request is for."""


@dataclasses.dataclass(frozen=True)
class Stored:
  """An object; its `generation` grows with every write."""

  name: str
  path: pathlib.Path
  size: int
  generation: int


class Objects:
  """All objects; the folders in `folder` are the buckets.

  An object is replaced as a whole; a request sees all earlier ones, as in Cloud Storage.
  """

  def __init__(self, folder: pathlib.Path):
    self.folder = folder
    self._lock = threading.RLock()
    self._last = 0

  def has_bucket(self, bucket: str) -> bool:
    folder = self.folder / bucket
    return _BUCKET.fullmatch(bucket) is not None and folder.is_dir() and not folder.is_symlink()

  def find(self, bucket: str, name: str) -> Stored | None:
    """The object of a name; None if there is none."""
    path = self._path(bucket, name)
    try:
      state = path.stat()
    except (FileNotFoundError, NotADirectoryError):
      return None
    return Stored(name, path, state.st_size, state.st_mtime_ns) if path.is_file() else None

  def read(self, bucket: str, name: str) -> tuple[Stored, bytes] | None:
    """An object and its data; None if there is none."""
    with self._lock:
      found = self.find(bucket, name)
      return found and (found, found.path.read_bytes())

  def write(self, bucket: str, name: str, data: bytes, conditions: Mapping[str, str]) -> Stored:
    """Replaces an object if the `conditions` (`ifGenerationMatch`, ...) hold, else raises PreconditionError."""
    path = self._path(bucket, name)
    with self._lock:
      self.check(bucket, name, conditions)
      path.parent.mkdir(parents=True, exist_ok=True)
      part = self._root(bucket) / f"{_PART}{threading.get_ident()}"
      part.write_bytes(data)
      # The clock of a file system may stand still between two writes.
      self._last = max(time.time_ns(), self._last + 1)
      os.utime(part, ns=(self._last, self._last))
      part.replace(path)
      return Stored(name, path, len(data), self._last)

  def delete(self, bucket: str, name: str, conditions: Mapping[str, str]) -> bool:
    """Deletes an object; returns whether there was one. Raises as `write`."""
    with self._lock:
      self.check(bucket, name, conditions)
      found = self.find(bucket, name)
      if found is None:
        return False
      found.path.unlink()
      with contextlib.suppress(OSError):  # a folder that still holds objects
        for parent in found.path.relative_to(self.folder / bucket).parents[:-1]:
          (self.folder / bucket / parent).rmdir()
      return True

  def check(self, bucket: str, name: str, conditions: Mapping[str, str]) -> None:
    """Raises PreconditionError if a condition does not hold. The generation of no object is 0."""
    found = self.find(bucket, name)
    generation = str(found.generation) if found else "0"
    wanted, unwanted = conditions.get("ifGenerationMatch"), conditions.get("ifGenerationNotMatch")
    if wanted not in (None, generation) or unwanted == generation:
      raise PreconditionError

  def names(self, bucket: str, prefix: str = "") -> list[str]:
    """The names that begin with a prefix, sorted as in Cloud Storage: by their UTF-8."""
    with self._lock:
      names = [name for name in self._all(bucket, prefix) if name.startswith(prefix)]
    return sorted(names, key=str.encode)

  def _all(self, bucket: str, prefix: str) -> Iterator[str]:
    root = self._root(bucket)
    parts = prefix.split("/")[:-1]
    if "\0" in prefix or not {".", ".."}.isdisjoint(parts):
      raise InvalidNameError(f"no prefix of objects: {prefix}")
    if "" in parts:
      return
    for folder, _, files in os.walk(root.joinpath(*parts)):
      inside = pathlib.Path(folder).relative_to(root).as_posix()
      for file in files:
        name = file if inside == "." else f"{inside}/{file}"
        if not file.startswith(_PART):
          yield name.removesuffix(_MARKER) if file == _MARKER else name

  def _path(self, bucket: str, name: str) -> pathlib.Path:
    parts = name.split("/")
    if "" in parts[:-1] or not {".", ".."}.isdisjoint(parts) or "\0" in name or not name:
      raise InvalidNameError(f"no name of an object: {name}")
    return self._root(bucket).joinpath(*parts[:-1], parts[-1] or _MARKER)

  def _root(self, bucket: str) -> pathlib.Path:
    if not self.has_bucket(bucket):
      raise InvalidNameError(f"no bucket: {bucket}")
    return self.folder / bucket
