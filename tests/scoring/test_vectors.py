"""Folders of vectors: rows matched to captions, refused folders, and memory."""

import tracemalloc

import numpy as np
import pytest

from tests.make import files
from tests.make.refusals import refusal
from tests.scoring import vectors as written
from xmcap.scoring import vectors
from xmcap.scoring.vectors import Vectors

BOTH = ("pictures", "references")
KEYS = ["1", "2", "3"]
HYPOTHESES = ["a dog", "", "a cat"]
REFERENCES = [["the dog", "a dog"], ["a bird"], ["two cats", " ", "a cat sits"]]
RNG = np.random.default_rng(0)
OF = {text: RNG.normal(size=4) for text in (*"123", "a dog", "a cat", "the dog", "two cats", "a cat sits")}


@pytest.fixture
def folder(tmp_path):
  """The vectors of KEYS, HYPOTHESES and REFERENCES; none of what has no words, or stands beside no caption."""
  written.write_card(tmp_path)
  written.write_pictures(tmp_path, "312", [OF[key] for key in "312"])
  texts = ["a cat", "a dog"]
  written.write_captions(tmp_path / "predictions", "en", texts, np.float16([OF[text] for text in texts]))
  texts = ["a cat sits", "two cats", "the dog", "two cats"]
  written.write_captions(tmp_path / "references", "en", texts, np.float32([OF[text] for text in texts]))
  return tmp_path


def cosines(folder, compared=BOTH, hypotheses=HYPOTHESES, references=REFERENCES, keys=KEYS):
  return Vectors(folder).cosines("en", keys, hypotheses, references, compared)


def cosine(first, second):
  return float(OF[first] @ OF[second] / np.linalg.norm(OF[first]) / np.linalg.norm(OF[second]))


def refused(folder, **options):
  return refusal(cosines, folder, **options)


def test_vectors_are_matched_by_key_and_caption(folder):
  found = cosines(folder)
  dog, cat = [cosine("a dog", "the dog"), 1], [cosine("a cat", text) for text in ("two cats", "a cat sits")]
  np.testing.assert_allclose(found.image, [cosine("a dog", "1"), 0, cosine("a cat", "3")], atol=1e-3)
  np.testing.assert_allclose(found.largest, [max(dog), 0, max(cat)], atol=1e-3)
  np.testing.assert_allclose(found.mean, [np.mean(dog), 0, np.mean(cat)], atol=1e-3)  # " " is left out


def test_cosines_are_the_same_for_any_block_size(folder, monkeypatch):
  whole = cosines(folder)
  monkeypatch.setattr(vectors, "_CELLS", 1)
  for name in ("image", "largest", "mean"):
    assert getattr(cosines(folder), name).tolist() == getattr(whole, name).tolist()


def test_cosines_need_only_files_that_are_compared(folder):
  (folder / "pictures.npy").unlink()
  assert cosines(folder, ("references",)).image.tolist() == [0, 0, 0]
  assert "pictures.npy: no such file" in refused(folder)
  for file in (folder / "references").iterdir():
    file.unlink()
  assert cosines(folder, ()).largest.tolist() == [0, 0, 0]


def test_the_folder_of_xmcap_embed_and_aliases_of_languages_are_read(folder):
  (folder / "references").rename(folder / "captions")
  for name in ("predictions", "captions"):
    for suffix in ("npy", "jsonl"):
      (folder / name / f"en.{suffix}").rename(folder / name / f"EN.{suffix}")
  assert cosines(folder).largest[0] == pytest.approx(1)


def test_captions_that_are_all_empty_need_no_vectors(folder):
  assert cosines(folder, hypotheses=["", " ", ""]).largest.tolist() == [0, 0, 0]


def test_caption_without_a_vector_is_named(folder):
  message = refused(folder, hypotheses=["a dog", "", "a cow"])
  assert "no vectors of 1 of 5 captions in 'en' ('a cow'); embed the captions that are scored" in message
  assert "no vectors of 1 picture (4)" in refused(folder, keys=["1", "2", "4"])
  message = refusal(Vectors(folder).cosines, "th", ["1"], ["หมา"], [["หมา"]], ())
  assert "no vectors of 1 of 1 caption in 'th'" in message


def test_shuffled_vectors_are_noticed_by_equal_captions(folder):
  texts = ["a cat sits", "two cats", "two cats", "the dog"]
  files.jsonl(folder / "references" / "en.jsonl", *({"caption": text} for text in texts))
  message = refused(folder)
  assert "references/en.npy, row 2: the vector of 'two cats' is another one than in" in message
  assert "row 1 (cosine" in message


def test_vectors_of_an_unsupported_language_are_noticed(folder):
  texts = [f"ข้อความ {number}" for number in range(12)]
  keys, references = ["1"] * 12, [[text] for text in texts]
  written.write_captions(folder / "predictions", "th", texts, np.ones((12, 4)))
  message = refusal(Vectors(folder).cosines, "th", keys, texts, references, ())
  assert "12 captions in 'th' have the same vector, so drawn cannot read them" in message
  written.write_captions(folder / "predictions", "th", texts, np.ones((12, 4)) + 0.01 * np.eye(12, 4))
  assert Vectors(folder).cosines("th", keys, texts, references, ("references",)).largest.min() > 0.99


@pytest.mark.parametrize(
  ("texts", "embeddings", "message"),
  [
    (["a dog"], np.ones((2, 4)), "en.jsonl: 1 caption for 2 rows of en.npy; write one for each"),
    (["a dog", "a cat"], np.ones((2, 5)), "width 4, but"),
    (["a dog", "a cat"], np.ones(2), "embeddings are [rows, width]"),
    (["a dog", "a cat"], np.ones((2, 4), int), "embeddings are float16"),
    (["a dog", "a cat"], [[1, 0, 0, 0], [0, 0, 0, 0]], "embeddings are float16"),
    (["a dog", "a cat"], [[1.0, 0, 0, 0], [0, 0, 0, 0]], "row 1: an embedding of length 0, or with NaN"),
    (["a dog", "a cat"], [[1.0, np.nan, 0, 0], [1, 0, 0, 0]], "row 0: an embedding of length 0, or with NaN"),
    (["a dog", "a cat"], [[1.0, 0, 0, 0], [1e200, 0, 0, 0]], "row 1: an embedding of length 0, or with NaN"),
    (["a dog", 3], np.ones((2, 4)), 'en.jsonl, line 2: must have "caption"'),
  ],
)
def test_malformed_captions_are_refused_in_one_line(folder, texts, embeddings, message):
  written.write_captions(folder / "predictions", "en", texts, embeddings)
  assert message in refused(folder)


def test_missing_captions_and_keys_of_vectors_are_refused(folder):
  (folder / "keys.txt").write_text("3\n1\n")
  assert "keys.txt: 2 keys for 3 rows of pictures.npy" in refused(folder)
  (folder / "predictions" / "en.jsonl").unlink()
  assert 'en.jsonl: no such file; write a line {"caption": ...}' in refused(folder)


@pytest.mark.parametrize(
  ("card", "message"),
  [
    ('{"model": "m", "weights": "w"}', "preprocessing"),
    ('{"model": "m", "weights": "", "preprocessing": "p"}', "'weights' is ''"),
    ('{"model": "m", "weights": "a|b", "preprocessing": "p"}', "without |"),
    ('{"model": "m", "weights": "a", "preprocessing": "p\\n"}', "on one line"),
    ("[]", "not a description of vectors"),
  ],
)
def test_vectors_json_with_missing_fields_is_refused(folder, card, message):
  (folder / "vectors.json").write_text(card)
  assert message in refused(folder)


def test_folder_without_vectors_json_is_refused(tmp_path):
  assert 'it says what made the vectors: write {"model"' in refused(tmp_path)


def test_memory_does_not_grow_with_the_vectors(tmp_path):
  count, width = 8_000, 512
  texts = [f"caption {number}" for number in range(count)]
  written.write_card(tmp_path)
  embeddings = np.ones((count, width), np.float32)
  embeddings[:, 0] = np.arange(count) + 1
  written.write_captions(tmp_path / "predictions", "en", texts, embeddings)
  written.write_pictures(tmp_path, range(count), embeddings)
  keys, references = [str(number) for number in range(count)], [[text] for text in texts]
  del embeddings
  tracemalloc.start()
  found = cosines(tmp_path, BOTH, texts, references, keys)
  assert tracemalloc.get_traced_memory()[1] < 60e6  # all rows at once take 136e6
  tracemalloc.stop()
  np.testing.assert_allclose(found.largest, 1)
