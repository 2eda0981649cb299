"""Impossible names of files, named pipes and mistyped schemes: a one-line error of every function."""

import os

import numpy as np
import pytest

from xmcap.data import features, vocabulary
from xmcap.errors import UsageError
from xmcap.evaluation import image_files
from xmcap.evaluation.captioning import ImageCaptioner
from xmcap.families.dual import tokenizer_files
from xmcap.files import addresses, buckets, files, outputs
from xmcap.reading import archives, embedding_files
from xmcap.scoring import score, write, write_predictions

_VECTORS = features.Features(("a", "b"), np.ones((2, 3), np.float32))
_READERS = {
  "a picture": lambda path: ImageCaptioner.load(object.__new__(ImageCaptioner), path),
  "a picture of a command": image_files.read,
  "a vocabulary": vocabulary.read_model,
  "vectors": features.read,
  "embeddings": embedding_files.map_npy,
  "pictures": archives.kind_of,
  "pieces": tokenizer_files.read_pieces,
  "bytes": addresses.read_bytes,
}
_WRITERS = {
  "predictions": lambda path: write_predictions(path, [("1", {"en": "a"})]),
  "vectors": lambda path: features.write(path, _VECTORS),
  "a BigFile": lambda path: features.write(path, _VECTORS, "bigfile"),
  "scores": lambda path: write(
    score({"1": {"en": ["a dog"]}}, {"1": {"en": "a dog"}}, metrics=["cider_d"]), path
  ),
  "a folder": lambda path: files.make_folder(files.pathlib.Path(path)),
  "a lock": lambda path: outputs.check_path(path),
}


@pytest.mark.parametrize("name", ["a\0b.npy", "half\ud800.npy"])
@pytest.mark.parametrize("read", _READERS)
def test_readers_refuse_names_with_nul_or_surrogates(read, name):
  with pytest.raises(UsageError, match="no file can have this name|no such file") as error:
    _READERS[read](name)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a\0b", "half\ud800"])
@pytest.mark.parametrize("to", _WRITERS)
def test_writers_refuse_names_with_nul_or_surrogates(to, name):
  with pytest.raises(UsageError, match="no file can have this name: it holds a (NUL|lone surrogate)"):
    _WRITERS[to](name)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("read", _READERS)
def test_readers_do_not_wait_for_a_named_pipe(read, tmp_path):
  os.mkfifo(tmp_path / "pipe.npy")
  with pytest.raises(UsageError, match="a pipe or a device|no such file"):
    _READERS[read](str(tmp_path / "pipe.npy"))


@pytest.mark.parametrize("address", ["g://b/x", "gcs://b/x", "GS://b/x", "gs:/b/x", "gss://b"])
def test_a_mistyped_scheme_is_said_with_the_one_that_was_meant(address):
  scheme = address[: -len(address.lstrip("GgcSs:/"))]
  for ask in (addresses.is_remote, addresses.absolute, buckets.check_writable, outputs.check_path):
    with pytest.raises(UsageError, match=f"^{address}: unknown scheme '{scheme}'; did you mean gs://\\?$"):
      ask(address)


def test_known_schemes_and_local_paths_are_accepted():
  for remote in ("gs://bucket-b", "s3://bucket-b/x", "memory://b/x", "https://b.c/x"):
    assert addresses.is_remote(remote)
  for path in ("gs/b", "a:b/c", "/a/gs:/b", "C:/gs", ""):
    assert not addresses.is_remote(path)
  with pytest.raises(UsageError, match="unknown scheme 'abc://' here: give a path, gs://BUCKET"):
    addresses.is_remote("abc://b")


def test_lone_surrogates_are_not_written(tmp_path):
  with pytest.raises(UsageError, match=r"out.jsonl: a text holds a lone surrogate .*\\ud800"):
    write_predictions(tmp_path / "out.jsonl", [("1", {"en": "a \ud800 b"})])
  with pytest.raises(UsageError, match=r"out.safetensors: a text holds a lone surrogate"):
    features.write(tmp_path / "out.safetensors", _VECTORS._replace(keys=("a", "\udcff")))
  assert list(tmp_path.iterdir()) == []
