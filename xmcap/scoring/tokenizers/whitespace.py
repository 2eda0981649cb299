"""The plainest tokeniser, for comparison with scores that were made without segmenters."""

import unicodedata

from xmcap.scoring.tokenizers import base


class Whitespace(base.Tokenizer):
  """Lower case, punctuation (category P) deleted, split at white space; the same for every language."""

  name = "whitespace"

  @property
  def version(self) -> str:
    return f"{self.rules}.unicode-{unicodedata.unidata_version}"

  def __call__(self, text: str) -> list[str]:
    return "".join(c for c in text.lower() if unicodedata.category(c)[0] != "P").split()
