"""Speed and size of a large report (a third of XM3600's images, all languages) in Chromium."""

import random
import time

import numpy as np
import pytest

from xmcap import languages
from xmcap.pages import report
from xmcap.reading.references import References
from xmcap.scoring import Result, Statistics, Table
from xmcap.scoring.language import Tokenized
from xmcap.scoring.tokenizers.words import CaptionWords

_IMAGES = 1200
_SECONDS = 240.0  # on a busy machine; an idle one takes less than one
_MEGABYTES = 14


@pytest.fixture(scope="module")
def systems():
  """Two systems with random captions of ten words and random scores."""
  rng, numbers = random.Random(0), np.random.default_rng(0)
  keys = tuple(f"{i:016x}" for i in range(_IMAGES))
  codes = list(languages.LANGUAGES)
  vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(3000)]

  def captions():
    return {key: {code: " ".join(rng.choices(vocabulary, k=10)) for code in codes} for key in keys}

  held = [captions(), captions()]
  references = References(
    {key: {code: [texts[key][code] for texts in held] for code in codes} for key in keys},
    {key: codes[i % 36] for i, key in enumerate(keys)},
  )
  results = {}
  for name in ("ours", "theirs"):
    predictions = captions()
    scores = {
      code: Statistics(keys, {"cider_d": numbers.gamma(1.0, 0.5, (_IMAGES, 1))}, 2 * _IMAGES)
      for code in codes
    }
    words = {
      code: Tokenized(
        CaptionWords.of(
          [text.split() for key in keys for text in (predictions[key][code], *references[key][code])]
        ),
        ((0, 1),) * len(keys),
      )
      for code in codes
    }
    table = Table.of_rows("tokenizer:default", {code: of.row() for code, of in scores.items()}, name)
    results[name] = Result(table, scores, references, predictions, words=words)
  return results


@pytest.mark.slow
def test_large_report_opens_and_responds_quickly(page, tmp_path, systems):
  path = tmp_path / "r.html"
  report.write_report(path, systems)
  assert path.stat().st_size < _MEGABYTES * 2**20
  started = time.monotonic()
  page.goto(path.as_uri())
  page.locator(".card").first.wait_for()
  assert time.monotonic() - started < _SECONDS
  assert page.locator("#heat tbody td").count() == 37 * 37
  for code, change in (
    ("th", {"language": "th"}),
    ("zh", {"language": "zh", "order": "differ-1"}),
    ("zh", {"text": "ab"}),
  ):
    started = time.monotonic()
    page.evaluate("(change) => update(change)", change)
    assert time.monotonic() - started < _SECONDS / 2
    assert page.locator(".card .caption").first.get_attribute("lang") == code
