"""Rendering of emoji scenes: sizes, places, jitter, backgrounds and seeds."""

import dataclasses
import io
import pickle

import numpy as np
import pytest
from PIL import Image

from xmcap.corpora.emoji import scenes
from xmcap.corpora.emoji.presets import DIFFICULTIES
from xmcap.corpora.emoji.scenes import Renderer

COLOURS = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]


@pytest.fixture(autouse=True)
def one_colour(monkeypatch):
  """Backgrounds are of one colour that is none of the emoji's, so that extents can be measured."""
  monkeypatch.setattr(scenes, "_CONTRAST", 0.0)


def renderer(image_size=64, **changes):
  squares = [Image.new("RGBA", (20, 20), (*colour, 255)) for colour in COLOURS]
  return Renderer(squares, image_size, dataclasses.replace(DIFFICULTIES["medium"], **changes))


def render(drawn, made, seed=0):
  return [np.asarray(picture) for picture in made.render(drawn, np.random.default_rng(seed))]


def extent(picture, emoji):
  """(left, top, right, bottom) of what shows the emoji's own colour."""
  rows, columns = np.nonzero((picture == COLOURS[emoji]).all(-1))
  return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def test_scene_images_are_square_rgb():
  (picture,) = render([[0]], renderer(40))
  assert picture.shape == (40, 40, 3)
  assert picture.dtype == np.uint8


@pytest.mark.parametrize("difficulty", list(DIFFICULTIES))
def test_scene_emoji_are_in_reading_order_and_inside(difficulty):
  made = renderer(**dataclasses.asdict(DIFFICULTIES[difficulty]))
  orders = [[0, 1, 2], [2, 0, 1], [1, 0], [2, 1, 0]] * 25
  for order, picture in zip(orders, render(orders, made), strict=True):
    boxes = [extent(picture, emoji) for emoji in order]
    lefts = [box[0] for box in boxes]
    assert lefts == sorted(lefts)


def test_scene_emoji_sizes_are_within_limits():
  made = renderer(100, min_size=0.3, max_size=0.5)
  sizes = []
  for picture in render([[0]] * 200, made):
    left, top, right, bottom = extent(picture, 0)
    assert right - left == bottom - top
    sizes.append(right - left)
  assert 27 <= min(sizes) <= 33
  assert 46 <= max(sizes) <= 50


def test_scene_without_jitter_has_fixed_places():
  pictures = render([[0, 1]] * 20, renderer(jitter=0.0, min_size=0.3, max_size=0.3))
  assert {extent(picture, 0) for picture in pictures} == {extent(pictures[0], 0)}
  left, top, right, bottom = extent(pictures[0], 0)
  assert abs((top + bottom) / 2 - 32) <= 1


def test_scene_with_jitter_has_varying_places():
  pictures = render([[0]] * 50, renderer(jitter=1.0, min_size=0.3, max_size=0.3))
  tops = [extent(picture, 0)[1] for picture in pictures]
  assert min(tops) < 8 and max(tops) > 36


def test_scene_rows_that_are_too_wide_shrink():
  made = renderer(min_size=0.6, max_size=0.6, overlap=0.0)
  for picture in render([[0, 1, 2]] * 20, made):
    assert sum(extent(picture, emoji)[2] - extent(picture, emoji)[0] for emoji in range(3)) <= 64


def test_scene_backgrounds_vary(monkeypatch):
  monkeypatch.setattr(scenes, "_CONTRAST", 1.0)
  pictures = render([[0]] * 30, renderer(min_size=0.1, max_size=0.1, jitter=0.0))
  colours = sorted(len(np.unique(picture[:20].reshape(-1, 3), axis=0)) for picture in pictures)
  assert colours[0] == colours[4] == 1  # one colour
  assert min(colours[20:]) > 8  # gradients and noise


def test_scene_depends_on_the_seed():
  one, same, other = (render([[0, 1]], renderer(), seed)[0] for seed in (0, 0, 1))
  np.testing.assert_array_equal(one, same)
  assert (one != other).any()


def test_scene_renderer_can_be_pickled():
  made = renderer()
  again = pickle.loads(pickle.dumps(made))
  np.testing.assert_array_equal(render([[0, 2]], made), render([[0, 2]], again))


def test_scene_png_is_lossless():
  (picture,) = renderer().render([[0, 1, 2]], np.random.default_rng(0))
  decoded = Image.open(io.BytesIO(scenes.encode_png(picture)))
  assert decoded.format == "PNG"
  np.testing.assert_array_equal(np.asarray(decoded), np.asarray(picture))
