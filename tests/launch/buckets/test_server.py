"""The server as Google's own clients see it: google-cloud-storage, TensorStore and TensorFlow (the locked versions)."""

import io
import json
import os
import subprocess
import sys

import pytest
import tensorstore
from google.api_core import exceptions
from google.cloud import storage

from xmcap.launch.buckets import process

PART = 256 << 10


@pytest.fixture
def client(bucket):
  return storage.Client().bucket("bucket")


def test_an_upload_in_parts(client, bucket):
  data = os.urandom(2 * PART + 1000)
  blob = client.blob("runs/large", chunk_size=PART)
  blob.upload_from_file(io.BytesIO(data))  # its length is not said before the last part
  assert (bucket.folder / "runs/large").read_bytes() == data
  assert client.blob("runs/large").download_as_bytes() == data
  assert client.blob("runs/large").download_as_bytes(start=PART, end=PART + 9) == data[PART : PART + 10]


@pytest.mark.parametrize("data", [b"", b"\r\n--line ends--\r\n\r\n", bytes(range(256))])
def test_an_upload_at_once_keeps_all_bytes(client, data):
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


def test_a_rename_is_a_copy_and_a_delete(client):
  blob = client.blob("old name")
  blob.upload_from_string("text")
  client.rename_blob(blob, "new/name")
  assert [blob.name for blob in client.list_blobs()] == ["new/name"]
  token, rewritten, total = client.blob("third").rewrite(client.blob("new/name"))
  assert (token, rewritten, total) == (None, 4, 4) and client.blob("third").download_as_text() == "text"


def test_tensorstore_writes_on_a_condition(bucket):
  store = tensorstore.KvStore.open({"driver": "gcs", "bucket": "bucket", "path": "d/"}).result()
  first = store.write("x", b"1").result()
  second = store.write("x", b"2", if_equal=first.generation).result()
  assert second.generation != first.generation
  store.write("x", b"3", if_equal=first.generation).result()  # does nothing
  assert store.read("x").result().value == b"2"
  store.write("y/z", b"3").result()
  assert sorted(store.list().result()) == [b"x", b"y/z"]
  store.delete_range(tensorstore.KvStore.KeyRange("y", "z")).result()
  assert store.list().result() == [b"x"]


def test_tensorflow_finds_what_it_finds_on_a_disk(bucket, tmp_path):
  import tensorflow as tf

  gfile, said = tf.io.gfile, {}
  for root in (str(tmp_path / "disk"), "gs://bucket/disk"):
    gfile.makedirs(f"{root}/a/empty")
    for name, text in (("a/one", "1" * 700_000), ("a/b/two", ""), ("a/b/c/three", "3")):
      gfile.makedirs(os.path.dirname(f"{root}/{name}"))
      with gfile.GFile(f"{root}/{name}", "w") as file:
        file.write(text)
    gfile.rename(f"{root}/a/b", f"{root}/moved")
    gfile.rename(f"{root}/a/one", f"{root}/moved/one", overwrite=True)
    gfile.makedirs(f"{root}/gone/below")
    gfile.rmtree(f"{root}/gone")
    walked = [(top.removeprefix(root).strip("/"), sorted(name.strip("/") for name in [*folders, *files]))
              for top, folders, files in gfile.walk(root)]  # fmt: skip
    sizes = [gfile.stat(f"{root}/moved/{name}").length for name in ("one", "two", "c/three")]
    said[root[:2]] = (sorted(walked), sizes, gfile.exists(f"{root}/gone"), gfile.isdir(f"{root}/moved"))
  assert said["gs"] == said[str(tmp_path)[:2]]


def test_only_its_bucket_is_served_and_the_server_ends_with_its_launcher(tmp_path):
  for name in ("bucket", "beside"):
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_text(name)
  with process.served(tmp_path / "bucket") as found_by:
    code = (
      "from google.cloud import storage; import json; client = storage.Client()\n"
      "print(json.dumps([client.bucket(name).blob('file').exists() for name in ('bucket', 'beside')]))"
    )
    ended = subprocess.run(
      [sys.executable, "-c", code], env={**os.environ, **found_by}, capture_output=True, text=True
    )
    assert json.loads(ended.stdout) == [True, False]
