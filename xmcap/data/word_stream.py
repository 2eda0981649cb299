"""The stream of captions as words with vectors, and of the stored features of their pictures."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import gin
import numpy as np

from xmcap.data import draws, words
from xmcap.data.caption_choice import Drawing
from xmcap.data.columns import parse_columns_and_sources
from xmcap.data.order import Places
from xmcap.data.parts import join, open_parts
from xmcap.data.picture_stream import Batch, PictureStream
from xmcap.data.tasks import registration
from xmcap.errors import UsageError

_EMPTY = "pictures without a caption in these languages"
_CUT = "words beyond the longest text"

_Caption = tuple[int, str, str]
"""(row, caption, its words joined by spaces or "")."""


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class WordStream(PictureStream):
  """A caption of each picture, as words, with the stored features of the picture and of another one.

  Languages are drawn by weight, and the captions of a language alternate by epoch, as in `CaptionStream`. Captions are
  read and split into words when they are drawn: those of CC3M-35L would take tens of gigabytes of memory.

  A batch has `words` int32 [B, T], 1 + the number of each known word, then 0; `vectors` float32 [B, T, D], their
  vectors, then 0; `features` float32 [B, F], those of the caption's picture; `other` float32 [B, F], those of another
  picture, drawn evenly; `weights` float32 [B], 0 for pictures without a caption in these languages; and `key` [B].

  Attributes, beside those of `PictureStream`, of which `features` is required:
    words: folder that `xmcap data words` wrote.
    languages: codes to draw from.
    sources: sources of captions to draw, of `human`, `mt` and `translated`; () means all.
    language_weights: as in `CaptionStream`.
    longest: T, words of a caption; further ones are dropped and counted in `lost`. The paper's code has 32 too.
  """

  words: str = ""
  languages: Sequence[str] = ()
  sources: Sequence[str] = ()
  language_weights: str | Mapping[str, float] = "rates"
  longest: int = 32

  captions_per_image: ClassVar[int] = 1

  def __post_init__(self):
    self.image_size = 1  # the pixels are not used
    super().__post_init__()
    if not self.features or not self.words:
      raise UsageError("a WordStream needs stored features of the pictures (FEATURES) and words (WORDS)")
    if self.longest < 1:
      raise UsageError(f"WordStream.longest is {self.longest}: give at least 1")
    self.vocabulary_of_words = words.read(self.words, self.languages)
    self.languages = tuple(self.vocabulary_of_words.by_language)
    registered = registration(self.mixture)
    self.parts = open_parts(
      registered,
      self.split,
      languages=self.languages,
      weights=self.language_weights,
      temperature=1.0,
      sources=self.sources,
      stream="WordStream",
    )
    self.source, self.order = join(self.parts, registered, self.split, self.seed)
    if len(self.source) < 2:
      raise UsageError(f"split '{self.split}' has one picture: a WordStream needs another one beside it")
    self._drawing = self._draw_from(self.languages)

  def only(self, language: str) -> Self:
    """Returns a stream of the captions in one of the languages, with the same pictures in the same order."""
    stream = copy.copy(self)
    stream._lost = {}
    stream._drawing = self._draw_from((language,))
    return stream

  def _draw_from(self, languages: Sequence[str]) -> Drawing:
    weights = [
      {code: weight for code, weight in part.weights.items() if code in languages} for part in self.parts
    ]
    power = 1.0 if self.language_weights == "count" else None
    return Drawing(self.seed, languages, weights, power, 1, [part.sources for part in self.parts])

  def signature(self) -> dict[str, Any]:
    return {
      **super().signature(),
      "words": self.vocabulary_of_words.sha256,
      "language_weights": [dict(part.weights) for part in self.parts],
      "sources": [part.sources for part in self.parts],
      "longest": self.longest,
      "splits": {part.name: part.source.split for part in self.parts},
    }

  def _part(
    self, step: int, positions: np.ndarray, pixels: np.ndarray
  ) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Returns keys [N], words [N, T], which pictures have a caption, other features, a key for each cut word."""
    found = self.order.at(positions)
    keys, captions = self._drawn(positions, found)
    numbers = np.zeros((len(positions), self.longest), np.int32)
    there = np.zeros(len(positions), bool)
    cut = []
    for language, of_language in captions.items():
      rows, texts, tokenized = zip(*of_language, strict=True)
      there[list(rows)] = True
      # One call for all captions of a language, because a call costs more than a caption.
      encoded = self.vocabulary_of_words.encode(language, texts, tokenized)
      for row, of_caption in zip(rows, encoded, strict=True):
        kept = of_caption[: self.longest]
        numbers[row, : len(kept)] = kept + 1
        cut += [keys[row]] * (len(of_caption) - len(kept))
    pixels[...] = self._vectors_of(found.indices, keys)
    # One of the pictures but the own one, all equally likely.
    size = len(self.source)
    steps = draws.bits(self.seed, "other", positions, 1)[:, 0] % np.uint64(size - 1)
    others = (found.indices + 1 + steps.astype(np.int64)) % size
    return keys, numbers, there, np.asarray(self._stored.vectors[others], np.float32), cut

  def _drawn(self, positions: np.ndarray, found: Places) -> tuple[list[str], dict[str, list[_Caption]]]:
    """Returns keys [N], and the drawn captions by language; a picture without any has none."""
    drawn, parts = self._drawing.at(positions, found), found.parts.tolist()
    keys: list[str] = []
    captions: dict[str, list[_Caption]] = {}
    for row, columns in enumerate(self.source.iterate(found.indices, parse_columns_and_sources)):
      keys.append(self.parts[parts[row]].prefix + columns.key)
      layout = self._drawing.layout(parts[row], columns.layout, columns.languages, columns.sources)
      chosen, places = drawn(slice(row, row + 1), layout)
      if chosen[0, 0] < len(self._drawing.languages):
        place = int(places[0, 0])
        tokenized = columns.tokenized[place].decode() if columns.tokenized else ""
        caption = row, columns.texts[place].decode(), tokenized
        captions.setdefault(columns.languages[place].decode(), []).append(caption)
    return keys, captions

  def _joined(self, positions: np.ndarray, pixels: np.ndarray, parts: list[tuple]) -> Batch:
    keys, numbers, there, others, cut = zip(*parts, strict=True)
    keys, numbers, there = sum(keys, []), np.concatenate(numbers), np.concatenate(there)
    weights = self._weights_of(positions)
    of_stream = np.flatnonzero(weights).tolist()
    self._count_lost(_EMPTY, [keys[row] for row in of_stream if not there[row]])
    self._count_lost(_CUT, sum(cut, []))
    return {
      "words": numbers,
      "vectors": self.vocabulary_of_words.look_up(numbers),
      "features": pixels,
      "other": np.concatenate(others),
      "weights": weights * there,
      "key": np.array(keys),
    }
