"""Draws the captions of an image, as a function of the seed, the image, the pass over the images, and the languages.

If all captions of an image are equally likely, they are put in one order, which the passes go through K by K: an epoch
shows each of them exactly once, for every K. Otherwise captions are drawn by weight, by systematic sampling (Madow, "On
the theory of systematic sampling, II", 1949) along a golden ratio sequence, so that after few passes the shares of the
languages are already close to the weights.

For stabilizers it pairs each caption with the caption in a pivot language that it translates. A record does not say
which that is. Its only caption in the pivot language is everybody's pivot: so in CC3M-35L and emoji36. With several, as
in COCO-35L, the translations must lie as `xmcap data build` writes them: groups of a pivot caption and its
translations, each group in the order of `xmcap.languages`. What cannot be paired like this is never drawn, rather than
guessed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from xmcap import languages as languages_lib
from xmcap.data import draws
from xmcap.data.mixture import MixedSource
from xmcap.data.order import Places
from xmcap.data.records import Columns, RecordSource, parse_columns

NO_PIVOT = -1
_GOLDEN = (5**0.5 - 1) / 2
_TRANSLATED = ("mt", "translated")
_MAX_LAYOUTS = 10_000  # cached layouts of some 3 kB each; the images of most corpora share a few


class DrawnCaptions(NamedTuple):
  """The key of an image, and language code -> the first caption that is drawn of it in the language."""

  key: str
  texts: dict[str, str]


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
    counts = np.array([len(places) for places in by_column], np.int64)
    self._present = np.flatnonzero(counts)  # the M columns with captions
    self._counts = counts[self._present]
    self._places = np.zeros((len(self._present), max(1, counts.max())), np.int64)
    for row, column in enumerate(self._present):
      self._places[row, : counts[column]] = by_column[column]
    self._weights = weights[self._present] if power is None else self._counts.astype(float) ** power
    self._absent = len(weights)

  def take(
    self, ranks: np.ndarray, turns: np.ndarray, phases: np.ndarray, passes: np.ndarray, count: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """Takes the captions of N images with this layout in one pass over them.

    Args:
      ranks: float64 [N, L], in (0, 1): the languages of an image are put in the order of these.
      turns: uint64 [N, 1], `draws.states`, of which a column says which caption of a language is the first.
      phases: float64 [N], in (0, 1): where the sequence of the draws by weight begins.
      passes: int64 [N], the number of earlier passes over the images.
      count: K, captions per image.

    Returns:
      (columns, places): int64 [N, K]; column L and place 0 if the image has no caption in these languages.
    """
    if not self._present.size:
      return np.full((len(passes), count), self._absent), np.zeros((len(passes), count), np.int64)
    if len(self._present) < self._absent:
      ranks = ranks[:, self._present]
    of_caption = self._weights / self._counts
    if np.ptp(of_caption) <= 1e-9 * of_caption.max():
      rows, later = self._in_turn(ranks, passes, count)
    else:
      rows, later = self._by_weight(ranks, (phases + passes * _GOLDEN) % 1, count)
    columns = self._present[rows]
    if self._places.shape[1] == 1:
      return columns, self._places[rows, 0]
    first = draws.columns_of(turns, columns) % self._counts[rows].astype(np.uint64)
    return columns, self._places[rows, (first.astype(np.int64) + later) % self._counts[rows]]

  def _in_turn(self, ranks: np.ndarray, passes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (rows of the languages, turns in them), int64 [N, K], if all captions are equally likely.

    The captions of a language are evenly spread over the order, so that K neighbours are in different languages.
    """
    period = self._counts // np.gcd.reduce(self._counts)
    rows, turns = np.repeat(np.arange(len(period)), period), np.concatenate([np.arange(n) for n in period])
    order = np.argsort((turns + ranks[:, rows]) / period[rows], axis=1, kind="stable")
    rounds, slots = np.divmod(passes[:, None] * count + np.arange(count), len(rows))
    chosen = np.take_along_axis(order, slots, axis=1)
    return rows[chosen], turns[chosen] + rounds * period[rows[chosen]]

  def _by_weight(self, ranks: np.ndarray, phases: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """As `_in_turn`, by weight: steps of 1 on a line on which each language is as long as its expected captions."""
    expected = self._expected(count)
    order = np.argsort(ranks, axis=1, kind="stable")
    ends = np.cumsum(expected[order], axis=1)
    steps = phases[:, None] + np.arange(count)
    slots = (ends[:, None, :-1] <= steps[:, :, None]).sum(axis=2)
    rows = np.take_along_axis(order, slots, axis=1)
    inside = steps - np.take_along_axis(ends, slots, axis=1) + expected[rows]
    return rows, np.floor(inside / expected[rows] * self._counts[rows]).astype(np.int64)

  def _expected(self, count: int) -> np.ndarray:
    """Returns float64 [M]: how many of an image's `count` captions are in each language, on average.

    All captions before one is repeated, each language before one has two; and the rest by weight.
    """
    repeats, rest = divmod(count, int(self._counts.sum()))
    whole, room = repeats * self._counts.astype(float), np.ones(len(self._counts))
    if rest >= len(self._counts):
      whole, room, rest = whole + 1, self._counts - 1.0, rest - len(self._counts)
    shares = np.zeros(len(self._counts))
    while rest > 1e-12:
      # What one language has no room for goes to the others, by weight.
      open_weights = np.where(room - shares > 1e-12, self._weights, 0)
      shares = np.minimum(room, shares + rest * open_weights / open_weights.sum())
      rest = count - whole.sum() - shares.sum()
    return whole + shares


Drawn = Callable[[np.ndarray | slice, LanguageLayout], tuple[np.ndarray, np.ndarray]]
"""Given rows of the images and their layout, returns (columns, places) of their captions, as `take`."""


class Drawing:
  """Draws K captions of each image in a pass, in K different languages where its captions allow.

  Args:
    seed: seed of the draws.
    languages: the L codes to draw from, in the order of the columns.
    weights: code -> weight above 0, for each corpus; it is never drawn in another language.
    count_power: if given, the weight of a language is the image's number of captions in it, to this power.
    captions_per_image: K.
    sources: the sources of captions to draw for each corpus, () for all; ((),): all of all.
    pivot: code of a pivot language: only captions with a pair in it are drawn (see `pivots_of`); "": all.
  """

  method: ClassVar = "in turn by the pass"
  """For signatures: with another one, other captions are at a position."""

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

  def at(self, images: Places) -> Drawn:
    """Draws for N images, in the passes over them that `images` say."""
    ranks = draws.uniform(self.seed, "language", images.indices, len(self.languages))
    turns = draws.states(self.seed, "turn", images.indices)
    phases = draws.uniform(self.seed, "phase", images.indices, 1)[:, 0]

    def captions(rows: np.ndarray | slice, layout: LanguageLayout) -> tuple[np.ndarray, np.ndarray]:
      return layout.take(ranks[rows], turns[rows], phases[rows], images.epochs[rows], self.captions_per_image)

    return captions

  def read(
    self, source: RecordSource | MixedSource, images: Places
  ) -> Iterator[tuple[int, Columns, list[int], list[int]]]:
    """Reads the records of images one by one.

    Yields (corpus, record, columns [K] of its captions, their places [K]). An image without a caption in these
    languages has the column after the last language, and no places.
    """
    drawn = self.at(images)
    records = source.iterate(images.indices, parse_columns)
    for row, (part, record) in enumerate(zip(images.parts.tolist(), records, strict=True)):
      layout = self.layout(part, record.layout, record.languages, record.sources)
      (columns,), (places,) = (numbers.tolist() for numbers in drawn(slice(row, row + 1), layout))
      yield part, record, columns, places if columns[0] < len(self.languages) else []

  def captions(
    self, source: RecordSource | MixedSource, images: Places, prefixes: Sequence[str]
  ) -> list[DrawnCaptions]:
    """Reads what is drawn of N images; `prefixes` of the corpora go before their keys."""
    drawn = []
    for part, record, columns, places in self.read(source, images):
      # Beyond its captions, an image's columns are padding.
      languages = [self.languages[column] for column in columns[: len(places)]]
      pairs = zip(languages, (record.texts[place].decode() for place in places), strict=True)
      drawn.append(DrawnCaptions(prefixes[part] + record.key, dict(reversed(list(pairs)))))
    return drawn


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
