"""Tokenisers whose texts are rewritten by published rules before they split them (`--normalize=NAME`)."""

import dataclasses
from collections.abc import Callable, Sequence

from xmcap.errors import UsageError
from xmcap.scoring.tokenizers import base, orthography, sentence


@dataclasses.dataclass(frozen=True)
class Rewriting:
  """A normalisation: `rewrite` takes a language and texts; `languages` has those it is for, none if it is for all."""

  version: str
  rewrite: Callable[[str, Sequence[str]], list[str]]
  languages: frozenset[str] = frozenset()


REWRITINGS = {
  "orthography": Rewriting(orthography.VERSION, orthography.unify),
  "sentence": Rewriting(sentence.VERSION, sentence.finish, sentence.LANGUAGES),
}
"""Name of a normalisation -> its rules."""


class Rewritten(base.Tokenizer):
  """A tokeniser whose texts are rewritten before it splits them; UsageError if the rules are not for its language."""

  def __init__(self, tokenizer: base.Tokenizer, normalization: str):
    super().__init__(tokenizer.language)
    rules = REWRITINGS[normalization]
    if rules.languages and tokenizer.language not in rules.languages:
      raise UsageError(
        f"--normalize={normalization} is for {', '.join(rules.languages)}, not for {tokenizer.language}; leave it out, "
        f"or score only --languages={','.join(rules.languages)}"
      )
    self._rules, self._tokenizer = rules, tokenizer
    self.name = tokenizer.name
    self.normalization = f"{rules.version},{tokenizer.normalization}"
    self.needs_tokenized = tokenizer.needs_tokenized
    self.in_order = tokenizer.in_order

  @property
  def version(self) -> str:
    """With the version of the rules, as files of document frequencies are for these words only."""
    return f"{self._tokenizer.version}+{self._rules.version}"

  def _rewrite(self, texts: Sequence[str]) -> list[str]:
    return self._rules.rewrite(self.language, texts)

  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    return self._tokenizer.tokenize(self._rewrite(texts))

  def words(self, texts: Sequence[str]):
    return self._tokenizer.words(self._rewrite(texts))

  def tokenize_references(
    self, texts: Sequence[str], tokenized: Sequence[str] | None = None
  ) -> list[list[str]]:
    of_release = None if tokenized is None else self._rewrite(tokenized)
    return self._tokenizer.tokenize_references(self._rewrite(texts), of_release)

  def together(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
  ) -> tuple[list[list[str]], list[list[list[str]]]]:
    return self._tokenizer.together(self._rewrite(hypotheses), list(map(self._rewrite, references)))
