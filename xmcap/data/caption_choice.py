"""Draws the captions of a picture, as a function of (seed, position) and the languages of its captions."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xmcap.data import draws

_MAX_LAYOUTS = 10_000  # cached layouts of some 3 kB each; the pictures of most corpora share a few


class Layout:
  """The languages of a picture's captions; many pictures share a layout.

  `languages` has the code of each caption, and `columns` the column of each of the L codes to draw from. With a
  `power`, the weight of a language is its number of captions to this power, instead of `weights`, float [L].
  """

  def __init__(
    self, languages: Sequence[str], columns: Mapping[str, int], weights: np.ndarray, power: float | None
  ):
    by_column: list[list[int]] = [[] for _ in columns]
    for place, language in enumerate(languages):
      column = columns.get(language)
      if column is not None:
        by_column[column].append(place)
    self.counts = np.array([len(places) for places in by_column], np.int64)
    self.places = np.zeros((len(columns), max(1, self.counts.max())), np.int64)
    for row, places in zip(self.places, by_column, strict=True):
      row[: len(places)] = places
    self.weights = weights if power is None else self.counts.astype(float) ** power

  def take(self, order: np.ndarray, turns: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Takes captions of N pictures with this layout: one of each drawn language, then the next of each, and so on.

    Args:
      order: int64 [N, L], the columns in the order drawn.
      turns: int64 [N], the first caption to take in each language.
      count: K, captions per picture.

    Returns:
      (columns, places): int64 [N, K]; column L and place 0 if the picture has no caption in these languages.
    """
    rounds, ranks = [], []
    for rank in range(self.counts.max()):
      held = order[(self.counts > rank)[order]].reshape(len(order), -1)
      rounds.append(held)
      ranks += [rank] * held.shape[1]
      if len(ranks) >= count:
        break
    if not ranks:
      return np.full((len(order), count), len(self.counts)), np.zeros((len(order), count), np.int64)
    slots = np.arange(count) % len(ranks)
    columns = np.concatenate(rounds, axis=1)[:, slots]
    in_turn = (turns[:, None] + np.array(ranks)[slots]) % self.counts[columns]
    return columns, self.places[columns, in_turn]


Drawn = Callable[[np.ndarray | slice, Layout], tuple[np.ndarray, np.ndarray]]
"""Given rows of the drawn positions and their layout, returns (columns, places) of their captions, as `take`."""


class Drawing:
  """Draws languages by weight, float [L], without replacement, and takes the captions of a language in turn.

  With a `count_power`, the weight of a language is the picture's number of captions in it, to this power. `pictures` is
  the number of pictures of the split.
  """

  def __init__(
    self,
    seed: int,
    languages: Sequence[str],
    weights: np.ndarray,
    count_power: float | None,
    captions_per_image: int,
    pictures: int,
  ):
    self.seed = seed
    self.languages = tuple(languages)
    self.weights = weights
    self.captions_per_image = captions_per_image
    self._count_power = count_power
    self._pictures = pictures
    self._columns = {language: column for column, language in enumerate(self.languages)}
    self._layouts: dict[bytes, Layout] = {}

  def layout(self, key: bytes, codes: Sequence[bytes]) -> Layout:
    """Returns the layout for captions in these languages, cached by `key`, which must be equal for equal codes."""
    layout = self._layouts.get(key)
    if layout is None:
      layout = Layout([code.decode() for code in codes], self._columns, self.weights, self._count_power)
      if len(self._layouts) < _MAX_LAYOUTS:
        self._layouts[key] = layout
    return layout

  def at(self, positions: np.ndarray, indices: np.ndarray) -> Drawn:
    """Draws for N positions of the stream, at least 0, and the pictures there; both are int64 [N]."""
    uniforms = draws.uniform(self.seed, "language", positions, len(self.languages))
    # A different start for every picture, or all would show their first caption in the same epoch.
    starts = draws.bits(self.seed, "turn", indices, 1)[:, 0] >> np.uint64(2)
    turns = starts.astype(np.int64) + positions // self._pictures

    def captions(rows: np.ndarray | slice, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
      order = draws.weighted_order(layout.weights, uniforms[rows])
      return layout.take(order, turns[rows], self.captions_per_image)

    return captions
