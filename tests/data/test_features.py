import pickle
import struct

import numpy as np
import pytest
from safetensors import numpy

from xmcap.data import features, record_features
from xmcap.data.features import Features
from xmcap.data.records import RecordSource, parse_columns
from xmcap.errors import UsageError, XmcapError
from xmcap.files import files
from xmcap.reading import embedding_files

KEYS = ("COCO_train2014_000000296735", "b", "ç d")


@pytest.fixture
def vectors() -> np.ndarray:
  return np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def big_file(path, ids="a b c", rows=3, width=2, data=None) -> str:
  """Writes a BigFile as `struct` and the standard library see it, independent of xmcap's writer."""
  path.mkdir()
  data = struct.pack("<6f", 1, 2, 3, 4, 5, 6) if data is None else data
  (path / "feature.bin").write_bytes(data)
  (path / "id.txt").write_text(ids)
  (path / "shape.txt").write_text(f"{rows} {width}")
  return str(path)


def refused(path) -> str:
  with pytest.raises(UsageError) as error:
    features.read(path)
  assert "\n" not in str(error.value)
  return str(error.value)


def test_safetensors_are_read_back_memory_mapped(tmp_path, vectors):
  features.write(tmp_path / "f.safetensors", Features(KEYS, vectors), metadata={"crops": "10"})
  found = features.read(tmp_path / "f.safetensors")
  assert found.keys == KEYS
  np.testing.assert_array_equal(found.vectors, vectors)
  assert isinstance(found.vectors, np.memmap)


def test_scoring_reads_safetensors_features(tmp_path, vectors):
  features.write(tmp_path / "f.safetensors", Features(KEYS, vectors))
  np.testing.assert_array_equal(embedding_files.read(tmp_path / "f.safetensors"), vectors)


def test_big_file_is_read(tmp_path):
  found = features.read(big_file(tmp_path / "f"))
  assert found.keys == ("a", "b", "c")
  np.testing.assert_array_equal(found.vectors, [[1, 2], [3, 4], [5, 6]])


def test_big_file_is_written_as_published(tmp_path):
  features.write(tmp_path / "f", Features(("a", "b"), np.ones((2, 3), np.float32)), "bigfile")
  assert (tmp_path / "f/feature.bin").read_bytes() == struct.pack("<6f", *[1] * 6)
  assert (tmp_path / "f/id.txt").read_text() == "a b"
  assert (tmp_path / "f/shape.txt").read_text() == "2 3"


def test_failed_write_of_a_big_file_keeps_the_old_one(tmp_path, monkeypatch):
  features.write(tmp_path / "f", Features(("a", "b"), np.ones((2, 3), np.float32)), "bigfile")

  def full(path, text):
    raise XmcapError("full")

  monkeypatch.setattr(files, "write_text", full)
  with pytest.raises(XmcapError, match="full"):
    features.write(tmp_path / "f", Features(("c", "d"), np.zeros((2, 3), np.float32)), "bigfile")
  found = features.read(tmp_path / "f")
  assert found.keys == ("a", "b") and found.vectors.all()


def test_big_file_cannot_hold_keys_with_whitespace(tmp_path, vectors):
  with pytest.raises(UsageError, match="1 key with whitespace"):
    features.write(tmp_path / "f", Features(KEYS, vectors), "bigfile")


def test_embeddings_of_xmcap_embed_are_read(tmp_path, vectors):
  np.save(tmp_path / "pictures.npy", vectors)
  (tmp_path / "keys.txt").write_text("".join(f"{key}\n" for key in KEYS))
  found = features.read(tmp_path)
  assert found.keys == KEYS
  np.testing.assert_array_equal(found.vectors, vectors)


@pytest.mark.parametrize(
  "arguments, message",
  [
    (dict(data=b"\0" * 23), "has 23 bytes, but 3 x 2 float32 numbers of shape.txt take 24"),
    (dict(rows=2), "id.txt has 3 ids, but shape.txt says 2 rows"),
    (dict(ids="a b a"), "1 key repeated (a)"),
    (dict(data=struct.pack("<6f", 1, 2, 3, float("nan"), 5, 6)), "'b' (row 1) holds NaN or infinity"),
    (dict(data=struct.pack("<6f", 1, 2, 3, 4, 5, float("inf"))), "'c' (row 2) holds NaN or infinity"),
    (dict(data=struct.pack("<6f", 1, 2, 3e19, 4, 5, 6)), "'b' (row 1) is longer than 1.8e19"),
    (dict(data=pickle.dumps([1.0] * 6)), "a pickle, which can run code"),
    (dict(rows="3 2"), 'must hold two numbers, "rows width"'),
    (dict(rows=-3), 'must hold two numbers, "rows width"'),
    (dict(ids="", rows=0, data=b""), "is empty"),
  ],
)  # fmt: skip
def test_a_wrong_big_file_is_refused_in_one_line(tmp_path, arguments, message):
  assert message in refused(big_file(tmp_path / "f", **arguments))


@pytest.mark.parametrize("name", ["feature.bin", "id.txt", "shape.txt"])
def test_a_missing_file_of_a_big_file_is_named(tmp_path, name):
  path = big_file(tmp_path / "f")
  (tmp_path / "f" / name).unlink()
  assert f"{name} is missing" in refused(path)


def test_embeddings_in_float16_or_big_endian_stay_memory_mapped(tmp_path, vectors):
  (tmp_path / "keys.txt").write_text("".join(f"{key}\n" for key in KEYS))
  for dtype in ("<f2", ">f4"):
    np.save(tmp_path / "pictures.npy", vectors.astype(dtype))
    found = features.read(tmp_path)
    assert isinstance(found.vectors, np.memmap)
    rows = features.of_keys(found, KEYS[::-1], "a", "b")
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, vectors.astype(dtype)[::-1])
  np.save(tmp_path / "pictures.npy", vectors.astype(np.float64) * 1e300)
  assert "longer than 1.8e19" in refused(tmp_path)


def _pickle(folder):
  (folder / "f.pkl").write_bytes(pickle.dumps({"a": [1.0]}))
  return folder / "f.pkl"


def _objects(folder):
  np.save(folder / "pictures.npy", np.array([{"a": 1}], object), allow_pickle=True)
  (folder / "keys.txt").write_text("a\n")
  return folder


def _tensors(folder, **tensors):
  numpy.save_file({"embeddings": np.ones((2, 2), np.float32), **tensors}, folder / "f.safetensors")
  return folder / "f.safetensors"


@pytest.mark.parametrize(
  ("write", "message"),
  [
    (_pickle, "a pickle"),
    (_objects, "Python objects"),
    (_tensors, "has embeddings, not 'embeddings' and 'keys'"),
    (lambda folder: _tensors(folder, keys=np.frombuffer(b"a\n", np.uint8)), "1 key for 2 vectors"),
    (lambda folder: folder / "absent", "no such file or folder"),
    (lambda folder: folder, "no vectors in this folder"),
  ],
)
def test_unusable_vectors_are_refused_in_one_line(tmp_path, write, message):
  assert message in refused(write(tmp_path))


def test_vectors_follow_the_records_of_a_split(tmp_path, tiny_dir):
  source = RecordSource(tiny_dir, "train[:5]")
  keys = [record.key for record in source]
  mixed = (*keys[::-1], "another")
  features.write(tmp_path / "f.safetensors", Features(mixed, np.arange(6, dtype=np.float32)[:, None]))
  np.testing.assert_array_equal(
    record_features.of_source(tmp_path / "f.safetensors", source).vectors[:, 0], [4, 3, 2, 1, 0]
  )


def test_vectors_in_the_order_of_the_records_are_not_copied(tmp_path, tiny_dir):
  source = RecordSource(tiny_dir, "train[2:5]")
  keys = tuple(record.key for record in RecordSource(tiny_dir, "train"))
  features.write(tmp_path / "f.safetensors", Features(keys, np.arange(len(keys), dtype=np.float32)[:, None]))
  found = record_features.of_source(tmp_path / "f.safetensors", source)
  assert isinstance(found.vectors, np.memmap) and found.keys == keys[2:5]
  np.testing.assert_array_equal(found.vectors[:, 0], [2, 3, 4])


def test_keys_of_a_large_split_are_compared_by_a_sample(tmp_path, tiny_dir, monkeypatch):
  source = RecordSource(tiny_dir, "train")
  keys = [record.key for record in source]
  read = []
  monkeypatch.setattr(record_features, "_COMPARED", 3)
  monkeypatch.setattr(record_features, "parse_columns", lambda data: read.append(0) or parse_columns(data))
  for name, order, count in (("same", keys, 3), ("reversed", keys[::-1], 3 + len(keys))):
    features.write(
      tmp_path / f"{name}.safetensors", Features((*order,), np.arange(24, dtype=np.float32)[:, None])
    )
    found = record_features.of_source(tmp_path / f"{name}.safetensors", source)
    assert found.keys == (*keys,) and len(read) == count
    np.testing.assert_array_equal(found.vectors[:, 0], [order.index(key) for key in keys])
    read.clear()


def test_missing_pictures_are_counted_and_named(tmp_path, tiny_dir):
  source = RecordSource(tiny_dir, "train[:5]")
  features.write(tmp_path / "f.safetensors", Features((source[2].key,), np.ones((1, 2), np.float32)))
  with pytest.raises(
    UsageError, match="no vectors of 4 pictures of 5 in split 'train.:5.'.*" + source[0].key
  ):
    record_features.of_source(tmp_path / "f.safetensors", source)
