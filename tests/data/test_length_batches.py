"""The plan of batches by length, against one made from the lengths of all captions of a batch at once."""

import numpy as np
import pytest

from xmcap.data import draws, length_batches
from xmcap.data.caption_choice import Drawing
from xmcap.data.length_batches import LengthBatches
from xmcap.data.length_index import LayoutCodes, LengthIndex, SplitLengths
from xmcap.data.order import MixedOrder, Order

LANGUAGES = ("de", "en", "th")
SIZES = (300, 41)
LENGTHS = (4, 6, 9, 12)
LAYOUTS = [
  LayoutCodes.parse(text) for text in ("en/human de/mt th/mt", "en/human en/human de/mt de/mt", "en/human")
]


@pytest.fixture(scope="module")
def indexes() -> list[LengthIndex]:
  """The lengths of two corpora of several layouts: mostly short captions, a few long ones."""
  random = np.random.default_rng(0)
  corpora = []
  for size in SIZES:
    layout_of = random.integers(0, 3, size)
    sizes = np.array([len(layout.languages) for layout in LAYOUTS])[layout_of]
    lengths = np.minimum(2 + random.geometric(0.65, sizes.sum()), 15).astype(np.uint8)
    corpora.append(LengthIndex.whole(SplitLengths(LAYOUTS, layout_of, np.cumsum(sizes) - sizes, lengths)))
  return corpora


def planner(indexes, images: int, window: int, mixed: bool = True) -> LengthBatches:
  corpora = indexes if mixed else indexes[:1]
  order = MixedOrder(3, SIZES, [7_000, 3_000]) if mixed else Order(3, SIZES[:1])
  weights = [dict.fromkeys(LANGUAGES, 1.0)] * len(corpora)
  drawing = Drawing(3, LANGUAGES, weights, 1.0, 2, [()] * len(corpora))
  return LengthBatches(drawing, corpora, order, images, LENGTHS, window)


def whole(batches: LengthBatches, images: int, window: int, step: int) -> tuple[np.ndarray, int]:
  """Positions and length of a batch, from the longest captions of all images of its window at once."""
  first = step // window * window * images
  longest = batches._longest(np.arange(first, first + window * images))
  order = np.argsort(longest, kind="stable") if window > 1 else np.arange(images)
  shuffled = np.argsort(draws.bits(3, "window", np.array([step // window]), window)[0])
  rows = order.reshape(window, images)[shuffled[step % window]]
  return first + rows, min((n for n in LENGTHS if n >= longest[rows].max()), default=LENGTHS[-1])


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("images", [1, 8, 48])
def test_each_host_plans_what_the_whole_plan_says(indexes, monkeypatch, images, window, mixed):
  monkeypatch.setattr(length_batches, "_FIRST_PART", 3)
  monkeypatch.setattr(length_batches, "_PART", 50)
  reference = planner(indexes, images, window, mixed)
  hosts = [planner(indexes, images, window, mixed) for _ in range(3)]
  lengths = set()
  for step in (*range(16), 10**6):
    positions, length = whole(reference, images, window, step)
    assert {host.length(step) for host in hosts} == {length}
    dealt = np.full(images, -1)
    for number, host in enumerate(hosts):
      rows = np.arange(number, images, len(hosts))
      dealt[rows] = host.positions(step, rows)
    np.testing.assert_array_equal(dealt, positions)
    lengths.add(length)
  assert len(lengths) > 1


def test_a_batch_that_needs_the_largest_length_is_known_early(indexes, monkeypatch):
  batches = planner(indexes, 300, 1)
  monkeypatch.setattr(length_batches, "_FIRST_PART", 10)
  looked_at, longest = [], batches._longest
  monkeypatch.setattr(
    batches, "_longest", lambda positions: looked_at.append(len(positions)) or longest(positions)
  )
  counts = {LENGTHS[-1]: [], LENGTHS[-2]: []}
  for step in range(20):
    looked_at.clear()
    counts[batches.length(step)].append(sum(looked_at))
  assert max(counts[LENGTHS[-1]]) <= 300 > min(counts[LENGTHS[-1]])
  assert set(counts[LENGTHS[-2]]) == {300}


def test_one_length_needs_no_index(indexes):
  batches = LengthBatches(Drawing(0, LANGUAGES, [{}], None, 1), (), Order(0, [10**9]), 10**8, (64,))
  assert batches.length(5) == 64 and batches.mix(3) == {64: 1.0}
  assert batches.positions(2, np.array([0, 7])).tolist() == [2 * 10**8, 2 * 10**8 + 7]
