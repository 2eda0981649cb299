"""Tokenisers: what a word is, for every language; one tokeniser a file."""

import difflib
import functools

from xmcap import languages
from xmcap.errors import UsageError
from xmcap.scoring.tokenizers.base import Tokenizer
from xmcap.scoring.tokenizers.default import Default
from xmcap.scoring.tokenizers.whitespace import Whitespace

TOKENIZERS: dict[str, type[Tokenizer]] = {tokenizer.name: tokenizer for tokenizer in (Default, Whitespace)}
"""Name -> class."""


@functools.cache
def get(name: str, language: str) -> Tokenizer:
  """Returns the tokeniser of a name for a language; each is made once, since segmenters are slow to load.

  Raises:
    UsageError: there is no such tokeniser or language.
  """
  if name not in TOKENIZERS:
    nearest = difflib.get_close_matches(name, TOKENIZERS, n=1)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ";"
    raise UsageError(f"unknown tokeniser '{name}'{hint} There are: {', '.join(TOKENIZERS)}")
  return TOKENIZERS[name](languages.get(language).code)
