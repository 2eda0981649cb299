"""The default tokeniser: lower case, no punctuation, words by spaces or by a pinned segmenter.

The XM3600 paper lower-cases captions and removes punctuation; its segmenters were not published, so those
used here are named, with their versions, in every signature.
"""

import functools
import unicodedata
from collections.abc import Callable

from xmcap.scoring.tokenizers import base, normalization, segmenters


class Default(base.Tokenizer):
  """`Normalizer`, then words by the segmenter of the language if it writes none, else by white space.

  Segmenters: jieba (zh), fugashi with unidic-lite (ja), pythainlp newmm (th). They are imported when the
  first caption of their language is met.
  """

  name = "default"

  def __init__(self, language: str):
    super().__init__(language)
    self._normalize = normalization.Normalizer(language)

  def __call__(self, text: str) -> list[str]:
    text = self._normalize(text)
    return self._segment(text) if self.language in segmenters.SEGMENTERS else text.split()

  @property
  def version(self) -> str:
    version = f"{self.rules}.unicode-{unicodedata.unidata_version}"
    if self.language in segmenters.SEGMENTERS:
      version += f".{segmenters.version(self.language)}"
    return version

  @functools.cached_property
  def _segment(self) -> Callable[[str], list[str]]:
    return segmenters.load(self.language)
