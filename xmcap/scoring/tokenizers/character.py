"""Characters as words, so that scores of languages without spaces do not depend on a segmenter."""

import unicodedata
from collections.abc import Sequence

from xmcap.scoring.tokenizers import base, composition, normalization


class Character(base.Tokenizer):
  """Unicode NFKC (as `compose`), lower case (`normalization.lower`), then each code point is a word.

  Only white space is dropped; punctuation, combining marks and format characters stay.
  """

  name = "char"
  normalization = "nfkc,lower"
  rules = 2

  @property
  def version(self) -> str:
    return f"{normalization.rules(self.rules, self.language)}.unicode-{unicodedata.unidata_version}"

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    composed = map(composition.compose, texts)
    return [list("".join(normalization.lower(text, self.language).split())) for text in composed]
