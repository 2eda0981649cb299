"""References split as their release splits them: the nearest to the XM3600 paper's own, unpublished segmenters."""

from collections.abc import Sequence

from xmcap.errors import UsageError
from xmcap.scoring.tokenizers import base, default, normalization
from xmcap.terminal import shown


class Given(base.Tokenizer):
  """References: the words of `caption/tokenized`. Predictions, which no release splits: the default tokeniser.

  The default's normalisation (lower case, no punctuation) is applied to the release's words too, or they could
  not match those of a prediction.
  """

  name = "given"
  normalization = "nfkc,lower,words"
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
    needed = f"tokeniser 'given' needs 'caption/tokenized' of each reference of '{self.language}', but"
    if tokenized is None or len(tokenized) != len(texts):
      found = "none" if tokenized is None else f"{len(tokenized)} for {len(texts)} captions"
      raise UsageError(f"{needed} the file has {found}; use the references as released, or another tokeniser")
    for text, given in zip(texts, tokenized, strict=True):
      if text.strip() and not given.strip():
        raise UsageError(
          f"{needed} that of '{shown(text)}' is empty; mend the file, or use another tokeniser"
        )
    return [text.split() for text in self._normalize(tokenized)]
