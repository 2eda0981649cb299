"""Tokenisers, which split captions into words; one per file."""

import functools

from xmcap import languages, wording
from xmcap.scoring.tokenizers import coco
from xmcap.scoring.tokenizers.base import Tokenizer
from xmcap.scoring.tokenizers.character import Character
from xmcap.scoring.tokenizers.default import Default, Morphemes
from xmcap.scoring.tokenizers.english import Rouge, Wmt13a
from xmcap.scoring.tokenizers.given import Given
from xmcap.scoring.tokenizers.ptb import Ptb
from xmcap.scoring.tokenizers.rewriting import REWRITINGS, Rewritten
from xmcap.scoring.tokenizers.segmenters import SEGMENTERS
from xmcap.scoring.tokenizers.split import Raw, SplitTokenizer
from xmcap.scoring.tokenizers.whitespace import Whitespace

TOKENIZERS: dict[str, type[Tokenizer]] = {
  tokenizer.name: tokenizer
  for tokenizer in (
    Default,
    Character,
    Given,
    Morphemes,
    Ptb,
    *coco.TOKENIZERS,
    Raw,
    Rouge,
    SplitTokenizer,
    Whitespace,
    Wmt13a,
  )
}
"""Name -> class."""


@functools.cache
def get(name: str, language: str, normalize: str = "") -> Tokenizer:
  """Returns the named tokeniser for a language, cached because segmenters are slow to load.

  `normalize` names rules of `REWRITINGS` that its texts are rewritten by first; "": none.

  Raises:
    UsageError: the tokeniser, language or normalisation is unknown, or the tokeniser does not support the language.
  """
  if normalize and normalize not in REWRITINGS:
    raise wording.unknown_name("normalisation", normalize, REWRITINGS)
  if normalize:
    return Rewritten(get(name, language), normalize)
  if name not in TOKENIZERS:
    raise wording.unknown_name("tokeniser", name, TOKENIZERS)
  return TOKENIZERS[name](languages.get(language).code)


__all__ = ["SEGMENTERS", "TOKENIZERS", "Default", "Tokenizer", "get"]
