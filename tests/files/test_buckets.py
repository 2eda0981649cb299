"""Refusals of buckets (permissions, credentials, outages) as one-line errors of any library."""

import re

import pytest

from tests.make.command import xmcap
from xmcap.errors import RestartError, UsageError
from xmcap.files import addresses, buckets, refusals
from xmcap.files.bucket_paths import epath

GRANT = "gcloud storage buckets add-iam-policy-binding gs://bucket --role=roles/storage."
ACCOUNT = "run@project.iam.gserviceaccount.com"


def test_check_writable_leaves_the_bucket_unchanged(store):
  buckets.check_writable("gs://bucket/runs/bb")
  assert store.names() == []


@pytest.mark.parametrize("permission", refusals.OPERATIONS)
def test_the_missing_permission_is_named_with_its_role(store, permission):
  store.refuse(permission)
  with pytest.raises(UsageError) as error:
    buckets.check_writable("gs://bucket/runs/bb")
  role = "legacyBucketReader" if permission == "storage.buckets.get" else "objectUser"
  line = str(error.value)
  assert f"gs://bucket: {refusals.OPERATIONS[permission]} is refused: {ACCOUNT} lacks {permission}," in line
  assert line.endswith(f"`{GRANT}{role} --member=serviceAccount:{ACCOUNT}`") and "\n" not in line


def test_check_writable_refuses_missing_buckets_and_other_stores(store):
  with pytest.raises(UsageError, match="^gs://nowhere: there is no such bucket: create it"):
    buckets.check_writable("gs://nowhere/runs")
  store.refuse(*refusals.OPERATIONS, status=401)
  with pytest.raises(
    UsageError, match="^gs://bucket: .*no valid credentials.*: log in with `gcloud auth app"
  ):
    buckets.check_writable("gs://bucket/runs")
  with pytest.raises(UsageError, match="^s3://bucket/runs: a run writes to a folder or to gs://"):
    buckets.check_writable("s3://bucket/runs")


def test_check_writable_without_google_credentials(monkeypatch):
  from google.auth import exceptions

  def none(*_args, **_kwargs):
    raise exceptions.DefaultCredentialsError("Your default credentials were not found. To set up ...")

  monkeypatch.setattr("google.cloud.storage.Client", none)
  with pytest.raises(UsageError, match="^gs://bucket: no valid credentials for it .*GOOGLE_APPLICATION_CRED"):
    buckets.check_writable("gs://bucket/runs")


@pytest.mark.parametrize("permission", ["storage.objects.get", "storage.objects.list"])
def test_reading_a_bucket_without_permission_is_one_line(store, permission):
  (store.folder / "file").write_text("text")
  store.refuse(permission)
  with pytest.raises(UsageError, match=rf"^gs://bucket: .* is refused: .* lacks {permission}"):
    addresses.read_bytes("gs://bucket/file")
    addresses.names("gs://bucket")


@pytest.mark.parametrize("permission", ["storage.objects.create", "storage.objects.delete"])
def test_writing_a_bucket_path_without_permission_is_one_line(store, permission):
  file = epath.Path("gs://bucket/file")
  file.write_text("text")
  store.refuse(permission)
  refused = pytest.raises(UsageError, match=rf"^gs://bucket: .* is refused: {ACCOUNT} lacks {permission}")
  with refused, buckets.explaining():
    file.write_text("other")


def test_unavailable_bucket_is_a_restart_error():
  error = type("UnavailableError", (Exception,), {})(
    "Error executing an HTTP request: HTTP response code 503 with body 'Service Unavailable' when uploading gs://bucket/x"
  )
  known = refusals.explained(error)
  assert isinstance(known, RestartError) and "gs://bucket: uploading failed" in str(known)


@pytest.mark.parametrize(
  "error", [ValueError("shape (500,) differs"), OSError(28, "No space"), KeyError("connect")]
)
def test_other_errors_are_not_of_a_bucket(error):
  assert refusals.explained(error, "gs://bucket/run") is None


def test_bucket_refusal_is_found_in_the_cause_of_an_error():
  try:
    try:
      raise ValueError("HTTP response code: 403: x does not have storage.objects.get access, gs://data/x")
    except ValueError as inner:
      raise RuntimeError("a batch could not be read") from inner
  except RuntimeError as error:
    known = refusals.explained(error)
  assert re.search("gs://data: reading is refused: .* lacks storage.objects.get", str(known))


def test_train_refuses_a_bucket_without_permission(store):
  store.refuse("storage.objects.delete")
  flags = ("--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin")
  refused = xmcap("train", *flags, "--gin.DATA_DIR=/nowhere", "--gin.MODEL_DIR=gs://bucket/run")
  (line,) = refused.refused().err.splitlines()
  assert line.startswith("xmcap: error: gs://bucket: deleting or overwriting is refused: ")
