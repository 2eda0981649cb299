"""The languages that a stream draws, by weight."""

import gin
import numpy as np
import pytest
from scipy import stats

from tests.data.streams import captions, texts
from tests.make.tiny_corpus import NUM_PICTURES
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError


def test_languages_are_drawn_by_the_rates_of_the_mixture(tiny_dir, register):
  corpus = register(tiny_dir, rates={"en": 6.0, "de": 3.0, "ar": 1.0})
  stream = captions(corpus, batch_size=NUM_PICTURES, captions_per_image=1)
  counts = dict.fromkeys(stream.languages, 0)
  for step in range(100):
    batch = stream.batch(step)
    for key, row in zip(batch["key"], texts(stream, batch), strict=True):
      if int(key, 16) % 2 == 0:  # these have all three
        counts[row[0][0]] += 1
  shares = np.array([counts[code] for code in ("en", "de", "ar")]) / sum(counts.values())
  np.testing.assert_allclose(shares, [0.6, 0.3, 0.1], atol=0.04)


def test_a_language_of_rate_zero_is_never_drawn(tiny_dir, register):
  stream = captions(register(tiny_dir, rates={"en": 0.0, "de": 3.0, "ar": 1.0}), captions_per_image=1)
  assert stream.languages == ("ar", "de")
  drawn = {row[0][0] for step in range(20) for row in texts(stream, stream.batch(step))}
  assert drawn == {"ar", "de"}


@pytest.mark.parametrize(
  "options, expected",
  [
    ({}, {"ar": 1, "de": 1, "en": 1}),
    ({"language_weights": "uniform"}, {"ar": 1, "de": 1, "en": 1}),
    ({"language_weights": "count"}, {"ar": 1, "de": 1, "en": 2}),
    ({"language_weights": "count", "temperature": 2.0}, {"ar": 1, "de": 1, "en": 2**0.5}),
    ({"language_weights": {"en": 6, "de": 3.0, "ar": 1}}, {"ar": 1, "de": 3, "en": 6}),
    ({"language_weights": {"en": 9, "de": 4}, "temperature": 2.0}, {"de": 2, "en": 3}),
    ({"languages": ("en", "ar")}, {"ar": 1, "en": 1}),
    ({"languages": ("en", "ar"), "language_weights": "count"}, {"ar": 1, "en": 2}),
  ],
)
def test_language_weights_set_the_shares_of_languages(tiny, options, expected):
  stream = captions(tiny, batch_size=NUM_PICTURES, captions_per_image=1, image_size=1, **options)
  assert set(stream.languages) == set(expected)
  counts = dict.fromkeys(stream.languages, 0)
  for step in range(120):
    positions = np.arange(NUM_PICTURES) + step * NUM_PICTURES
    drawn = stream._drawing.read(stream.source, stream.order.at(positions))
    for _, record, (column,), _ in drawn:
      if int(record.key, 16) % 2 == 0:  # these have all three
        counts[stream.languages[column]] += 1
  shares = np.array([expected[code] for code in counts]) / sum(expected.values())
  assert stats.chisquare(list(counts.values()), shares * sum(counts.values())).pvalue > 1e-3


@pytest.mark.parametrize(
  "options, message",
  [
    (
      dict(languages=("en", "th")),
      "CaptionStream.languages: 'th' is not one of the available languages: ar de en",
    ),
    (dict(language_weights="most"), "language_weights is 'most': give rates, uniform, count, or weights"),
    (dict(language_weights={"th": 1}), "language_weights: 'th' is not one"),
    (dict(languages=("en",), language_weights={"de": 1}), "language_weights: 'de' is not one .*: en"),
    (dict(language_weights={"en": -1}), "'en' has -1"),
    (dict(language_weights={"en": float("nan")}), "'en' has nan"),
    (dict(language_weights={"en": 0}), "are all 0"),
    (dict(temperature=0), "temperature is 0"),
  ],
)
def test_invalid_language_weights_are_refused(tiny, options, message):
  with pytest.raises(UsageError, match=message):
    captions(tiny, **options)


def test_gin_sets_language_weights(tiny):
  with gin.config_scope("weighted"), gin.unlock_config():
    gin.parse_config(f"""
      weighted/CaptionStream.mixture = "{tiny.name}"
      weighted/CaptionStream.languages = ("de", "en")
      weighted/CaptionStream.language_weights = {{"en": 3.0, "de": 1.0}}
      weighted/CaptionStream.temperature = 1.5
    """)
    stream = CaptionStream(batch_size=4, image_size=8)
  assert stream.languages == ("de", "en")
  assert stream.parts[0].weights == pytest.approx({"de": 1, "en": 3 ** (1 / 1.5)})
