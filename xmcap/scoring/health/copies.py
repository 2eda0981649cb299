"""Finds captions that are the same in two languages, a sign that the model ignores the requested language."""

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

# After NFKC, which maps full-width forms to these.
_ENDS = " .,;:!?\"'()\u3002\u060c\u061f\u0964"


def marks(keys: Sequence[str], captions: Sequence[str]) -> np.ndarray:
  """Returns int64 [N]: for each of N non-empty captions a hash of image and caption.

  Captions are compared in NFKC and case-folded, with single spaces and without punctuation at the ends. The hashes are
  valid only in this process and in forks of it.
  """
  normalized = zip(keys, map(_normalize, captions), strict=True)
  return np.array([hash(pair) for pair in normalized if pair[1]], np.int64)


def copies(marks: Mapping[str, np.ndarray]) -> dict[str, float | None]:
  """Returns language -> share in [0, 1] of its captions that another language has for the same image too.

  Each language has the `marks` of its captions, at most one per image. Close languages rightly share short captions:
  "en hund" is a dog in both Danish and Norwegian. The share is None if there is no other language or no caption.
  """
  if not marks:
    return {}
  _, place, count = np.unique(np.concatenate(list(marks.values())), return_inverse=True, return_counts=True)
  repeated = np.split(count[place] > 1, np.cumsum([len(held) for held in marks.values()])[:-1])
  return {
    language: float(of_language.mean()) if len(of_language) and len(marks) > 1 else None
    for language, of_language in zip(marks, repeated, strict=True)
  }


def _normalize(caption: str) -> str:
  return " ".join(unicodedata.normalize("NFKC", caption).casefold().split()).strip(_ENDS)
