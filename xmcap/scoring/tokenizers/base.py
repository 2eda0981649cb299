"""What a tokeniser is: captions in, words out, and a version that changes whenever a word could."""

import abc


class Tokenizer(abc.ABC):
  """Splits a caption of one language into words.

  To add one, write a subclass in a file of its own and name it in `xmcap.scoring.tokenizers.TOKENIZERS`.

  Attributes:
    name: how options and signatures call it.
    rules: number of this tokeniser's own rules; raise it with each change that could change a word.
  """

  name: str
  rules: int = 1

  def __init__(self, language: str):
    """Prepares for captions of one language, given by its code."""
    self.language = language

  @property
  def version(self) -> str:
    """Everything that decides about the words of this language: rules, segmenter, their versions."""
    return str(self.rules)

  @abc.abstractmethod
  def __call__(self, text: str) -> list[str]:
    """Returns the words of a caption, in order; an empty list if nothing is left."""
