"""Base class of tokenisers, which split captions into words and have a version that changes with their output."""

import abc
from collections.abc import Sequence

from xmcap.scoring.tokenizers.words import CaptionWords


class Tokenizer(abc.ABC):
  """Splits captions of one language into words.

  Attributes:
    name: name in options and signatures.
    normalization: character normalisation before tokenisation, for signatures.
    rules: version of this tokeniser's own rules; raise it with each change that could change a word.
    needs_tokenized: whether `tokenize_references` needs the tokenised captions of the release.
    in_order: whether words depend on the other captions and their order, so that `together` has to see all of them.
  """

  name: str
  normalization: str
  rules: int = 1
  needs_tokenized: bool = False
  in_order: bool = False

  def __init__(self, language: str):
    """Takes the code of the captions' language; UsageError if the tokeniser does not support it."""
    self.language = language

  @property
  def version(self) -> str:
    """Everything that determines the words of this language: versions of rules and segmenter."""
    return str(self.rules)

  @abc.abstractmethod
  def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
    """Returns the words of each caption, perhaps none; they depend only on that caption."""

  def words(self, texts: Sequence[str]) -> CaptionWords:
    """Returns the result of `tokenize` as `CaptionWords`; overridden by tokenisers that are faster that way."""
    return CaptionWords.of(self.tokenize(texts))

  def tokenize_references(
    self, texts: Sequence[str], tokenized: Sequence[str] | None = None
  ) -> list[list[str]]:
    """Returns the words of reference captions; by default, those of `tokenize`.

    If `needs_tokenized`, `tokenized` has the same captions with spaces between the words of the release
    (`caption/tokenized`); UsageError if it is missing or differs from `texts` in length.
    """
    return self.tokenize(texts)

  def together(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
  ) -> tuple[list[list[str]], list[list[list[str]]]]:
    """Returns the words of the hypothesis and of the references of each image; for tokenisers with `in_order`.

    The images and their references are in the order of the file.
    """
    raise NotImplementedError

  def __call__(self, text: str) -> list[str]:
    """Returns the words of one caption."""
    return self.tokenize([text])[0]
