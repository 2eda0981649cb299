"""`epath.Path("gs://...")` by Google's own client instead of TensorFlow, which takes seconds to import.

Import `epath` from here, not from etils: then Orbax and JAX have these paths too. A bucket has no folders: they are the
objects below a name and, as TensorFlow makes them, an empty object whose name ends in a slash. Unlike in gcsfs, nothing
remembers what a folder held, for another host may have written since.
"""

import concurrent.futures
import contextlib
import fnmatch
import functools
import io
import os
from collections.abc import Callable, Iterator
from typing import IO, Any

from etils import epath
from etils.epath import backend, gpath, stat_utils

from xmcap.files import buckets, object_store

__all__ = ["epath"]

_WHOLE = 64 << 20
"""Bytes of a file up to which it is read at once, with its checksum."""

_DELETIONS = 16  # at the same time


class _CloudStorage(backend.Backend):
  """What an `epath.Path` asks of its store; addresses begin with gs://."""

  def open(self, path: Any, mode: str) -> Any:
    return self._opened(path, mode)

  @contextlib.contextmanager
  def _opened(self, path: str, mode: str) -> Iterator[IO[Any]]:
    """A file; what is written becomes an object at the end, if no error was raised."""
    is_text = "b" not in mode
    if "r" in mode:
      blob = self._found(path)
      if (blob.size or 0) > _WHOLE:
        with blob.open(mode, **({"encoding": "utf-8"} if is_text else {})) as stream:
          yield stream
        return
      data = blob.download_as_bytes(retry=_retry())
      yield io.StringIO(data.decode()) if is_text else io.BytesIO(data)
      return
    before = (
      self._found(path).download_as_bytes(retry=_retry())
      if "a" in mode and self._blob(path).exists(retry=_retry())
      else b""
    )
    file = io.StringIO() if is_text else io.BytesIO()
    yield file
    written = file.getvalue()
    self._write(path, before + (written.encode() if isinstance(written, str) else written))

  def exists(self, path: Any) -> bool:
    return self._is_file(path) or self.isdir(path)

  def isdir(self, path: Any) -> bool:
    bucket, key = _parts(path)
    blobs = self._client.list_blobs(bucket, prefix=key and f"{key}/", max_results=1, retry=_retry())
    return next(iter(blobs), None) is not None or (
      not key and self._client.bucket(bucket).exists(retry=_retry())
    )

  def listdir(self, path: Any) -> list[str]:
    bucket, key = _parts(path)
    prefix = key and f"{key}/"
    blobs = self._client.list_blobs(bucket, prefix=prefix, delimiter="/", retry=_retry())
    names = {blob.name for blob in blobs} | {name.rstrip("/") for name in blobs.prefixes}
    if prefix and not names:
      raise FileNotFoundError(f"{path} is missing")
    return sorted(name[len(prefix) :] for name in names if name != prefix)

  def glob(self, path: Any) -> list[str]:
    bucket, key = _parts(path)
    matches = [f"gs://{bucket}"]
    for part in key.split("/"):
      if any(letter in part for letter in "*?["):
        matches = [
          f"{folder}/{name}"
          for folder in matches
          if self.isdir(folder)
          for name in fnmatch.filter(self.listdir(folder), part)
        ]
      else:
        matches = [f"{folder}/{part}" for folder in matches]
    return [one for one in matches if self.exists(one)]

  def walk(
    self, top: Any, *, top_down: bool = True, on_error: Callable[[OSError], object] | None = None
  ) -> Any:
    names = self.listdir(top)
    folders = [name for name in names if self.isdir(f"{top}/{name}")]
    here = (top, folders, [name for name in names if name not in folders])
    if top_down:
      yield here
    for name in folders:
      yield from self.walk(f"{top}/{name}", top_down=top_down, on_error=on_error)
    if not top_down:
      yield here

  def makedirs(self, path: Any, *, exist_ok: bool = False, mode: int | None = None) -> None:
    """Makes the folder and its parents, so that these stay when it is removed."""
    if self.isdir(path):
      if not exist_ok:
        raise FileExistsError(f"{path} already exists")
      return
    bucket, key = _parts(path)
    if parent := key.rpartition("/")[0]:
      self.makedirs(f"gs://{bucket}/{parent}", exist_ok=True)
    if self._is_file(path):
      raise FileExistsError(f"{path} is a file")
    self._write(f"{path.rstrip('/')}/", b"")

  mkdir = makedirs

  def rmtree(self, path: Any) -> None:
    bucket, key = _parts(path)
    blobs = list(self._client.list_blobs(bucket, prefix=f"{key}/", retry=_retry()))
    if not blobs:
      self.remove(path)
      return
    with concurrent.futures.ThreadPoolExecutor(_DELETIONS) as pool:
      list(pool.map(_delete, blobs))

  def remove(self, path: Any) -> None:
    _delete(self._found(path))

  def rename(self, path: Any, dst: Any) -> None:
    if self.exists(dst):
      raise FileExistsError(f"{dst} already exists")
    self.replace(path, dst)

  def replace(self, path: Any, dst: Any) -> None:
    (bucket, key), (to, new) = _parts(path), _parts(dst)
    if self._is_file(path):
      moved = [(self._blob(path), new)]
    else:
      below = self._client.list_blobs(bucket, prefix=f"{key}/", retry=_retry())
      moved = [(blob, new + blob.name[len(key) :]) for blob in below]
    if not moved:
      raise FileNotFoundError(f"{path} is missing")
    for blob, name in moved:
      _copy(blob, self._client.bucket(to).blob(name))
    for blob, _ in moved:
      _delete(blob)

  def copy(self, path: Any, dst: Any, overwrite: bool) -> None:
    target = epath.Path(dst)
    if not overwrite and target.exists():
      raise FileExistsError(f"{dst} already exists")
    target.write_bytes(epath.Path(path).read_bytes())

  def stat(self, path: Any) -> stat_utils.StatResult:
    blob = self._blob(path)
    is_folder = not _loaded(blob)
    if is_folder and not self.isdir(path):
      raise FileNotFoundError(f"{path} is missing")
    return stat_utils.StatResult(
      is_directory=is_folder,
      length=0 if is_folder else blob.size,
      mtime=0 if is_folder else int(blob.updated.timestamp()) if blob.updated else 0,
    )

  @property
  def _client(self) -> Any:
    return _client(os.environ.get("STORAGE_EMULATOR_HOST", ""))

  def _blob(self, path: str) -> Any:
    bucket, key = _parts(path)
    return self._client.bucket(bucket).blob(key + "/" * path.endswith("/"))

  def _is_file(self, path: str) -> bool:
    return bool(_parts(path)[1]) and self._blob(path).exists(retry=_retry())

  def _found(self, path: str) -> Any:
    blob = self._blob(path)
    if not _loaded(blob):
      raise FileNotFoundError(f"{path} is missing")
    return blob

  def _write(self, path: str, data: bytes) -> None:
    self._blob(path).upload_from_string(data, retry=_retry())


_STORE = _CloudStorage()


@epath.register_path_cls("gs://")
class BucketPath(gpath.PosixGPath):
  """A path in a bucket of Cloud Storage."""

  @property
  def _backend(self) -> backend.Backend:
    return _STORE if self._uri_scheme == "gs" else super()._backend


@functools.cache
def _client(server: str) -> Any:
  """The client of this process for a server, which it finds itself."""
  return buckets.client()


def _retry() -> Any:
  """How long a failed request is repeated; as objects are written whole, that changes nothing."""
  from google.cloud.storage.retry import DEFAULT_RETRY

  return DEFAULT_RETRY.with_timeout(object_store.ObjectStore().seconds)


def _parts(path: str) -> tuple[str, str]:
  """The bucket and the name of an object or folder, which does not end in a slash."""
  bucket, _, key = path.removeprefix("gs://").partition("/")
  return bucket, key.rstrip("/")


def _loaded(blob: Any) -> bool:
  """Whether the object exists; then its size and times are known."""
  from google.cloud.exceptions import NotFound

  if not blob.name:
    return False
  try:
    blob.reload(retry=_retry())
  except NotFound:
    return False
  return True


def _delete(blob: Any) -> None:
  from google.cloud.exceptions import NotFound

  with contextlib.suppress(NotFound):  # another host was faster
    blob.delete(retry=_retry())


def _copy(blob: Any, target: Any) -> None:
  token = None
  while True:
    token, _, _ = target.rewrite(blob, token=token, retry=_retry())
    if token is None:
      return
