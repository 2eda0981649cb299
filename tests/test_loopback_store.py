"""The loopback store through google-cloud-storage and TensorStore of the locked versions."""

import http.client
import io
import os
import pathlib
import subprocess
import sys

import pytest
import tensorstore
from google.api_core import exceptions
from google.cloud import storage

ROOT = pathlib.Path(__file__).parents[1]
PART = 256 << 10


@pytest.fixture
def client(store):
  return storage.Client().bucket("bucket")


def test_loopback_store_takes_a_resumable_upload(client, store):
  data = os.urandom(2 * PART + 1000)
  blob = client.blob("runs/large", chunk_size=PART)
  blob.upload_from_file(io.BytesIO(data))  # its length is not said before the last part
  assert (store.folder / "runs/large").read_bytes() == data
  assert client.blob("runs/large").download_as_bytes() == data
  assert client.blob("runs/large").download_as_bytes(start=PART, end=PART + 9) == data[PART : PART + 10]


@pytest.mark.parametrize("data", [b"", b"\r\n--line ends--\r\n\r\n", bytes(range(256))])
def test_loopback_store_upload_keeps_all_bytes(client, data):
  client.blob("a b/ü").upload_from_string(data)
  assert client.blob("a b/ü").download_as_bytes() == data


def test_generations_and_preconditions(client):
  blob = client.blob("note")
  blob.upload_from_string("one", if_generation_match=0)
  first = blob.generation
  with pytest.raises(exceptions.PreconditionFailed):
    client.blob("note").upload_from_string("two", if_generation_match=0)
  client.blob("note").upload_from_string("two", if_generation_match=first)
  found = client.get_blob("note")
  assert found.generation > first and found.size == 3
  with pytest.raises(exceptions.PreconditionFailed):
    client.blob("note").delete(if_generation_match=first)
  with pytest.raises(exceptions.NotFound):
    client.blob("none").delete()


def test_lists_with_and_without_folders(client):
  names = ["a", "a/", "a/1", "a/b/2", "a/b/3", "a0", "c/4"]
  for name in names:
    if name != "a":  # a file cannot have the name of a folder here, though in Cloud Storage it can
      client.blob(name).upload_from_string("")
  every = [blob.name for blob in client.list_blobs(page_size=2)]
  assert every == names[1:]
  found = client.list_blobs(prefix="a/", delimiter="/", page_size=1)
  assert [blob.name for blob in found] == ["a/", "a/1"] and found.prefixes == {"a/b/"}
  between = client.list_blobs(start_offset="a/1", end_offset="a0")
  assert [blob.name for blob in between] == ["a/1", "a/b/2", "a/b/3"]


def test_loopback_store_renames_objects(client):
  blob = client.blob("old name")
  blob.upload_from_string("text")
  client.rename_blob(blob, "new/name")
  assert [blob.name for blob in client.list_blobs()] == ["new/name"]
  token, rewritten, total = client.blob("third").rewrite(client.blob("new/name"))
  assert (token, rewritten, total) == (None, 4, 4) and client.blob("third").download_as_text() == "text"


def test_tensorstore_writes_on_a_condition(store):
  bucket = tensorstore.KvStore.open({"driver": "gcs", "bucket": "bucket", "path": "d/"}).result()
  first = bucket.write("x", b"1").result()
  second = bucket.write("x", b"2", if_equal=first.generation).result()
  assert second.generation != first.generation
  bucket.write("x", b"3", if_equal=first.generation).result()  # does nothing
  assert bucket.read("x").result().value == b"2"
  bucket.write("y/z", b"3").result()
  assert sorted(bucket.list().result()) == [b"x", b"y/z"]
  bucket.delete_range(tensorstore.KvStore.KeyRange("y", "z")).result()
  assert bucket.list().result() == [b"x"]


def test_loopback_store_command_serves_folders_as_buckets(tmp_path):
  (tmp_path / "my-bucket").mkdir()
  code = (
    "from google.cloud import storage\n"
    "storage.Client().bucket('my-bucket').blob('file').upload_from_string('text')"
  )
  tool = [sys.executable, "-m", "tests.loopback_store", str(tmp_path)]
  subprocess.run([*tool, "--", sys.executable, "-c", code], cwd=ROOT, check=True)
  assert (tmp_path / "my-bucket/file").read_text() == "text"
  assert subprocess.run([*tool, "--", "false"], cwd=ROOT, check=False).returncode == 1


@pytest.mark.parametrize(
  "method, path, headers, status",
  [
    ("GET", "/TOKEN/storage/v1/b/bucket/o?delimiter=/&prefix=..%2Fsecret%2F", {}, 400),
    ("GET", "/TOKEN/storage/v1/b/bucket/o?prefix=%2Fetc%2F", {}, 200),
    ("GET", "/TOKEN/storage/v1/b/bucket/o/..%2F..%2Fsecret%2Ff?alt=media", {}, 400),
    ("GET", "/TOKEN/storage/v1/b/%2E%2E/o", {}, 404),
    ("GET", "/TOKEN/bucket/../secret/f", {}, 400),
    ("PUT", "/TOKEN/%2E%2E/secret/g", {}, 400),
    ("GET", "/TOKEN/storage/v1/b/bucket/o?maxResults=-1", {}, 400),
    ("GET", "/TOKEN/bucket/x", {"Range": "bytes=9-2"}, 400),
    ("GET", "/TOKEN/bucket/x", {"Range": "bytes=" + "9" * 5000}, 400),
    ("POST", "/TOKEN/upload/storage/v1/b/bucket/o?uploadType=multipart", {"Content-Length": "-1"}, 400),
    ("POST", "/TOKEN/upload/storage/v1/b/bucket/o?uploadType=multipart", {"Content-Length": "9" * 12}, 400),
    ("GET", "/storage/v1/b/bucket/o", {}, 401),
    ("GET", "/TOKEN/bucket/x", {"Host": "rebound.example"}, 400),
    ("BREW", "/TOKEN/bucket/x", {}, 501),
  ],
)
def test_loopback_store_refuses_odd_requests(store, method, path, headers, status):
  (store.folder / "x").write_text("object")
  (store.root.parent / "secret").mkdir()
  (store.root.parent / "secret/f").write_text("inner")
  connection = http.client.HTTPConnection(store.host, timeout=20)
  connection.putrequest(method, path.replace("TOKEN", store.token), skip_host="Host" in headers)
  for name, value in headers.items():
    connection.putheader(name, value)
  connection.endheaders()
  answer = connection.getresponse()
  assert answer.status == status and b"inner" not in answer.read()
  assert not (store.root.parent / "secret/g").exists()
