"""Characters as words, so that scores of languages without spaces do not depend on a segmenter."""

import unicodedata
from collections.abc import Sequence

from xmcap.scoring.tokenizers import base, composition


class Character(base.Tokenizer):
  """Unicode NFKC (as `compose`), lower case, then each code point is a word.

  Only white space is dropped; punctuation, combining marks and format characters stay. The same for every language.
  """

  name = "char"
  normalization = "nfkc,lower"
  rules = 2

  @property
  def version(self) -> str:
    return f"{self.rules}.unicode-{unicodedata.unidata_version}"

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    return [list("".join(composition.compose(text).lower().split())) for text in texts]
