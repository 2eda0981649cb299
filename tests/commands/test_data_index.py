"""`xmcap data index`, `data build` and its `--vocabulary`: the same files; wrong use is one line."""

import os
import shutil

import pytest

from tests.corpora import release_folders as releases
from tests.make import tiny_corpus
from tests.make.command import xmcap
from xmcap.data import length_index, record_writer
from xmcap.data.records import RecordSource
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError


@pytest.fixture(scope="module")
def tiny_dir(tmp_path_factory) -> str:
  pictures = [tiny_corpus.tiny_record(index) for index in range(tiny_corpus.NUM_PICTURES)]
  return tiny_corpus.write_corpus(tmp_path_factory.mktemp("tiny"), pictures)


def contents(folder):
  return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_data_index_of_a_corpus_with_its_vocabulary(tmp_path, tiny_dir):
  corpus = shutil.copytree(tiny_dir, tmp_path / "corpus")
  xmcap("data", "index", corpus).succeeded(
    "lengths of captions, 84 in train (",
    "1 files of records, of which 0 were indexed now",
    "train: records counted for the index: 24 of 24",
  )
  assert os.path.isdir(length_index.folder_of(corpus, "train", Vocabulary(f"{corpus}/vocabulary.model")))


@pytest.mark.parametrize(
  "arguments, words",
  [
    (["{empty}"], "empty: not a corpus"),
    (["{tiny}", "--vocabulary={tiny}/tags.txt"], "tags.txt: not a SentencePiece model"),
    (["{tiny}", "--splits=test"], "has no split 'test'"),
    (["{tiny}", "--processes=0"], "--processes=0: give a number from 1"),
  ],
)
def test_data_index_usage_errors_are_one_line(tmp_path, tiny_dir, arguments, words):
  (tmp_path / "empty").mkdir()
  places = {"empty": tmp_path / "empty", "tiny": tiny_dir}
  xmcap("data", "index", *(argument.format(**places) for argument in arguments)).refused(words)


def test_data_index_of_a_corpus_of_an_earlier_version(tmp_path, tiny_dir):
  corpus = shutil.copytree(tiny_dir, tmp_path / "corpus")
  (corpus / "vocabulary.model").unlink()
  (index,) = corpus.glob("*.index")
  built = index.read_bytes()
  index.unlink()
  assert len(RecordSource(corpus).read(range(24))) == 24
  indexed = xmcap("data", "index", corpus, "--processes=1").succeeded()
  assert indexed.out == f"{corpus}: 1 files of records, of which 1 were indexed now\n"
  assert index.read_bytes() == built and not (corpus / "lengths").exists()


def test_data_index_refuses_unsuitable_array_records(tmp_path, tiny_dir, monkeypatch):
  monkeypatch.setattr(record_writer, "_WRITER_OPTIONS", "group_size:1")  # as `tfds build` writes them
  monkeypatch.setattr(record_writer, "_read_back", lambda *arguments: "")
  corpus = tiny_corpus.write_corpus(tmp_path, [tiny_corpus.tiny_record(0)], train_vocabulary=False)
  index = ["data", "index", corpus, "--processes=1"]
  xmcap(*index).refused("cannot be indexed (its records are compressed, or share chunks)", code=1)
  counted = xmcap(*index, f"--vocabulary={tiny_dir}/vocabulary.model")
  counted.succeeded("the records have no index, which only a bucket needs")


def test_data_index_of_a_corpus_in_a_bucket(store, tmp_path, tiny_dir, monkeypatch):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  corpus = shutil.copytree(tiny_dir, store.folder / "tiny")
  (index,) = corpus.glob("*.index")
  built = index.read_bytes()
  index.unlink()
  with pytest.raises(UsageError, match="index is missing, by which records are read from a bucket"):
    RecordSource("gs://bucket/tiny")
  xmcap("data", "index", "gs://bucket/tiny", "--processes=1").succeeded("1 were indexed now")
  assert index.read_bytes() == built
  assert list(RecordSource("gs://bucket/tiny")) == list(RecordSource(tiny_dir))
  assert not [name for name in store.names() if name.endswith(".part")]


def test_data_build_vocabulary_equals_data_index(tmp_path, tiny_dir):
  release = releases.write_coco35l(tmp_path / "release", images=5, dev=2, languages=("de", "th"))
  model = f"{tiny_dir}/vocabulary.model"
  build = ["data", "build", "coco35l", f"--release={release.folder}", "--processes=1"]
  for name, options in {"first": [f"--vocabulary={model}"], "later": [], "command": []}.items():
    xmcap(*build, f"--out={tmp_path / name}", *options).succeeded()
  xmcap(*build, f"--out={tmp_path / 'later'}", f"--vocabulary={model}").succeeded()
  xmcap("data", "index", tmp_path / "command", f"--vocabulary={model}").succeeded()
  made = [contents(tmp_path / name / "lengths") for name in ("first", "later", "command")]
  assert len(made[0]) == 10 and made[0] == made[1] == made[2]
