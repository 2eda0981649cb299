"""What is drawn for many pictures at once against a plain loop over one picture's captions."""

import itertools

import numpy as np
import pytest

from xmcap.data import draws
from xmcap.data.caption_choice import Drawing

CODES = ("ar", "de", "en", "th")
LAYOUTS = (
  ("en", "de", "en", "ar"),
  ("en",) * 5 + ("th",) * 2,
  ("fr", "th"),
  ("fr",),
  (),
  ("de", "fr", "en", "en", "th", "ar", "ar", "en"),
)


def turns_of(order, places, turn):
  """A picture's captions (column, place) without end: one of each language, then their next ones, then again."""
  held = [column for column in order if column in places]
  while held:
    for number in range(max(len(places[column]) for column in held)):
      for column in held:
        if number < len(places[column]):
          yield column, places[column][(turn + number) % len(places[column])]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("power", [None, 1.0, 0.5])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_pictures_at_once_are_drawn_as_one_by_one(layout, power, count):
  weights = np.array([1.0, 0.5, 3.0, 2.0])
  drawing = Drawing(7, CODES, weights, power, count, pictures=50)
  positions = np.arange(200, dtype=np.int64) * 13
  indices = positions % 50
  drawn = drawing.at(positions, indices)
  columns, places = drawn(slice(None), drawing.layout(b"", [code.encode() for code in layout]))
  assert columns.shape == places.shape == (200, count)
  by_column = {
    column: [place for place, language in enumerate(layout) if language == code]
    for column, code in enumerate(CODES)
    if code in layout
  }
  for row, (position, index) in enumerate(zip(positions.tolist(), indices.tolist(), strict=True)):
    here = np.array([position])
    uniforms = draws.uniform(7, "language", here, len(CODES))
    counts = np.array([float(layout.count(code)) for code in CODES])
    (order,) = draws.weighted_order(weights if power is None else counts**power, uniforms).tolist()
    start = int(draws.bits(7, "turn", np.array([index]), 1)[0, 0]) >> 2
    taken = list(itertools.islice(turns_of(order, by_column, start + position // 50), count))
    assert list(zip(columns[row], places[row], strict=True)) == (taken or [(len(CODES), 0)] * count)


def test_some_of_the_positions():
  drawing = Drawing(0, CODES, np.ones(4), None, 2, pictures=9)
  drawn = drawing.at(np.arange(30), np.arange(30) % 9)
  layout = drawing.layout(b"one", [code.encode() for code in LAYOUTS[5]])
  rows = np.array([4, 28, 7])
  for some, whole in zip(drawn(rows, layout), drawn(slice(None), layout), strict=True):
    np.testing.assert_array_equal(some, whole[rows])


def test_a_layout_is_kept_by_its_key():
  drawing = Drawing(0, CODES, np.ones(4), None, 1, pictures=9)
  layout = drawing.layout(b"one", [b"en", b"de"])
  assert drawing.layout(b"one", [b"en", b"de"]) is layout
  assert drawing.layout(b"other", [b"de"]) is not layout
