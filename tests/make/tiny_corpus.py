"""A tiny corpus: 24 pictures of one colour each, captions in three languages, tags, a vocabulary."""

import itertools

import gin
import numpy as np
import pytest

from tests.make.images import encode
from xmcap.data import record_writer, records, registry, vocabulary
from xmcap.data.registry import RegisteredCorpus

NUM_PICTURES = 24
SIDE = 16
_names = (f"tiny{number}" for number in itertools.count())


def colour(index: int) -> np.ndarray:
  return np.full((SIDE, SIDE, 3), (index, 2 * index, 255 - index), np.uint8)


def tiny_record(index: int) -> records.Record:
  """English has two captions, German one, Arabic one in every second picture; all of one to three words."""

  def words(*all_words: str) -> str:
    return " ".join([*all_words[2 - index % 3 :], str(index)])

  captions = [
    records.Caption("en", words("a", "small", "dog")),
    records.Caption("de", words("ein", "kleiner", "Hund")),
    records.Caption("en", words("the", "little", "hound")),
  ]
  if index % 2 == 0:
    captions.append(records.Caption("ar", words("كلب", "صغير", "جدا")))
  return records.Record(f"{index:016x}", encode(colour(index)), captions, ["dog", "cat", "owl"][: index % 4])


def write_corpus(out, pictures, train_vocabulary=True) -> str:
  split = record_writer.write_split(out, "train", [pictures], list, dataset="tiny", processes=1)
  record_writer.write_metadata(out, [split], dataset="tiny")
  record_writer.write_tags(out, ["dog", "cat", "owl"])
  if train_vocabulary:
    text = [caption.text for picture in pictures for caption in picture.captions] * 4
    (out / "text.txt").write_text("\n".join(text), encoding="utf-8")
    vocabulary.train_vocabulary(str(out / "text.txt"), str(out / "vocabulary.model"), size=420)
  return str(out)


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory) -> str:
  return write_corpus(tmp_path_factory.mktemp("tiny"), [tiny_record(index) for index in range(NUM_PICTURES)])


@pytest.fixture(scope="session")
def register():
  """Registers a folder under a name of its own (gin and seqio keep names for ever); returns the corpus."""

  def _register(data_dir, languages=("ar", "de", "en"), **arguments) -> RegisteredCorpus:
    name = next(_names)
    corpus = registry.register_corpus(name, languages=languages, **arguments)
    if data_dir:
      with gin.unlock_config():
        gin.bind_parameter(f"{name}.data_dir", str(data_dir))
    return corpus

  return _register


@pytest.fixture
def tiny(tiny_dir, register) -> RegisteredCorpus:
  return register(tiny_dir)
