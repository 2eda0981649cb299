"""A large report of all languages in Chromium: its size, and how it opens and changes."""

import random

import numpy as np
import pytest

from xmcap import languages
from xmcap.pages import report
from xmcap.reading.references import References
from xmcap.scoring import Result, Statistics, Table
from xmcap.scoring.language import Tokenized
from xmcap.scoring.tokenizers.words import CaptionWords

_BYTES_PER_IMAGE = 12_500


def _systems(images):
  """Two systems with random captions of ten words and random scores."""
  rng, numbers = random.Random(0), np.random.default_rng(0)
  keys = tuple(f"{i:016x}" for i in range(images))
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
      code: Statistics(keys, {"cider_d": numbers.gamma(1.0, 0.5, (images, 1))}, 2 * images) for code in codes
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


# A third of XM3600's images.
@pytest.mark.parametrize("images", [120, pytest.param(1200, marks=pytest.mark.full)])
def test_large_report_is_compressed_and_opens(page, tmp_path, images):
  path = tmp_path / "r.html"
  report.write_report(path, _systems(images))
  assert path.stat().st_size < 500_000 + images * _BYTES_PER_IMAGE
  page.goto(path.as_uri())
  page.locator(".card").first.wait_for()
  assert page.locator("#heat tbody td").count() == 37 * 37
  for code, change in (
    ("th", {"language": "th"}),
    ("zh", {"language": "zh", "order": "differ-1"}),
    ("zh", {"text": "ab"}),
  ):
    page.evaluate("(change) => update(change)", change)
    assert page.locator(".card .caption").first.get_attribute("lang") == code
