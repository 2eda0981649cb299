import pathlib
import random
import re

import pytest

from xmcap.scoring.health import truncation

_MULTI30K = pathlib.Path(__file__).parents[4] / "shared" / "multi30k"


@pytest.mark.parametrize(
  "caption",
  ["a dog (", "a dog,", "a dog and -", "a dog …", "a dog...", "كلب،", "犬、", "一只（", "סוס־", "a: "],
)
def test_unfinished(caption):
  assert truncation.ends_unfinished(caption)


@pytest.mark.parametrize(
  "caption", ["a dog", "a dog.", "a (dog)", "Er sagt: „ja“", "犬。", "कुत्ता।", "", " ", "«chien»", "5"]
)
def test_finished(caption):
  assert not truncation.ends_unfinished(caption)


def _endings(count, last):
  """References in which the word `the` occurs so often, and is the last word so often."""
  return truncation.Endings([["the", "dog"]] * (count - last) + [["of", "the"]] * last + [[]])


@pytest.mark.parametrize(
  ("count", "last", "expected"),
  [(20, 0, True), (19, 0, False), (199, 1, False), (200, 1, True), (400, 2, True), (400, 3, False)],
)
def test_words_that_end_no_caption(count, last, expected):
  assert _endings(count, last).never_ends("the") == expected


@pytest.mark.parametrize(("count", "last", "expected"), [(21, 1, True), (20, 1, False), (201, 2, True)])
def test_a_reference_is_judged_by_the_others(count, last, expected):
  assert _endings(count, last).never_ends("the", left_out=1) == expected


def test_words_that_no_reference_holds():
  assert not _endings(50, 0).never_ends("zebra")


def test_share():
  captions = ["a dog in the", "a dog,", "a dog", "the", "..."]
  words = [["a", "dog", "in", "the"], ["a", "dog"], ["a", "dog"], ["the"], []]
  assert truncation.share(captions, words, _endings(50, 0)) == 3 / 4
  assert truncation.share(["..."], [[]], _endings(50, 0)) is None


def test_too_few_references():
  assert truncation.share(["a dog,"], [["a", "dog"]], _endings(19, 0)) is None


def _read(name):
  return (_MULTI30K / name).read_text(encoding="utf-8").splitlines()


def _words(captions):
  return [re.findall(r"\w+", caption.lower()) for caption in captions]


@pytest.mark.skipif(not _MULTI30K.exists(), reason="Multi30K is not on this machine")
@pytest.mark.parametrize(
  ("language", "recall", "false_alarms", "own"),
  [
    ("cs", 0.391, 0.009, 0.007),
    ("de", 0.452, 0.012, 0.008),
    ("en", 0.496, 0.018, 0.009),
    ("fr", 0.541, 0.010, 0.007),
  ],
)
def test_real_captions(language, recall, false_alarms, own):
  references = _read(f"task1_test_2016_flickr.{language}")
  if language != "cs":
    references += _read(f"task1_test_2017_flickr.{language}")
  whole = _read(f"task1_test_2018_flickr.{language}")
  draws = random.Random(0)
  cut = [
    " ".join(parts[: draws.randint(1, len(parts) - 1)]) for parts in map(str.split, whole) if len(parts) > 1
  ]
  endings = truncation.Endings(_words(references))
  assert truncation.share(cut, _words(cut), endings) == pytest.approx(recall, abs=5e-4)
  assert truncation.share(whole, _words(whole), endings) == pytest.approx(false_alarms, abs=5e-4)
  of_references = truncation.share(references, _words(references), endings, left_out=1)
  assert of_references == pytest.approx(own, abs=5e-4)
