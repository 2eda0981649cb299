"""Draws the captions of an image, as a function of (seed, position) and the languages of its captions.

For stabilizers it pairs each caption with the caption in a pivot language that it translates. A record does not say
which that is. Its only caption in the pivot language is everybody's pivot: so in CC3M-35L and emoji36. With several, as
in COCO-35L, the translations must lie as `xmcap data build` writes them: groups of a pivot caption and its
translations, each group in the order of `xmcap.languages`. What cannot be paired like this is never drawn, rather than
guessed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from xmcap import languages as languages_lib
from xmcap.data import draws
from xmcap.data.mixture import MixedSource
from xmcap.data.order import Places
from xmcap.data.records import Columns, RecordSource, parse_columns

NO_PIVOT = -1
_TRANSLATED = ("mt", "translated")
_MAX_LAYOUTS = 10_000  # cached layouts of some 3 kB each; the images of most corpora share a few


class LanguageLayout:
  """The languages of an image's captions; many images share a layout.

  `languages` has the code of each caption, and `columns` the column of each code to draw from. With a `power`, the
  weight of a language is its number of captions to this power, instead of `weights`, float [L]. `pivots` has the place
  of each caption's pivot, if captions are drawn in pairs.
  """

  def __init__(
    self, languages: Sequence[str], columns: Mapping[str, int], weights: np.ndarray, power: float | None,
    pivots: Sequence[int] = (),
  ):  # fmt: skip
    self.pivots = np.array(pivots, np.int64)
    by_column: list[list[int]] = [[] for _ in weights]
    for place, language in enumerate(languages):
      column = columns.get(language)
      if column is not None:
        by_column[column].append(place)
    self.counts = np.array([len(places) for places in by_column], np.int64)
    self.places = np.zeros((len(weights), max(1, self.counts.max())), np.int64)
    for row, places in zip(self.places, by_column, strict=True):
      row[: len(places)] = places
    self.weights = weights if power is None else self.counts.astype(float) ** power

  def take(self, order: np.ndarray, turns: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Takes captions of N images with this layout: one of each drawn language, then the next of each, and so on.

    Args:
      order: int64 [N, L], the columns in the order drawn.
      turns: int64 [N], the first caption to take in each language.
      count: K, captions per image.

    Returns:
      (columns, places): int64 [N, K]; column L and place 0 if the image has no caption in these languages.
    """
    rounds, ranks = [], []
    for rank in range(self.counts.max()):
      present = order[(self.counts > rank)[order]].reshape(len(order), -1)
      rounds.append(present)
      ranks += [rank] * present.shape[1]
      if len(ranks) >= count:
        break
    if not ranks:
      return np.full((len(order), count), len(self.counts)), np.zeros((len(order), count), np.int64)
    slots = np.arange(count) % len(ranks)
    columns = np.concatenate(rounds, axis=1)[:, slots]
    in_turn = (turns[:, None] + np.array(ranks)[slots]) % self.counts[columns]
    return columns, self.places[columns, in_turn]


Drawn = Callable[[np.ndarray | slice, LanguageLayout], tuple[np.ndarray, np.ndarray]]
"""Given rows of the drawn positions and their layout, returns (columns, places) of their captions, as `take`."""


class Drawing:
  """Draws languages by weight, without replacement, and takes the captions of a language in turn.

  Args:
    seed: seed of the draws.
    languages: the L codes to draw from, in the order of the columns.
    weights: code -> weight above 0, for each corpus; it is never drawn in another language.
    count_power: if given, the weight of a language is the image's number of captions in it, to this power.
    captions_per_image: K.
    sources: the sources of captions to draw for each corpus, () for all; ((),): all of all.
    pivot: code of a pivot language: only captions with a pair in it are drawn (see `pivots_of`); "": all.
  """

  def __init__(
    self,
    seed: int,
    languages: Sequence[str],
    weights: Sequence[Mapping[str, float]],
    count_power: float | None,
    captions_per_image: int,
    sources: Sequence[Sequence[str]] = ((),),
    pivot: str = "",
  ):
    self.pivot = pivot
    self.seed = seed
    self.languages = tuple(languages)
    self.captions_per_image = captions_per_image
    self._weights = [
      np.array([of_part.get(language, 0.0) for language in self.languages]) for of_part in weights
    ]
    self._columns = [
      {language: column for column, language in enumerate(self.languages) if language in of_part}
      for of_part in weights
    ]
    self._sources = [frozenset(source.encode() for source in of_part) for of_part in sources]
    self._count_power = count_power
    self._layouts: dict[tuple[int, bytes], LanguageLayout] = {}

  def layout(
    self, part: int, key: bytes, codes: Sequence[bytes], sources: Sequence[bytes] = ()
  ) -> LanguageLayout:
    """Returns the layout of an image of a corpus with captions in these languages.

    `sources` of the captions are only needed if captions are chosen by source or in pairs. The layout is cached by
    `key`, which must be equal for equal codes and sources.
    """
    layout = self._layouts.get((part, key))
    if layout is None:
      languages, chosen = [language.decode() for language in codes], self._sources[part]
      pivots = []
      if self.pivot:
        pivots = pivots_of(languages, [source.decode() for source in sources], self.pivot)
        # A caption without a pair counts as one in no language.
        languages = [
          language if pivot != NO_PIVOT else "" for language, pivot in zip(languages, pivots, strict=True)
        ]
      if chosen:
        # A caption of another source counts as one in no language.
        pairs = zip(languages, sources, strict=True)
        languages = [language if source in chosen else "" for language, source in pairs]
      layout = LanguageLayout(languages, self._columns[part], self._weights[part], self._count_power, pivots)
      if len(self._layouts) < _MAX_LAYOUTS:
        self._layouts[part, key] = layout
    return layout

  def at(self, positions: np.ndarray, places: Places) -> Drawn:
    """Draws for N positions of the stream, int64 [N], at least 0, and the images there."""
    uniforms = draws.uniform(self.seed, "language", positions, len(self.languages))
    # A different start for every image, or all would show their first caption in the same epoch.
    starts = draws.bits(self.seed, "turn", places.indices, 1)[:, 0] >> np.uint64(2)
    turns = starts.astype(np.int64) + places.epochs

    def captions(rows: np.ndarray | slice, layout: LanguageLayout) -> tuple[np.ndarray, np.ndarray]:
      order = draws.weighted_order(layout.weights, uniforms[rows])
      return layout.take(order, turns[rows], self.captions_per_image)

    return captions

  def read(
    self, source: RecordSource | MixedSource, positions: np.ndarray, images: Places
  ) -> Iterator[tuple[int, Columns, list[int], list[int]]]:
    """Reads the records at positions one by one.

    Yields (corpus, record, columns [K] of its captions, their places [K]). An image without a caption in these
    languages has the column after the last language, and no places.
    """
    drawn = self.at(positions, images)
    records = source.iterate(images.indices, parse_columns)
    for row, (part, record) in enumerate(zip(images.parts.tolist(), records, strict=True)):
      layout = self.layout(part, record.layout, record.languages, record.sources)
      (columns,), (places,) = (numbers.tolist() for numbers in drawn(slice(row, row + 1), layout))
      yield part, record, columns, places if columns[0] < len(self.languages) else []


def pivots_of(languages: Sequence[str], sources: Sequence[str], pivot: str) -> list[int]:
  """Returns for each caption of an image the place of its pivot caption, its own if it is one; NO_PIVOT if unknown.

  Args:
    codes, sources: language and source of each caption.
    pivot: code of the pivot language.
  """
  pivots = [place for place, language in enumerate(languages) if language == pivot]
  if len(pivots) == 1:
    return pivots * len(languages)
  pivot_of = [place if language == pivot else NO_PIVOT for place, language in enumerate(languages)]
  groups = _groups(languages, sources, pivot)
  # A pivot without any translation is a sign of another order, such as all captions of a language in succession.
  if all(len(group) > 1 and sum(languages[place] == pivot for place in group) == 1 for group in groups):
    for group in groups:
      own = next(place for place in group if languages[place] == pivot)
      for place in group:
        pivot_of[place] = own
  return pivot_of


def _groups(languages: Sequence[str], sources: Sequence[str], pivot: str) -> list[list[int]]:
  """The places of pivots and translations, in a new group wherever the order of languages starts again."""
  order = {language: number for number, language in enumerate(languages_lib.ordered(set(languages)))}
  groups: list[list[int]] = []
  for place, (language, source) in enumerate(zip(languages, sources, strict=True)):
    if language == pivot or source in _TRANSLATED:
      if not groups or order[languages[groups[-1][-1]]] >= order[language]:
        groups.append([])
      groups[-1].append(place)
  return groups
