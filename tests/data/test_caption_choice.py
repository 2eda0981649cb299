"""`Drawing`: the captions of images by the pass, from layouts alone."""

import collections

import numpy as np
import pytest

from xmcap.data.caption_choice import Drawing
from xmcap.data.order import Order, Places
from xmcap.data.records import Columns

CODES = ("ar", "de", "en", "th")
UNEVEN = ("de", "fr", "en", "en", "th", "ar", "ar", "en")
IMAGES = 50


def images_at(passes: int, images: int = IMAGES) -> Places:
  """Every image once in each pass."""
  numbers = np.tile(np.arange(images), passes)
  return Places(numbers, np.zeros_like(numbers), np.repeat(np.arange(passes), images))


def drawn(layout, passes, count, weights=None, power=None, images=IMAGES):
  """(columns, places), int64 [passes, images, K]."""
  weights = weights or dict.fromkeys(CODES, 1.0)
  drawing = Drawing(7, list(weights), [weights], power, count)
  captions = drawing.at(images_at(passes, images))
  columns, places = captions(slice(None), drawing.layout(0, b"", [code.encode() for code in layout]))
  return columns.reshape(passes, images, count), places.reshape(passes, images, count)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 12, 20])
@pytest.mark.parametrize(
  "layout, power", [(CODES * 3, None), (CODES, None), (UNEVEN, 1.0), (("fr", "th"), None), (("en",) * 5, 1.0)]
)
def test_an_epoch_shows_each_caption_exactly_once(layout, power, count):
  captions = sum(code in CODES for code in layout)
  columns, places = drawn(layout, captions, count, power=power)
  for image in range(IMAGES):
    shown = places[:, image].reshape(-1, captions)  # one row an epoch, of which there are K
    np.testing.assert_array_equal(
      np.sort(shown), [[n for n, code in enumerate(layout) if code in CODES]] * count
    )
    assert [layout[place] for place in places[:, image].ravel()] == [
      CODES[column] for column in columns[:, image].ravel()
    ]


@pytest.mark.parametrize("count", [1, 5, 7, 35])
@pytest.mark.parametrize("of_language", [1, 5])
def test_an_epoch_of_the_paper_shows_each_of_its_captions_once(count, of_language):
  codes = [f"x{number}" for number in range(35)]
  weights, layout = dict.fromkeys(codes, 1.0), codes * of_language
  drawing = Drawing(0, codes, [weights], None, count)
  positions = np.arange(150 * len(layout) // count)
  images = Order(0, [150]).at(positions)
  columns, places = drawing.at(images)(
    slice(None), drawing.layout(0, b"", [code.encode() for code in layout])
  )
  seen = np.zeros((150, len(layout)), int)
  np.add.at(seen, (images.indices[:, None], places), 1)
  assert (seen == 1).all()
  assert all(len(set(row)) == count for row in columns.tolist())


@pytest.mark.parametrize(
  "layout, weights, power, count",
  [
    (CODES, (1, 0.5, 3, 2), None, 1),
    (UNEVEN, (1, 0.5, 3, 2), None, 2),
    (UNEVEN, (1, 1, 1, 1), None, 1),
    (UNEVEN, (1, 1, 1, 1), 0.5, 3),
    (UNEVEN, (1, 0.5, 3, 2), None, 5),
  ],
)
def test_after_few_passes_languages_have_their_shares(layout, weights, power, count):
  """Numbers by independent draws would be off by several times as much."""
  passes = 200
  columns, places = drawn(layout, passes, count, dict(zip(CODES, map(float, weights), strict=True)), power)
  counts = np.array([layout.count(code) for code in CODES])
  shares = counts**power if power else np.array(weights, float)
  # One by one, a language that is full leaves its surplus to the others; beyond four each language has one already.
  base = np.ones(4) if count >= 4 else np.zeros(4)
  room = counts - base if count >= 4 else np.ones(4)
  expected = np.zeros(4)
  for _ in range(100):
    free = np.where(expected < room - 1e-9, shares, 0)
    rest = count - base.sum() - expected.sum()
    expected = np.minimum(room, expected + rest * free / free.sum()) if rest > 1e-9 else expected
  for image in range(IMAGES):
    times = np.bincount(columns[:, image].ravel(), minlength=4)
    assert np.abs(times - passes * (base + expected)).max() < 6  # independent draws: about 20
    of_english = np.bincount(places[:, image][columns[:, image] == 2], minlength=len(layout))
    assert np.ptp([n for n, code in zip(of_english, layout, strict=False) if code == "en"]) < 8
  in_pass = np.stack([np.bincount(columns[n].ravel(), minlength=4) for n in range(passes)])
  assert np.abs(in_pass / IMAGES - (base + expected)).max() < 0.3  # no pass prefers a language


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, 0.5, 3, 2)])
@pytest.mark.parametrize("count", [2, 4, 6, 8, 9, 17])
def test_captions_of_a_pass_are_in_different_languages_and_repeat_only_after_all(weights, count):
  layout = CODES * 2
  columns, places = drawn(layout, 30, count, dict(zip(CODES, map(float, weights), strict=True)))
  for row, taken in zip(columns.reshape(-1, count).tolist(), places.reshape(-1, count).tolist(), strict=True):
    times = collections.Counter(row)
    assert max(times.values()) - min(times.values()) <= 1 or count > len(CODES)
    assert len(times) == min(count, len(CODES))
    of_caption = collections.Counter(taken)
    assert len(of_caption) == min(count, len(layout))
    assert max(of_caption.values()) <= -(-count // len(layout))


def test_images_have_orders_of_their_own():
  columns, places = drawn(CODES * 3, 1, 12, images=200)
  assert len(set(map(tuple, columns[0].tolist()))) == 24  # all orders of four languages
  assert len(set(map(tuple, places[0].tolist()))) > 150
  first = np.bincount(places[0, :, 0], minlength=12)
  assert first.min() > 4 and first.max() < 35


def test_an_image_without_a_caption_in_these_languages_has_none():
  columns, places = drawn(("fr",), 3, 2)
  assert (columns == len(CODES)).all() and (places == 0).all()


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, 0.5, 3, 2)])
def test_drawing_at_some_images_equals_rows_of_all(weights):
  drawing = Drawing(0, CODES, [dict(zip(CODES, map(float, weights), strict=True))], None, 2)
  captions = drawing.at(images_at(3, 10))
  layout = drawing.layout(0, b"one", [code.encode() for code in UNEVEN])
  rows = np.array([4, 28, 7])
  for some, whole in zip(captions(rows, layout), captions(slice(None), layout), strict=True):
    np.testing.assert_array_equal(some, whole[rows])


class Source:
  """Records whose captions are in the languages of `layouts`, in turn."""

  layouts = (UNEVEN, ("fr",), CODES, CODES * 2)

  def iterate(self, indices, parse):
    del parse
    for index in indices.tolist():
      codes = [code.encode() for code in self.layouts[index % 4]]
      yield Columns(str(index), b"", b" ".join(codes), codes, codes, codes, codes, ())


@pytest.mark.parametrize("power", [None, 0.5])
def test_reading_images_together_draws_what_each_has_alone(power):
  drawing = Drawing(0, CODES, [dict.fromkeys(CODES, 1.0)], power, 3)
  images = images_at(2)
  together = [(record.key, *choice) for _, record, *choice in drawing.read(Source(), images)]
  alone = [
    (record.key, *choice)
    for row in range(2 * IMAGES)
    for _, record, *choice in drawing.read(Source(), Places(*(column[row : row + 1] for column in images)))
  ]
  assert together == alone
  assert [places == [] for _, _, places in together] == [index % 4 == 1 for index in images.indices]


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
    columns, chosen = drawing.at(places)(slice(None), drawing.layout(part, b"", codes, sources))
    assert set(zip(columns.ravel().tolist(), chosen.ravel().tolist(), strict=True)) == {expected}
