"""The words of sacreBLEU and rouge-score, as in THumB's scores of English captions."""

import re
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.scoring.tokenizers import base

_OTHER = re.compile("[^a-z0-9]+")


class Wmt13a(base.Tokenizer):
  """SacreBLEU's `13a` (mteval-v13a): punctuation apart, letters as they are; its default for English."""

  name = "13a"
  normalization = "none"

  @property
  def version(self) -> str:
    import sacrebleu

    return f"{self.rules}.sacrebleu-{sacrebleu.__version__}"

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    split = Tokenizer13a()
    return [split(text.rstrip()).split() for text in texts]


class Rouge(base.Tokenizer):
  """Lower case, and words of a to z and 0 to 9, as in rouge-score 0.1.2 without its stemmer; for English alone.

  All other letters would be lost, so any other language is refused.
  """

  name = "rouge"
  normalization = "lower,ascii-letters-and-digits"

  def __init__(self, language: str):
    super().__init__(language)
    if language != "en":
      raise UsageError(
        f"tokeniser 'rouge' has no letters but a to z, so it is for 'en' alone, not '{language}'"
      )

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    return [_OTHER.sub(" ", text.lower()).split() for text in texts]
