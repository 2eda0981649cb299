"""Checks that a run can write to a bucket, before anything is paid for."""

import contextlib
import importlib.util
import secrets
from collections.abc import Iterator
from typing import Any

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import paths, refusals

_SECONDS = 20.0
"""For each request, with its retries."""


def check_writable(address: str) -> None:
  """Reads a bucket's settings, lists a folder, and writes, reads, lists, overwrites and deletes one object there.

  These are the operations of a run, by the credentials of this process: those of Google's libraries, which are not
  those of the command `gcloud`.

  Args:
    address: `gs://BUCKET/FOLDER`; the folder need not exist.

  Raises:
    UsageError: in one line, which operation is refused and which permission is missing; there is no such bucket or no
      credentials; the bucket is of a kind that Orbax cannot use here; or the address is not in Cloud Storage.
    RestartError: the bucket does not answer.
  """
  bucket, folder = _bucket_and_folder(address)
  prefix = folder.strip("/") + "/" if folder.strip("/") else ""
  # A name that nobody else has, and that a run in the folder does not read.
  name = f"{prefix}.xmcap-write-test-{secrets.token_hex(8)}"
  with explaining(address):
    _check(bucket, prefix, name)


def check_address(address: str) -> None:
  """Raises the UsageError of `check_writable` for an address that is not in Cloud Storage; asks no store."""
  _bucket_and_folder(address)


def client() -> Any:
  """Returns Google's client, without credentials if there are none, as for public buckets."""
  from google.auth.exceptions import DefaultCredentialsError
  from google.cloud import storage

  try:
    return storage.Client(project=None)  # one would be needed only to list buckets
  except DefaultCredentialsError:
    return storage.Client.create_anonymous_client()


@contextlib.contextmanager
def explaining(address: str = "") -> Iterator[None]:
  """Turns the errors of a bucket's libraries into `refusals.explained`; others pass."""
  try:
    yield
  except XmcapError:
    raise
  except Exception as error:  # each library raises its own types
    refusal = refusals.explained(error, address)
    if refusal is None:
      raise
    raise refusal from error


def _bucket_and_folder(address: str) -> tuple[str, str]:
  paths.check_scheme(address)
  scheme, _, place = address.partition("://")
  bucket, _, folder = place.partition("/")
  if scheme != "gs" or not bucket:
    raise UsageError(
      f"{address}: a run writes to a folder or to gs://BUCKET/FOLDER: its checkpoints cannot be kept in another store"
    )
  return bucket, folder


def _check(bucket_name: str, prefix: str, name: str) -> None:
  from google.cloud import storage
  from google.cloud.storage.retry import DEFAULT_RETRY

  limits: dict[str, Any] = {"timeout": _SECONDS, "retry": DEFAULT_RETRY.with_timeout(_SECONDS)}
  # As Orbax does, which asks for the bucket when it deletes a checkpoint.
  client = storage.Client()
  bucket = client.get_bucket(bucket_name, **limits)
  if bucket.hierarchical_namespace_enabled and not _can_delete_folders():
    raise UsageError(
      f"gs://{bucket_name}: has a hierarchical namespace, whose folders Orbax deletes by google-cloud-storage-control:"
      " install that, or make a bucket without --enable-hierarchical-namespace"
    )
  blob = bucket.blob(name)
  next(iter(client.list_blobs(bucket, prefix=prefix, max_results=1, **limits)), None)
  data = b"xmcap"
  blob.upload_from_string(data, **limits)
  try:
    blob.upload_from_string(data, **limits)
    if (content := blob.download_as_bytes(**limits)) != data:
      raise XmcapError(
        f"gs://{bucket_name}/{name}: {one_line(Exception(repr(content)))} was read after {data!r} was written"
      )
  finally:
    blob.delete(**limits)


def _can_delete_folders() -> bool:
  return importlib.util.find_spec("google.cloud.storage_control_v2") is not None
