"""`Drawing`: captions drawn for many images at once, against a plain loop over one image's captions."""

import itertools

import numpy as np
import pytest

from xmcap.data import draws
from xmcap.data.caption_choice import Drawing
from xmcap.data.order import Places

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
def test_drawing_of_many_images_equals_one_by_one(layout, power, count):
  weights = np.array([1.0, 0.5, 3.0, 2.0])
  drawing = Drawing(7, CODES, [dict(zip(CODES, weights, strict=True))], power, count)
  positions = np.arange(200, dtype=np.int64) * 13
  indices = positions % 50
  drawn = drawing.at(positions, Places(indices, np.zeros_like(indices), positions // 50))
  columns, places = drawn(slice(None), drawing.layout(0, b"", [code.encode() for code in layout]))
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


def test_drawing_at_some_positions_equals_rows_of_all():
  drawing = Drawing(0, CODES, [dict.fromkeys(CODES, 1.0)], None, 2)
  positions = np.arange(30)
  drawn = drawing.at(positions, Places(positions % 9, np.zeros_like(positions), positions // 9))
  layout = drawing.layout(0, b"one", [code.encode() for code in LAYOUTS[5]])
  rows = np.array([4, 28, 7])
  for some, whole in zip(drawn(rows, layout), drawn(slice(None), layout), strict=True):
    np.testing.assert_array_equal(some, whole[rows])


def test_drawing_caches_layouts_by_key():
  drawing = Drawing(0, CODES, [dict.fromkeys(CODES, 1.0)] * 2, None, 1, sources=((), ()))
  layout = drawing.layout(0, b"one", [b"en", b"de"])
  assert drawing.layout(0, b"one", [b"en", b"de"]) is layout
  assert drawing.layout(0, b"other", [b"de"]) is not layout
  assert drawing.layout(1, b"one", [b"en", b"de"]) is not layout


def test_other_languages_and_sources_of_a_corpus_are_never_drawn():
  drawing = Drawing(0, CODES, [{"de": 1.0}, {"en": 1.0, "th": 1.0}], None, 3, sources=((), ("human",)))
  positions = np.arange(20)
  codes, sources = [b"en", b"de", b"en", b"th"], [b"mt", b"mt", b"human", b"mt"]
  for part, expected in enumerate(((1, 1), (2, 2))):  # (column, place)
    places = Places(positions, np.full(20, part), positions)
    columns, chosen = drawing.at(positions, places)(slice(None), drawing.layout(part, b"", codes, sources))
    assert set(zip(columns.ravel().tolist(), chosen.ravel().tolist(), strict=True)) == {expected}
