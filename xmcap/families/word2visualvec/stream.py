"""The stream of captions as words with vectors, and of the stored features of their images."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import gin
import numpy as np

from xmcap.data import draws
from xmcap.data.batch_maker import BatchRows
from xmcap.data.caption_choice import Drawing, DrawnCaptions
from xmcap.data.image_inputs import StoredVectors
from xmcap.data.image_stream import ImageStream
from xmcap.data.mixture import MixedSource, open_parts
from xmcap.data.order import Places
from xmcap.data.records import RecordSource
from xmcap.data.registry import registration
from xmcap.errors import UsageError
from xmcap.families.word2visualvec import words

_EMPTY = "pictures without a caption in these languages"
_CUT = "words beyond the longest text"


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class WordStream(ImageStream):
  """A caption of each image, as words, with the stored features of the image and of another one.

  Languages are drawn by weight, and the captions of a language alternate by epoch, as in `CaptionStream`. Captions are
  read and split into words when they are drawn: those of CC3M-35L would take tens of gigabytes of memory.

  A batch has `words` int32 [B, T], 1 + the number of each known word, then 0; `vectors` float32 [B, T, D], their
  vectors, then 0; `features` float32 [B, F], those of the caption's image; `other` float32 [B, F], those of another
  image, drawn evenly; `weights` float32 [B], 0 for images without a caption in these languages; and `key` [B].

  Attributes, beside those of `ImageStream`, of which `features` is required:
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
    self.parts, source, order = open_parts(self, registration(self.mixture))
    self._open(source, order)
    if len(self.source) < 2:
      raise UsageError(f"split '{self.split}' has one picture: a WordStream needs another one beside it")
    assert isinstance(self.inputs, StoredVectors)
    self.reader: WordReader = WordReader(
      self.source, self._draw_from(self.languages), tuple(part.prefix for part in self.parts),
      self.vocabulary_of_words, self.longest, self.inputs, self.seed,
    )  # fmt: skip

  def only(self, language: str) -> Self:
    """Returns a stream of the captions in one of the languages, with the same images in the same order."""
    stream = copy.copy(self)
    stream.maker = self.maker.apart()
    stream.reader = dataclasses.replace(self.reader, drawing=self._draw_from((language,)))
    return stream

  def captions(self, positions: np.ndarray) -> list[DrawnCaptions]:
    """Returns the keys and the drawn captions of the images at N positions, int64 [N]."""
    reader = self.reader
    return reader.drawing.captions(self.source, self.order.at(positions), reader.prefixes)

  def _draw_from(self, languages: Sequence[str]) -> Drawing:
    weights, sources = zip(*((part.weights, part.sources) for part in self.parts), strict=True)
    power = 1.0 if self.language_weights == "count" else None
    return Drawing(self.seed, languages, weights, power, 1, sources)

  def signature(self) -> dict[str, Any]:
    return {
      **super().signature(),
      "words": self.vocabulary_of_words.sha256,
      "language_weights": [dict(part.weights) for part in self.parts],
      "sources": [part.sources for part in self.parts],
      "longest": self.longest,
      "captions": self.reader.drawing.method,
      "splits": {part.name: part.source.split for part in self.parts},
    }


@dataclasses.dataclass(frozen=True, eq=False)
class WordReader:
  """Reads the captions of a `WordStream` as words, and the stored features of images.

  Attributes:
    source: the records of all corpora.
    drawing: draws the caption of an image.
    prefixes: what is put before the keys of each corpus.
    vocabulary: the words with vectors.
    longest: T, words of a caption.
    features: those of the images.
    seed: seed of the other images.
  """

  source: RecordSource | MixedSource
  drawing: Drawing
  prefixes: Sequence[str]
  vocabulary: words.WordVectors
  longest: int
  features: StoredVectors
  seed: int

  def __call__(
    self, inputs: np.ndarray, positions: np.ndarray, counted: np.ndarray, places: Places
  ) -> BatchRows:
    """Returns the words and features of N images."""
    keys: list[str] = []
    captions: dict[str, list[tuple[int, str, str]]] = {}  # by language: row, text, words of the release
    for row, (part, record, _, chosen) in enumerate(self.drawing.read(self.source, places)):
      keys.append(self.prefixes[part] + record.key)
      for place in chosen:  # one or none
        of_language = captions.setdefault(record.languages[place].decode(), [])
        of_language.append((row, record.texts[place].decode(), record.tokenized[place].decode()))
    numbers = np.zeros((len(keys), self.longest), np.int32)
    weights = np.zeros(len(keys), np.float32)
    cut: list[str] = []
    for language, of_language in captions.items():
      rows, texts, tokenized = zip(*of_language, strict=True)
      weights[list(rows)] = counted[list(rows)]
      # One call for all captions of a language, because a call costs more than a caption.
      encoded = self.vocabulary.encode(language, texts, tokenized)
      for row, of_caption in zip(rows, encoded, strict=True):
        kept = of_caption[: self.longest]
        numbers[row, : len(kept)] = kept + 1
        if weights[row]:
          cut += [keys[row]] * (len(of_caption) - len(kept))
    empty = [keys[row] for row in np.flatnonzero(counted > weights)]
    inputs[...] = self.features.of(keys, places.indices)
    # One of the images but the own one, all equally likely.
    size = len(self.source)
    steps = draws.bits(self.seed, "other", positions, 1)[:, 0] % np.uint64(size - 1)
    others = (places.indices + 1 + steps.astype(np.int64)) % size
    fields = {
      "words": numbers,
      "vectors": self.vocabulary.look_up(numbers),
      "other": np.asarray(self.features.stored.vectors[others], np.float32),
      "weights": weights,
    }
    return BatchRows(keys, fields, {_EMPTY: empty, _CUT: cut}, {})
