"""The stream of captions as words, with the stored features of their pictures and of other ones."""

import numpy as np
import pytest

from tests import word_folders
from tests.data.streams import dealt_out, equal
from tests.make.images import encode
from tests.make.tiny_corpus import NUM_PICTURES, colour, tiny_record, write_corpus
from xmcap.data import features, record_features, records
from xmcap.errors import UsageError, XmcapError
from xmcap.families.word2visualvec import words as words_lib
from xmcap.families.word2visualvec.stream import WordStream

KEYS = tuple(f"{index:016x}" for index in range(NUM_PICTURES))
ENGLISH, GERMAN = ["a", "dog", "the", "small", "hound"], ["hund", "ein"]


@pytest.fixture
def place(tmp_path):
  word_folders.write(tmp_path / "words", en=ENGLISH, de=GERMAN, ar=["كلب"])
  vectors = np.arange(NUM_PICTURES, dtype=np.float32)[:, None] + [[0.25, 0.5]]
  features.write(tmp_path / "f.safetensors", features.Features(KEYS, vectors.astype(np.float32)))
  return tmp_path


def stream_of(tiny, place, **options):
  defaults = dict(
    words=str(place / "words"),
    features=str(place / "f.safetensors"),
    languages=("en",),
    batch_size=NUM_PICTURES,
  )
  return WordStream(tiny.name, **{**defaults, **options})


def texts_of(stream, batch):
  """The known words of every row, read back from their numbers."""
  names = [word for words in stream.vocabulary_of_words.by_language.values() for word in words]
  return [[names[number - 1] for number in row if number] for row in batch["words"]]


def test_word_stream_pairs_captions_with_their_images(tiny, place):
  stream = stream_of(tiny, place)
  first, second = stream.batch(0), stream.batch(1)  # two epochs, with both captions of each picture
  assert first["words"].shape == (NUM_PICTURES, 32) and first["vectors"].shape == (NUM_PICTURES, 32, 3)
  seen = {}
  for batch in (first, second):
    for key, text, own, other in zip(
      batch["key"], texts_of(stream, batch), batch["features"], batch["other"], strict=True
    ):
      index = int(key, 16)
      np.testing.assert_array_equal(own, index + np.array([0.25, 0.5], np.float32))
      assert other[0] != own[0] and other[0] - 0.25 in range(NUM_PICTURES)
      seen.setdefault(index, []).append(text)
  for index, texts in seen.items():
    english = [caption.text.split() for caption in tiny_record(index).captions if caption.language == "en"]
    assert sorted(texts) == sorted([word for word in text if word in ENGLISH] for text in english)
  table = stream.vocabulary_of_words.vectors
  rows, places = np.nonzero(first["words"])
  np.testing.assert_array_equal(first["vectors"][rows, places], table[first["words"][rows, places] - 1])
  assert not first["vectors"][first["words"] == 0].any() and (first["weights"] == 1).all()


def test_word_stream_negatives_are_resampled_each_epoch(tiny, place):
  stream = stream_of(tiny, place)
  others = np.stack([stream.batch(step)["other"][:, 0] for step in range(50)])
  counts = np.unique(others, return_counts=True)[1]
  assert len(counts) == NUM_PICTURES and counts.min() > 25  # 50 each, on average


def test_word_stream_language_subset_keeps_word_ids(tiny, place):
  stream = stream_of(tiny, place, languages=("de", "en", "ar"))
  german = stream.only("de")
  batch = german.batch(0)
  assert {word for text in texts_of(german, batch) for word in text} == set(GERMAN)
  np.testing.assert_array_equal(batch["key"], stream.batch(0)["key"])
  np.testing.assert_array_equal(batch["features"], stream.batch(0)["features"])
  mixed = [word for step in range(3) for text in texts_of(stream, stream.batch(step)) for word in text]
  assert {"hund", "dog", "كلب"} <= set(mixed)


def test_word_stream_weight_is_0_without_a_caption(tiny, place):
  stream = stream_of(tiny, place, languages=("ar",))
  batch = stream.batch(0)
  for key, weight in zip(batch["key"], batch["weights"], strict=True):
    assert weight == (int(key, 16) % 2 == 0)
  assert stream.lost == {"pictures without a caption in these languages": NUM_PICTURES // 2}
  short = stream_of(tiny, place, longest=1)
  whole, _ = stream_of(tiny, place, longest=1).first(NUM_PICTURES, multiple=NUM_PICTURES + 3)
  whole.batch(0)  # three pictures are beyond the end
  short.batch(0)
  assert short.lost["words beyond the longest text"] == whole.lost["words beyond the longest text"] > 0
  once, _ = stream.first(NUM_PICTURES, multiple=NUM_PICTURES + 3)
  assert once.batch(0)["weights"].sum() == NUM_PICTURES // 2


def test_word_stream_gives_any_rows_of_a_batch(tiny, place):
  stream = stream_of(tiny, place, batch_size=6, languages=("en", "de"))
  equal(dealt_out(stream, 5, 2), stream.batch(5))
  equal(next(stream_of(tiny, place, batch_size=6, languages=("en", "de")).batches(5)), stream.batch(5))


def test_word_stream_tokenizes_the_captions_of_a_batch_only(tiny, place, monkeypatch):
  split, encode = [], words_lib.WordVectors.encode

  def spy(self, language, texts, tokenized=()):
    split.append((language, len(texts)))
    return encode(self, language, texts, tokenized)

  monkeypatch.setattr(words_lib.WordVectors, "encode", spy)
  stream = stream_of(tiny, place, batch_size=6, languages=("en", "de"))
  assert not split
  for step in (0, 10**9):
    batch = stream.batch(step)
    assert sum(count for _, count in split) == 6 and len(split) == len(dict(split))
    equal(stream_of(tiny, place, batch_size=6, languages=("en", "de")).batch(step), batch)
    split.clear()


def test_word_stream_uses_released_tokens(tmp_path, register):
  pictures = [
    records.Record(
      key, encode(colour(0)), [records.Caption("en", "notso", tokens), records.Caption("de", "ein")]
    )
    for key, tokens in (("a", "dog small"), ("b", ""))
  ]
  corpus = register(write_corpus(tmp_path, pictures, train_vocabulary=False))
  word_folders.write(tmp_path / "words", en=[*ENGLISH, "notso"])
  vectors = np.ones((2, 2), np.float32)
  features.write(tmp_path / "f.safetensors", features.Features(("a", "b"), vectors))
  stream = stream_of(corpus, tmp_path, batch_size=2)
  batch = stream.batch(0)
  found = dict(zip(batch["key"], texts_of(stream, batch), strict=True))
  assert found == {"a": ["dog", "small"], "b": ["notso"]}


def test_word_stream_signature_depends_on_words_and_features(tiny, place):
  before = stream_of(tiny, place).signature()
  word_folders.write(place / "words", en=[*ENGLISH, "cat"])
  after = stream_of(tiny, place).signature()
  assert {name for name in before if before[name] != after[name]} == {"words"}


def _without_a_picture(place):
  features.write(
    place / "f.safetensors", features.Features(KEYS[:-1], np.ones((NUM_PICTURES - 1, 2), np.float32))
  )


def _with_nan(place):
  data = (place / "f.safetensors").read_bytes()
  number = np.float32(3.25).tobytes()
  assert data.count(number) == 1
  (place / "f.safetensors").write_bytes(data.replace(number, np.float32(np.nan).tobytes()))


def _big_file(place):
  (place / "f.safetensors").unlink()
  features.write(
    place / "f.safetensors", features.Features(KEYS, np.ones((NUM_PICTURES, 2), np.float32)), "bigfile"
  )
  with open(place / "f.safetensors" / "feature.bin", "ab") as file:
    file.write(b"1234")


def _with_french_words(place):
  word_folders.write(place / "words", fr=["chien"])


@pytest.mark.parametrize(
  ("change", "options", "message"),
  [
    (_without_a_picture, {}, "no vectors of 1 picture of 24 in split 'train' of .*0017"),
    (_with_nan, {}, "the vector of '0000000000000003' \\(row 3\\) holds NaN or infinity"),
    (_big_file, {}, "feature.bin has 196 bytes, but 24 x 2 float32 numbers of shape.txt take 192"),
    (None, {"features": ""}, "needs stored features of the pictures \\(FEATURES\\) and words"),
    (None, {"languages": ("fr",)}, "fr.safetensors: no such file"),
    (_with_french_words, {"languages": ("fr",)}, "WordStream.languages: 'fr' is not one of the available"),
    (None, {"language_weights": "most"}, "WordStream.language_weights is 'most'"),
    (None, {"sources": ("robot",)}, "WordStream.sources: 'robot' is no source of captions"),
    (None, {"longest": 0}, "WordStream.longest is 0"),
    (None, {"split": "train[:1]"}, "has one picture: a WordStream needs another one"),
  ],
)
def test_word_stream_refuses_malformed_input(tiny, place, change, options, message):
  if change:
    change(place)
  with pytest.raises(UsageError, match=message) as error:
    stream_of(tiny, place, **options).batch(0)
  assert "\n" not in str(error.value).split("In call to")[0].strip()


@pytest.mark.parametrize("other", [KEYS[2], KEYS[1][-1]])  # the second is an end of the right key
def test_word_stream_refuses_features_of_another_image(tiny, place, monkeypatch, other):
  monkeypatch.setattr(record_features, "_COMPARED", 2)  # the first and the last, as in a split of thousands
  swapped = (KEYS[0], other, "another", *KEYS[3:])
  features.write(place / "f.safetensors", features.Features(swapped, np.ones((NUM_PICTURES, 2), np.float32)))
  with pytest.raises(XmcapError, match="for record [12] of split 'train'.*the corpus has changed") as error:
    stream_of(tiny, place).batch(0)
  assert "\n" not in str(error.value)
