"""Concurrent reads of byte ranges of objects, and writes: gs:// and s3:// by TensorStore, other addresses by fsspec.

TensorStore works in its own threads, without the interpreter lock. It finds credentials as Google's and Amazon's
clients do. As for those clients, STORAGE_EMULATOR_HOST or AWS_ENDPOINT_URL names another server.
"""

import concurrent.futures
import dataclasses
import functools
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import gin

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import attempts, buckets, paths, ramp, refusals

T = TypeVar("T")

_TENSORSTORE = ("gs", "s3")
_FINAL = (
  "PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNIMPLEMENTED", "NOT_FOUND",
)  # fmt: skip
_TOO_MANY = re.compile(r"\b(429|503)\b|RESOURCE_EXHAUSTED|SlowDown")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class ObjectStore:
  """Settings for reading and writing objects.

  Attributes:
    requests: concurrent reads of this process, per kind of store.
    timeout_seconds: a read that takes longer is started again.
    seconds: how long a request that fails is tried again, after pauses of random lengths up to 32 seconds.
    first_reads: reads a second at first, of all processes of a run together; 0: as many as they can.
    doubling_minutes: after so long there may be twice as many, unless the store refuses some.
  """

  requests: int = 128
  timeout_seconds: float = 30.0
  seconds: float = 600.0
  first_reads: float = 4000.0
  doubling_minutes: float = 20.0

  def __post_init__(self):
    if self.requests < 1 or self.seconds <= 0 or self.timeout_seconds <= 0:
      raise UsageError(
        f"ObjectStore.requests={self.requests}, .seconds={self.seconds}, "
        f".timeout_seconds={self.timeout_seconds}: each must be above 0"
      )
    if self.first_reads < 0 or self.doubling_minutes <= 0:
      raise UsageError(
        f"ObjectStore.first_reads={self.first_reads}, .doubling_minutes={self.doubling_minutes}: give at least 0, and "
        "above 0"
      )


class ShortObjectError(XmcapError):
  """The object is shorter than the requested range."""


class Read:
  """A read in progress of the bytes from `start` to `stop`; None: to the end."""

  def __init__(self, address: str, start: int = 0, stop: int | None = None):
    self.address = address
    self._range = slice(start, stop)
    self._future = self._begun(_backend_of(address.split("://")[0], ObjectStore().requests))

  def result(self) -> bytes:
    """Returns the bytes; called again, it reads them again.

    FileNotFoundError, ShortObjectError, XmcapError if the store refuses, or RestartError if it does not answer in time.
    """
    data = _tried(self.address, self._wait)
    start, stop = self._range.start, self._range.stop
    if stop is not None and len(data) != stop - start:
      raise ShortObjectError(f"{self.address} is shorter than it should be: copy it again")
    return data

  def _wait(self, backend: Any, seconds: float) -> bytes:
    future, self._future = self._future, None
    future = future or self._begun(backend)
    try:
      return backend.finish(future, seconds)
    except TimeoutError:
      future.cancel()
      raise

  def _begun(self, backend: Any) -> Any:
    _ramp_to(self.address).wait()
    return backend.begin(self.address, self._range)

  def cancel(self) -> None:
    """Cancels the read."""
    if self._future is not None:
      self._future.cancel()


def names(folder: str, folders: bool = False) -> list[str]:
  """Returns the sorted names of the objects, or the folders, directly in a folder; [] if there are none.

  XmcapError as `Read`.
  """
  return _tried(folder, lambda backend, seconds: sorted(backend.names(folder, folders, seconds)))


def exists(address: str) -> bool:
  """Whether the object exists. XmcapError as `Read`."""
  return _tried(address, lambda backend, seconds: backend.exists(address, seconds))


def write(address: str, data: bytes) -> None:
  """Writes an object; it appears or is replaced as a whole. XmcapError as `Read`."""
  _tried(address, lambda backend, seconds: backend.write(address, data, seconds), "written")


def _tried(address: str, ask: Callable[[Any, float], T], done: str = "read") -> T:
  """Calls `ask(store, timeout in seconds)` with the retries of `ObjectStore`, and returns its result.

  `done` says in errors what cannot be done with the object.
  """
  settings = ObjectStore()
  scheme, bucket = address.split("://")[0], _parts(address)[0]
  backend, rate = _backend_of(scheme, settings.requests), _ramp_to(address)
  with attempts.Attempts(_outage(f"{scheme}://{bucket}"), address, settings.seconds) as trying:
    while True:
      try:
        answer = ask(backend, settings.timeout_seconds)
        rate.answered()
        return answer
      except FileNotFoundError:
        raise FileNotFoundError(f"{address} is missing") from None
      except TimeoutError:
        reason = f"no answer within {settings.timeout_seconds:g} seconds"
      except Exception as error:  # fsspec's stores raise their own libraries' errors
        reason = one_line(error)
        if "OUT_OF_RANGE" in reason:
          raise ShortObjectError(f"{address} is shorter than it should be: copy it again") from None
        if isinstance(refusal := refusals.explained(error, address), UsageError):
          raise refusal from None
        if isinstance(error, UsageError | PermissionError) or reason.startswith(_FINAL):
          raise XmcapError(
            f"{address} cannot be {done} ({reason}): check its name and your permissions"
          ) from None
      if _TOO_MANY.search(reason):
        rate.refused()
      trying.failed(done, reason)


class _TensorStore:
  """Objects of gs:// and s3://."""

  def __init__(self, scheme: str, requests: int):
    import tensorstore  # takes half a second, and local files do not need it

    self._tensorstore = tensorstore
    self._driver = "gcs" if scheme == "gs" else "s3"
    settings = {
      f"{self._driver}_request_retries": {"max_retries": 0, "initial_delay": "100ms", "max_delay": "100ms"},
      f"{self._driver}_request_concurrency": {"limit": requests},
    }
    self._context = tensorstore.Context(settings)  # `_tried` tries again
    self._store = functools.cache(self._opened)

  def begin(self, address: str, part: slice):
    bucket, key = _parts(address)
    whole = part.start == 0 and part.stop is None
    return self._store(bucket).read(key, byte_range=None if whole else part)

  def finish(self, future, timeout: float) -> bytes:
    result = future.result(timeout=timeout)
    if result.state == "missing":
      raise FileNotFoundError
    return result.value

  def exists(self, address: str, timeout: float) -> bool:
    bucket, key = _parts(address)
    nothing = slice(0, 0)  # asks for the object's state alone
    return self._store(bucket).read(key, byte_range=nothing).result(timeout=timeout).state != "missing"

  def write(self, address: str, data: bytes, timeout: float) -> None:
    bucket, key = _parts(address)
    self._store(bucket).write(key, data).result(timeout=timeout)

  def names(self, folder: str, folders: bool, timeout: float) -> set[str]:
    bucket, key = _parts(folder)
    prefix = key.rstrip("/") + "/" if key else ""
    # "0" follows "/".
    keys = self._tensorstore.KvStore.KeyRange(prefix, prefix[:-1] + "0") if prefix else None
    listed = self._store(bucket).list(keys, strip_prefix_length=len(prefix)).result(timeout=timeout)
    if not listed and self._driver == "gcs":
      _check_list(bucket, prefix, timeout)
    parts = [name.partition("/") for name in map(bytes.decode, listed) if name]
    return {name for name, slash, _ in parts if bool(slash) == folders}

  def _opened(self, bucket: str):
    spec: dict[str, Any] = {"driver": self._driver, "bucket": bucket}
    if self._driver == "s3":
      if "AWS_ACCESS_KEY_ID" in os.environ:
        spec["aws_credentials"] = {"type": "environment"}
      region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
      endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
      if endpoint:
        spec |= {"endpoint": endpoint, "aws_region": region or "us-east-1"}
      elif region:
        spec["aws_region"] = region
    elif "STORAGE_EMULATOR_HOST" in os.environ:
      host = os.environ["STORAGE_EMULATOR_HOST"]
      os.environ["TENSORSTORE_GCS_HTTP_URL"] = host if "://" in host else f"http://{host}"
    return self._tensorstore.KvStore.open(spec, context=self._context).result()


def _check_list(bucket: str, prefix: str, timeout: float) -> None:
  """Raises if a list is refused, or of no bucket: TensorStore (0.1.86) takes Google's refusal for an empty list."""
  options: dict[str, Any] = {"timeout": timeout, "retry": None}  # `_tried` tries again
  next(iter(buckets.client().list_blobs(bucket, prefix=prefix, max_results=1, **options)), None)


class _Fsspec:
  """Objects of all other schemes."""

  def __init__(self, scheme: str, requests: int):
    import fsspec

    try:
      self._system = fsspec.filesystem(scheme)
    except (ImportError, ValueError) as error:
      raise UsageError(
        f"{scheme}:// cannot be read ({one_line(error)}): copy the files to a folder, gs:// or s3://"
      ) from None
    self._pool = concurrent.futures.ThreadPoolExecutor(min(requests, 64))

  def begin(self, address: str, part: slice):
    return self._pool.submit(self._read, address, part)

  def finish(self, future: concurrent.futures.Future[bytes], timeout: float) -> bytes:
    return future.result(timeout=timeout)

  def exists(self, address: str, timeout: float) -> bool:
    return self._pool.submit(self._system.isfile, address).result(timeout=timeout)

  def write(self, address: str, data: bytes, timeout: float) -> None:
    self._pool.submit(self._system.pipe_file, address, data).result(timeout=timeout)

  def names(self, folder: str, folders: bool, timeout: float) -> set[str]:
    listed = self._pool.submit(lambda: list(self._system.ls(folder, detail=True)))
    try:
      entries = listed.result(timeout=timeout)
    except FileNotFoundError:
      return set()
    chosen = [str(entry["name"]) for entry in entries if (entry["type"] == "directory") == folders]
    return {name.rstrip("/").rpartition("/")[2] for name in chosen}

  def _read(self, address: str, part: slice) -> bytes:
    return self._system.cat_file(address, start=part.start or None, end=part.stop)


@functools.cache
def _backend_of(scheme: str, requests: int) -> _TensorStore | _Fsspec:
  return (_TensorStore if scheme in _TENSORSTORE else _Fsspec)(scheme, requests)


_outage = functools.cache(attempts.Outage)


def _ramp_to(address: str) -> ramp.Ramp:
  """The ramp of this process to a store."""
  settings = ObjectStore()
  store = address.split("://")[0], _parts(address)[0]
  return _ramp(store, settings.first_reads / ramp.sharing(), 60 * settings.doubling_minutes)


@functools.cache
def _ramp(store: tuple[str, str], rate: float, doubling: float) -> ramp.Ramp:
  del store  # for the cache
  return ramp.Ramp(rate, doubling)


def _parts(address: str) -> tuple[str, str]:
  """Returns the bucket and key of an address; UsageError if no bucket can have that name."""
  paths.check_scheme(address)
  bucket, _, key = address.split("://", 1)[1].partition("/")
  return bucket, key
