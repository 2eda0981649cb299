import random
import re

import numpy as np
import pytest

from tests.scoring import human_captions
from xmcap.scoring.health import truncation
from xmcap.scoring.metrics.ngrams import Ngrams
from xmcap.scoring.tokenizers.words import CaptionWords


@pytest.mark.parametrize(
  "caption",
  ["a dog (", "a dog,", "a dog and -", "a dog …", "a dog...", "كلب،", "犬、", "一只（", "סוס־", "a: "],
)
def test_ends_unfinished_of_unfinished_captions(caption):
  assert truncation.ends_unfinished(caption)


@pytest.mark.parametrize(
  "caption", ["a dog", "a dog.", "a (dog)", "Er sagt: „ja“", "犬。", "कुत्ता।", "", " ", "«chien»", "5"]
)
def test_ends_unfinished_of_finished_captions(caption):
  assert not truncation.ends_unfinished(caption)


@pytest.mark.parametrize(
  ("count", "last", "expected"),
  [
    (20, 0, True),
    (19, 0, False),
    (199, 1, False),
    (200, 1, True),
    (400, 2, True),
    (400, 3, False),
    (0, 0, False),
  ],
)
def test_never_ends_of_words_that_end_no_caption(count, last, expected):
  assert truncation.never_ends(np.array([count]), np.array([last])) == [expected]


@pytest.mark.parametrize(("count", "last", "expected"), [(21, 1, True), (20, 1, False), (201, 2, True)])
def test_never_ends_leaves_out_the_reference_itself(count, last, expected):
  assert truncation.never_ends(np.array([count]), np.array([last]), left_out=1) == [expected]


def _shares(hypotheses, references):
  """Of captions; all references are of the first image, which makes no difference."""
  captions = [hypotheses[0], *references, *hypotheses[1:]]
  counts = Ngrams(
    CaptionWords.of(_words(captions)), np.array([len(references)] + [0] * (len(hypotheses) - 1))
  )
  return truncation.shares(captions, counts)[:2]


def test_truncation_shares_of_captions_and_references():
  captions = ["a dog in the", "a dog,", "a dog", "the", "..."]
  assert _shares(captions, ["the dog"] * 50) == (3 / 4, 0)
  assert _shares(["..."], ["the dog"] * 50) == (None, 0)
  assert _shares(["the zebra"], ["the dog"] * 50) == (0, 0)


def test_truncation_of_too_few_references_is_none():
  assert _shares(["a dog,"], ["the dog"] * 19) == (None, None)


def _words(captions):
  return [re.findall(r"\w+", caption.lower()) for caption in captions]


@human_captions.needs_captions
@pytest.mark.parametrize(
  ("language", "recall", "false_alarms", "own"),
  [
    ("cs", 0.391, 0.009, 0.007),
    ("de", 0.452, 0.012, 0.008),
    ("en", 0.496, 0.018, 0.009),
    ("fr", 0.541, 0.010, 0.007),
  ],
)
def test_truncation_recall_and_false_alarms_on_multi30k(language, recall, false_alarms, own):
  references = human_captions.multi30k(f"task1_test_2016_flickr.{language}")
  if language != "cs":
    references += human_captions.multi30k(f"task1_test_2017_flickr.{language}")
  whole = human_captions.multi30k(f"task1_test_2018_flickr.{language}")
  draws = random.Random(0)
  cut = [
    " ".join(parts[: draws.randint(1, len(parts) - 1)]) for parts in map(str.split, whole) if len(parts) > 1
  ]
  assert _shares(cut, references) == pytest.approx((recall, own), abs=5e-4)
  assert _shares(whole, references) == pytest.approx((false_alarms, own), abs=5e-4)
