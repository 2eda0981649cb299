"""A tokeniser that splits at white space, for comparison with scores made without segmenters."""

import unicodedata
from collections.abc import Sequence

from xmcap.scoring.tokenizers import base, normalization


class _Kept(dict):
  """Table for `str.translate` that looks up the class of a character on first use."""

  def __missing__(self, code_point: int) -> str | None:
    character = chr(code_point)
    value = None if unicodedata.category(character)[0] == "P" else character
    self[code_point] = value
    return value


_KEPT = _Kept()


class Whitespace(base.Tokenizer):
  """Lower case (`normalization.lower`), punctuation (category P) deleted, split at white space."""

  name = "whitespace"
  normalization = "lower,no-punctuation"

  @property
  def version(self) -> str:
    return f"{normalization.rules(self.rules, self.language)}.unicode-{unicodedata.unidata_version}"

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    return [normalization.lower(text, self.language).translate(_KEPT).split() for text in texts]
