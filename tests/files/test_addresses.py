"""Addresses: local paths and objects of a store are read alike; retries and one-line errors."""

import fsspec
import gin
import pytest

from tests import loopback_store
from xmcap.errors import RestartError, UsageError, XmcapError
from xmcap.files import addresses, object_store

DATA = bytes(range(200))


@pytest.fixture(params=["local", "s3", "gs", "memory"])
def folder(request, store, tmp_path):
  """A folder with the files `name with space` and `empty`, at each kind of address."""
  if request.param == "memory":
    system = fsspec.filesystem("memory")
    system.pipe({"/bucket/a/name with space": DATA, "/bucket/a/empty": b""})
    yield "memory://bucket/a"
    system.rm("/bucket", recursive=True)
    return
  path = tmp_path / "store" / "bucket" / "a"
  path.mkdir()
  (path / "name with space").write_bytes(DATA)
  (path / "empty").write_bytes(b"")
  yield str(path) if request.param == "local" else f"{request.param}://bucket/a"


@pytest.fixture
def patient():
  """Tries are few and short."""
  with gin.unlock_config():
    gin.parse_config(["ObjectStore.seconds = 2", "ObjectStore.timeout_seconds = 0.3"])


def test_addresses_of_a_folder_and_its_files(folder):
  file = addresses.join(folder, "name with space")
  assert addresses.names(folder) == ["empty", "name with space"]
  assert addresses.folders(addresses.parent(folder)) == ["a"]
  assert addresses.read_bytes(file) == DATA
  assert addresses.read_text(addresses.join(folder, "empty")) == ""
  assert addresses.is_file(file) and not addresses.is_file(addresses.join(folder, "absent"))
  assert addresses.parent(file) == folder
  with addresses.local_copy(file) as path, open(path, "rb") as copy:
    assert copy.read() == DATA and path.endswith("/name with space")


def test_missing_address_is_a_file_not_found_error(folder):
  assert addresses.names(addresses.join(folder, "absent")) == []
  with pytest.raises(FileNotFoundError, match="absent"):
    addresses.read_bytes(addresses.join(folder, "absent"))


def test_a_name_is_joined_to_an_address_with_one_slash():
  assert addresses.join("gs://bucket/a/", "b", "c") == "gs://bucket/a/b/c"
  assert addresses.join("gs://bucket", "b") == "gs://bucket/b"
  assert addresses.absolute("gs://bucket/a") == "gs://bucket/a"


@pytest.mark.parametrize("folder", ["s3", "gs", "memory"], indirect=True)
def test_object_store_read_of_ranges(folder):
  file = addresses.join(folder, "name with space")
  assert object_store.Read(file, 10, 20).result() == DATA[10:20]
  assert object_store.Read(file, 190).result() == DATA[190:]
  for start, stop in ((195, 205), (300, 310)):
    with pytest.raises(object_store.ShortObjectError, match="name with space is shorter than it should be"):
      object_store.Read(file, start, stop).result()


@pytest.mark.parametrize("folder", ["s3", "memory"], indirect=True)
def test_an_object_is_written_as_a_whole(folder):
  file = addresses.join(folder, "name with space")
  for data in (b"other bytes", DATA * 1000):
    object_store.write(file, data)
    assert addresses.read_bytes(file) == data
  object_store.write(addresses.join(folder, "new"), b"")
  assert addresses.names(folder) == ["empty", "name with space", "new"]


def test_refused_object_write_is_one_line(store, patient):
  with pytest.raises(
    XmcapError, match=r"^gs://nowhere/file cannot be written \(.*\): check its name .*[^\n]$"
  ):
    object_store.write("gs://nowhere/file", DATA)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
@pytest.mark.parametrize("fault", [loopback_store.unavailable, loopback_store.cut, loopback_store.slow(1)])
def test_object_read_is_retried_after_a_fault(store, patient, scheme, fault):
  (store.folder / "file").write_bytes(DATA)
  store.faults["file"].append(fault)
  assert object_store.Read(f"{scheme}://bucket/file", 5, 150).result() == DATA[5:150]
  assert len(store.requests) == 2


def test_object_read_that_keeps_failing_is_one_line(store, patient):
  (store.folder / "file").write_bytes(DATA)
  store.faults["file"] += [loopback_store.unavailable] * 99
  with pytest.raises(RestartError, match=r"^s3://bucket/file cannot be read \(.*; tried for 2 s\): .*[^\n]$"):
    addresses.read_bytes("s3://bucket/file")
  store.faults["file"].clear()
  store.faults["file"] += [loopback_store.slow(1)] * 99
  with pytest.raises(RestartError, match=r"no answer within 0.3 seconds; tried for 2 s"):
    addresses.read_bytes("s3://bucket/file")


def test_unreachable_object_store_is_one_line(store, patient, monkeypatch):
  monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
  object_store._backend_of.cache_clear()
  with pytest.raises(XmcapError, match="s3://bucket/file cannot be read .*tried for 2 s"):
    addresses.read_bytes("s3://bucket/file")


def test_object_reads_are_concurrent(store):
  store.latency = 0.5  # on a busy machine, some reads begin late
  (store.folder / "file").write_bytes(DATA)
  reads = [object_store.Read("s3://bucket/file", place, place + 1) for place in range(40)]
  assert b"".join(read.result() for read in reads) == DATA[:40]
  assert store.most_at_once > 10


@pytest.mark.parametrize("address", ["nonsense://bucket/file", "gs:///file"])
def test_invalid_addresses_are_refused(address):
  with pytest.raises(XmcapError, match="unknown scheme|names no bucket"):
    addresses.read_bytes(address)


def test_invalid_object_store_settings_are_refused():
  with pytest.raises(UsageError, match="must be above 0"):
    object_store.ObjectStore(seconds=0)
