"""The default tokeniser: lower case, no punctuation, words split at spaces or by a segmenter.

The XM3600 paper lower-cases captions and removes punctuation. Its segmenters were not published, so every signature
names the segmenters that we use and their versions.
"""

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np

from xmcap.scoring.tokenizers import base, normalization, segmenters
from xmcap.scoring.words import Words, split

_END = "\0"


class Default(base.Tokenizer):
  """Applies `Normalizer`, then splits at white space, or by a segmenter for languages without spaces.

  The segmenters are jieba (zh), fugashi with unidic-lite (ja) and pythainlp newmm (th). They are imported on first use.
  """

  name = "default"
  normalization = "nfkc,lower,words"

  def __init__(self, language: str):
    super().__init__(language)
    self._normalize = normalization.Normalizer(language)

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    if self.language in segmenters.SEGMENTERS:
      return self._segment(self._normalize(texts))
    return self.words(texts).captions()

  def words(self, texts: Sequence[str]) -> Words:
    if self.language in segmenters.SEGMENTERS:
      return super().words(texts)
    if not texts:
      return Words.of([])
    # Tokens between white space recur, so only distinct ones are normalised, which is safe because the normaliser never
    # looks beyond white space. A special token without words marks the end of a caption.
    joined = f" {_END} ".join([*texts, ""])
    if joined.count(_END) > len(texts):
      joined = f" {_END} ".join([*(text.replace(_END, " ") for text in texts), ""])
    distinct, token = split(joined)
    found = Words.of([text.split() for text in self._normalize(distinct)])
    # Each token is replaced by its words: mostly one, none for a single dash, two for "ski-doo".
    lengths = found.lengths[token]
    ends = np.cumsum(lengths)
    places = np.repeat((np.cumsum(found.lengths) - found.lengths)[token] - (ends - lengths), lengths)
    ends_of_captions = ends[np.flatnonzero(token == distinct.index(_END))]
    return Words(
      found.vocabulary, found.numbers[places + np.arange(len(places))], np.diff(ends_of_captions, prepend=0)
    )

  @property
  def version(self) -> str:
    version = f"{self.rules}.unicode-{unicodedata.unidata_version}"
    if self.language in segmenters.SEGMENTERS:
      version += f".{segmenters.version(self.language)}"
    return version

  @functools.cached_property
  def _segment(self) -> segmenters.Segment:
    return segmenters.load(self.language)
