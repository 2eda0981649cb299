"""Subsets of images: a file of keys, or a random draw by seed (xm600:SEED)."""

import hashlib
import random

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap.errors import UsageError
from xmcap.reading import subsets
from xmcap.reading.references import References

_REFERENCES = References(
  {"k2": {"en": ["a"]}, "k1": {"en": ["b"]}, "k3": {"en": ["c"]}}, locales={"k1": "de"}
)


def _file(tmp_path, content):
  return str(files.text(tmp_path / "keys.txt", content))


def test_subset_file_lists_image_keys(tmp_path):
  keys, label = subsets.choose(_file(tmp_path, b"k3\r\n\n k1 \n"), _REFERENCES)
  assert keys == ("k1", "k3")
  assert label == f"file#{hashlib.sha256(b'k1' + bytes([10]) + b'k3').hexdigest()[:16]}"


@pytest.mark.parametrize(
  "content, message",
  [
    (b"k1\n\nk2\nk1\n", "line 4: 'k1' is already on line 1"),
    (b"k1\nx\n\ny\n", r"2 keys not among the images of the references \('x' on line 2, 'y' on line 4\)"),
    (b"a\nb\nc\nd\n", r"4 keys .* \('a' on line 1, 'b' on line 2, 'c' on line 3, \.\.\.\)"),
    (b"\xff\n", "line 1: not UTF-8"),
    (b"k1\n\x00\n", "1 key not among"),
    (b"\n", "contains no keys"),
    (b"", "contains no keys"),
  ],
)
def test_malformed_subset_files_are_refused(tmp_path, content, message):
  with pytest.raises(UsageError, match=message) as caught:
    subsets.choose(_file(tmp_path, content), _REFERENCES)
  assert "\n" not in str(caught.value)


def test_missing_subset_file_is_refused(tmp_path):
  assert "absent: no such file of image keys" in refusal(subsets.choose, tmp_path / "absent", _REFERENCES)
  assert "cannot be read" in refusal(subsets.choose, tmp_path, _REFERENCES)


@pytest.mark.parametrize("spec", ["xm600", "XM600:7"])
def test_random_subset_without_a_seed_is_refused(spec):
  assert "to draw 600 images give xm600:SEED, such as xm600:7" in refusal(subsets.check, spec)


def test_random_subset_is_independent_of_image_order():
  keys = [f"{number:016x}" for number in range(3600)]
  drawn = subsets.choose("xm600:7", dict.fromkeys(keys))
  random.Random(0).shuffle(keys)
  assert subsets.choose("xm600:007", dict.fromkeys(keys)) == drawn
  chosen, label = drawn
  assert label == "xm600:7"
  assert len(set(chosen)) == 600
  assert set(chosen) <= set(keys)
  # The draw is published by its seed alone, so it must never change: computed with coreutils' sha256sum, as
  # the 600 keys with the smallest sha256 of "xm600:7:KEY".
  assert hashlib.sha256("\n".join(chosen).encode()).hexdigest()[:16] == "ad6822b51817b929"


def test_random_subsets_of_other_seeds_differ():
  keys = dict.fromkeys(f"{number:016x}" for number in range(3600))
  common = set(subsets.choose("xm600:1", keys)[0]) & set(subsets.choose("xm600:2", keys)[0])
  assert 60 < len(common) < 140  # 100 are expected, with a standard deviation of 8


@pytest.mark.parametrize(
  "spec", ["xm600:", "xm600:-1", "xm600:1.5", "xm600:x\n", "xm600:١", "xm600:" + "9" * 5000]
)
def test_random_subset_seed_must_be_an_integer(spec):
  assert "SEED must be a whole number" in refusal(subsets.choose, spec, _REFERENCES)


def test_random_subset_of_too_few_images_is_refused():
  few = {str(key): {} for key in range(599)}
  assert len(subsets.choose("xm600:1", {**few, "599": {}})[0]) == 600
  assert "draws 600 images, but the references have only 599" in refusal(subsets.choose, "xm600:1", few)


def test_subset_references_keep_order_locales_and_tokens():
  references = References(_REFERENCES, _REFERENCES.locales, {key: {"en": ["w"]} for key in _REFERENCES})
  taken = subsets.take(references, ("k1", "k2"))
  assert list(taken.items()) == [("k2", {"en": ["a"]}), ("k1", {"en": ["b"]})]
  assert taken.locales == {"k1": "de"}
  assert taken.tokenized == {"k2": {"en": ["w"]}, "k1": {"en": ["w"]}}


def test_subset_keeps_predictions_of_unknown_images():
  predictions = {"k1": {"en": ""}, "k2": {"en": ""}, "x": {"en": ""}}
  assert subsets.take_predictions(predictions, _REFERENCES, ("k2",)) == {"k2": {"en": ""}, "x": {"en": ""}}
