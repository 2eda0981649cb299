"""Tokenisers, which split captions into words; one per file."""

import functools

from xmcap import languages
from xmcap.scoring import files
from xmcap.scoring.tokenizers import coco
from xmcap.scoring.tokenizers.base import Tokenizer
from xmcap.scoring.tokenizers.character import Character
from xmcap.scoring.tokenizers.default import Default
from xmcap.scoring.tokenizers.given import Given
from xmcap.scoring.tokenizers.ptb import Ptb
from xmcap.scoring.tokenizers.segmenters import SEGMENTERS
from xmcap.scoring.tokenizers.split import Split
from xmcap.scoring.tokenizers.whitespace import Whitespace

TOKENIZERS: dict[str, type[Tokenizer]] = {
  tokenizer.name: tokenizer
  for tokenizer in (Default, Character, Given, Ptb, *coco.TOKENIZERS, Split, Whitespace)
}
"""Name -> class."""


@functools.cache
def get(name: str, language: str) -> Tokenizer:
  """Returns the named tokeniser for a language, cached because segmenters are slow to load.

  Raises:
    UsageError: the tokeniser or language is unknown, or the tokeniser does not support the language.
  """
  if name not in TOKENIZERS:
    raise files.unknown_name("tokeniser", name, TOKENIZERS)
  return TOKENIZERS[name](languages.get(language).code)


__all__ = ["SEGMENTERS", "TOKENIZERS", "Default", "Tokenizer", "get"]
