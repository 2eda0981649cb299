"""Uses the release's own tokenised references, the closest match to the unpublished segmenters of the XM3600 paper."""

import itertools
from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.scoring.tokenizers import base, default, normalization
from xmcap.terminal import shown


class Given(base.Tokenizer):
  """Takes the words of references from `caption/tokenized`, and splits predictions with the default tokeniser.

  The default normalisation (lower case, no punctuation) is applied to the release's words too, because otherwise they
  could not match the words of predictions.
  """

  name = "given"
  normalization = "nfkc,lower,words"
  rules = 2
  needs_tokenized = True

  def __init__(self, language: str):
    super().__init__(language)
    self._default = default.Default(language)
    self._normalize = normalization.Normalizer(language)

  @property
  def version(self) -> str:
    return f"{self.rules}+{self._default.name}-{self._default.version}"

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    return self._default.tokenize(texts)

  def tokenize_references(
    self, texts: Sequence[str], tokenized: Sequence[str] | None = None
  ) -> list[list[str]]:
    for text, words in itertools.zip_longest(texts, tokenized or ()):
      if text is None or words is None or (text.strip() and not words.strip()):
        raise UsageError(
          f"tokeniser 'given' needs 'caption/tokenized' for each reference in '{self.language}', but it is missing for "
          f"'{shown(text)}'; use the references as released, or another tokeniser"
        )
    return [text.split() for text in self._normalize(tokenized or ())]
