"""The interface of tokenisers: captions in, words out, and a version that changes whenever a word could."""

import abc
from collections.abc import Sequence

from xmcap.scoring.words import Words


class Tokenizer(abc.ABC):
  """Splits captions of one language into words.

  To add one, write a subclass in a file of its own and name it in `xmcap.scoring.tokenizers.TOKENIZERS`.

  Attributes:
    name: in options and signatures.
    normalization: of the characters before words are found, for signatures.
    rules: version of this tokeniser's own rules; raise it with each change that could change a word.
    needs_tokenized: whether `tokenize_references` needs the words that the release itself gives.
  """

  name: str
  normalization: str
  rules: int = 1
  needs_tokenized: bool = False

  def __init__(self, language: str):
    """Takes the code of the captions' language; UsageError if the tokeniser does not know it."""
    self.language = language

  @property
  def version(self) -> str:
    """Everything that decides about the words of this language: rules, segmenter, their versions."""
    return str(self.rules)

  @abc.abstractmethod
  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    """Returns the words of each caption, in order; they depend on that caption alone and may be none."""

  def words(self, texts: Sequence[str]) -> Words:
    """Returns the same as `tokenize`, as numbers; for tokenisers that are faster that way."""
    return Words.of(self.tokenize(texts))

  def tokenize_references(
    self, texts: Sequence[str], tokenized: Sequence[str] | None = None
  ) -> list[list[str]]:
    """Returns the words of reference captions; by default, those of `tokenize`.

    Args:
      texts: the captions as people wrote them.
      tokenized: the same captions as the release splits them (`caption/tokenized`), words separated by
        spaces; only used where `needs_tokenized` is true.

    Raises:
      UsageError: `tokenized` is needed, and is missing or has another length than `texts`.
    """
    del tokenized
    return self.tokenize(texts)

  def __call__(self, text: str) -> list[str]:
    """Returns the words of one caption."""
    return self.tokenize([text])[0]
