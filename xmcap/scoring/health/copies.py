"""Captions that are the same in two languages: a model that does not heed the language it is asked for."""

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

# After NFKC, which makes these of the full-width forms.
_ENDS = " .,;:!?\"'()\u3002\u060c\u061f\u0964"


def marks(keys: Sequence[str], captions: Sequence[str]) -> np.ndarray:
  """Returns int64 [not empty], a hash of the image and caption of each caption that is not empty.

  Captions are compared in NFKC and case-folded, with single spaces and no punctuation at their ends. Hashes of texts
  hold within a process and those that it forked.
  """
  normalized = zip(keys, map(_normalize, captions), strict=True)
  return np.array([hash(pair) for pair in normalized if pair[1]], np.int64)


def copies(marks: Mapping[str, np.ndarray]) -> dict[str, float | None]:
  """Returns language -> the share of its captions, in [0, 1], that another language has for the same image too.

  Close languages share short captions by right: "en hund" is a dog in Danish and in Norwegian. The share is None where
  there is no other language or no caption.

  Args:
    marks: language -> the `marks` of its captions, of which no two are of one image.
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
