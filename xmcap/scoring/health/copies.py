"""Captions that are the same in two languages: a model that does not heed the language it is asked for."""

import collections
import unicodedata
from collections.abc import Mapping

# After NFKC, which makes these of the full-width forms.
_ENDS = " .,;:!?\"'()\u3002\u060c\u061f\u0964"


def copies(captions: Mapping[str, Mapping[str, str]]) -> dict[str, float | None]:
  """Returns language -> the share of its images, in [0, 1], whose caption another language has too.

  Captions are compared in NFKC and case-folded, with single spaces and no punctuation at their ends; empty ones do
  not count. Close languages share short captions by right: "en hund" is a dog in Danish and in Norwegian. The
  share is None where there is no other language or no caption.

  Args:
    captions: language -> image key -> caption.
  """
  normalized = {
    language: [(key, text) for key, caption in of_language.items() if (text := _normalize(caption))]
    for language, of_language in captions.items()
  }
  count = collections.Counter(pair for pairs in normalized.values() for pair in pairs)
  return {
    language: sum(count[pair] > 1 for pair in pairs) / len(pairs) if pairs and len(captions) > 1 else None
    for language, pairs in normalized.items()
  }


def _normalize(caption: str) -> str:
  return " ".join(unicodedata.normalize("NFKC", caption).casefold().split()).strip(_ENDS)
