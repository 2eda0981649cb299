"""Word vectors: the vocabulary of a corpus, gensim's training, and vectors from files; and `xmcap data words`."""

import collections
import sys

import numpy as np
import pytest

from tests.make.tiny_corpus import NUM_PICTURES, tiny_record, write_corpus
from xmcap.cli import main
from xmcap.data import features, records
from xmcap.errors import UsageError
from xmcap.families.word2visualvec import word_vectors, words


@pytest.fixture(scope="module")
def segmented(tmp_path_factory):
  """A corpus whose Chinese captions are segmented in a way that no segmenter would choose."""

  def picture(index):
    source = "mt" if index % 2 else "human"
    captions = [
      records.Caption("zh", "大狗在沙滩", "大狗在 沙滩", source),
      records.Caption("en", f"a dog {index}", source=source),
    ]
    return records.Record(f"{index:016x}", tiny_record(index).image, captions)

  return write_corpus(
    tmp_path_factory.mktemp("segmented"), [picture(index) for index in range(8)], train_vocabulary=False
  )


def test_count_words_counts_all_captions(tiny_dir):
  found = word_vectors.count_words(tiny_dir, "train", ["en", "de"])
  texts = [
    caption.text.split()
    for index in range(NUM_PICTURES)
    for caption in tiny_record(index).captions
    if caption.language == "en"
  ]
  counts = collections.Counter(word for text in texts for word in text)
  expected = {word: number for word, number in counts.items() if number >= 5}
  assert found["en"].counts == expected and "hound" in expected and "7" not in expected
  assert list(found["en"].counts.values()) == sorted(expected.values(), reverse=True)
  assert found["en"].unknown == sum(not any(word in expected for word in text) for text in texts)
  assert found["en"].coverage == pytest.approx(sum(expected.values()) / sum(map(len, texts)))
  assert set(found["de"].counts) == {"ein", "kleiner", "hund"}


def test_count_words_uses_released_tokens_and_sources(segmented):
  assert word_vectors.count_words(segmented, "train", ["zh"])["zh"].counts == {"大狗在": 8, "沙滩": 8}
  human = word_vectors.count_words(segmented, "train", ["zh"], ["human"], least=4)
  assert human["zh"].counts == {"大狗在": 4, "沙滩": 4}


@pytest.mark.parametrize(
  ("options", "message"),
  [
    (
      {"least": 9},
      "the vocabulary of 'zh' is empty: no word occurs 9 times in 8 captions: choose a smaller --least",
    ),
    ({"sources": ["translated"]}, "no caption in 'zh' from translated: choose other --languages"),
    ({"split": "val"}, "has no split 'val'; its splits: train"),
  ],
)
def test_count_words_without_captions_is_refused(segmented, options, message):
  with pytest.raises(UsageError, match=message):
    word_vectors.count_words(segmented, **{"split": "train", "languages": ["zh"], **options})


@pytest.fixture
def vocabulary():
  captions = [["dog", "runs"], ["cat", "sleeps"], ["dog", "sleeps"], ["a", "dog"]] * 5
  counts = collections.Counter(word for caption in captions for word in caption)
  return word_vectors.FrequentWords(
    dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))), captions
  )


def test_word_vector_training_depends_on_the_seed(vocabulary):
  pytest.importorskip("gensim")
  one, same, other = (word_vectors.train(vocabulary, 6, epochs=3, seed=seed) for seed in (1, 1, 2))
  assert one.keys == ("dog", "sleeps", "a", "cat", "runs") and one.vectors.shape == (5, 6)
  np.testing.assert_array_equal(one.vectors, same.vectors)
  assert one.vectors.dtype == np.float32 and not np.array_equal(one.vectors, other.vectors)


def test_word_vectors_equal_gensim(vocabulary):
  """gensim 4.4 counts the words itself, and gives the same vectors for its own order of the words."""
  gensim = pytest.importorskip("gensim")
  ours = word_vectors.train(vocabulary, 6, epochs=3, seed=1)
  theirs = gensim.models.Word2Vec(
    vocabulary.captions, vector_size=6, sg=1, min_count=1, workers=1, seed=1, epochs=3
  ).wv
  assert set(theirs.index_to_key) == set(ours.keys)
  # Words with equal counts may stand in another order there, and begin with each other's vectors.
  np.testing.assert_allclose(ours.vectors[0], theirs["dog"], atol=0.02)


def test_word_vectors_without_gensim_name_the_extra(vocabulary, monkeypatch):
  monkeypatch.setitem(sys.modules, "gensim.models", None)
  with pytest.raises(UsageError, match=r"give --vectors=FILE instead, or pip install '\.\[words\]'"):
    word_vectors.train(vocabulary)


def test_word_vectors_from_word2vec_text_and_safetensors(vocabulary, tmp_path):
  (tmp_path / "v.txt").write_text("3 2\ndog 1 2\ncow 5 6\ncat -0.5 1e-1 \n")
  found, absent = word_vectors.take(tmp_path / "v.txt", vocabulary)
  assert absent == 3 and found.keys == tuple(vocabulary.counts)
  np.testing.assert_array_equal(
    found.vectors, np.array([[1, 2], [0, 0], [0, 0], [-0.5, 0.1], [0, 0]], np.float32)
  )
  (tmp_path / "glove.txt").write_text("dog 1 2\ncat -0.5 0.1\n")  # without a first line
  np.testing.assert_array_equal(
    word_vectors.take(tmp_path / "glove.txt", vocabulary)[0].vectors, found.vectors
  )
  features.write(tmp_path / "v.safetensors", features.Features(("cat", "dog"), found.vectors[[3, 0]]))
  again, absent = word_vectors.take(tmp_path / "v.safetensors", vocabulary)
  np.testing.assert_array_equal(again.vectors, found.vectors)
  assert absent == 3


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("v.txt", b"2 2\ndog 1 2\ncat 1 2 3\n", "line 3: 3 numbers, but 2 in the lines before"),
    ("v.txt", b"dog 1 nan\n", "line 1: the vector of 'dog' holds NaN or infinity"),
    ("v.txt", b"dog 1 two\n", "line 1: not a word and numbers in UTF-8"),
    ("v.txt", b"cow 1 2\n", "has a vector of none of 5 words: give vectors of this language"),
    ("v.txt", b"", "has a vector of none of 5 words"),
    ("v.txt", b"2 " + b"9" * 5_000, "has a vector of none of 5 words"),
    ("v.txt", b"\x80\x04\x95", "a pickle, which can run code"),
    ("v.bin", b"2 2\ndog ", "word2vec's binary form or a pickle: save the vectors as text"),
    ("v.pkl", b"x", "a pickle, which can run code"),
    ("v.safetensors", b"x" * 20, "not a complete safetensors file"),
    ("none.txt", None, "no such file: give word vectors"),
  ],
)
def test_malformed_word_vectors_are_refused(vocabulary, tmp_path, name, content, message):
  if content is not None:
    (tmp_path / name).write_bytes(content)
  with pytest.raises(UsageError, match=message) as error:
    word_vectors.take(tmp_path / name, vocabulary)
  assert "\n" not in str(error.value)


def test_data_words_command_adds_a_language(segmented, tmp_path, capsys):
  (tmp_path / "zh.txt").write_text("大狗在 1 2\n")
  (tmp_path / "en.txt").write_text("dog 1 2\na 3 4\n")
  for code in ("zh", "en"):
    options = [f"--languages={code}", f"--vectors={tmp_path / code}.txt", f"--out={tmp_path / 'words'}"]
    assert main(["data", "words", segmented, *options]) == 0
  printed = capsys.readouterr().out
  assert "zh.txt has no vector of 1 words" in printed and "en               8      2" in printed
  held = words.read(tmp_path / "words", ("zh", "en"))
  assert held.by_language == {"zh": ("大狗在", "沙滩"), "en": ("a", "dog")}


@pytest.mark.parametrize(
  ("options", "message"),
  [
    (["--languages=zh,en", "--vectors=v.txt"], "--vectors has the words of one language"),
    (["--sources=robot"], "--sources: 'robot' is no source of captions"),
    (["--languages=xx"], "unknown language 'xx'"),
    (["--least=100"], "the vocabulary of 'zh' is empty"),
  ],
)
def test_data_words_usage_errors_are_one_line(segmented, tmp_path, capsys, options, message):
  assert main(["data", "words", segmented, f"--out={tmp_path / 'words'}", *options]) == 2
  error = capsys.readouterr().err
  assert message in error and error.count("\n") == 1
