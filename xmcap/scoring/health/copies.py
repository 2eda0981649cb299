"""Finds captions that are the same in two languages, a sign that the model ignores the requested language."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

# After NFKC, which maps full-width forms to these.
_ENDS = " .,;:!?\"'()\u3002\u060c\u061f\u0964"


class Copies(NamedTuple):
  """The captions of a language that another language has for the same image too.

  Attributes:
    share: their share in [0, 1] of the captions that are not empty; None if there is no other language or no caption.
    rows: int64, their rows.
  """

  share: float | None
  rows: np.ndarray


def marks(keys: Sequence[str], captions: Sequence[str]) -> np.ndarray:
  """Returns int64 [captions], for each a hash of image and caption; 0 for an empty one.

  Captions are compared in NFKC and case-folded, with single spaces and without punctuation at the ends. The hashes are
  valid only in this process and in forks of it.
  """
  normalized = zip(keys, map(_normalize, captions), strict=True)
  return np.array([hash(pair) if pair[1] else 0 for pair in normalized], np.int64)


def copies(marks: Mapping[str, np.ndarray]) -> dict[str, Copies]:
  """Returns language -> its copies.

  Each language has the `marks` of its captions, at most one per image. Close languages rightly share short captions:
  "en hund" is a dog in both Danish and Norwegian.
  """
  if not marks:
    return {}
  of_all = np.concatenate(list(marks.values()))
  _, place, count = np.unique(of_all, return_inverse=True, return_counts=True)
  repeated = np.split(
    (count[place] > 1) & (of_all != 0), np.cumsum([len(of_language) for of_language in marks.values()])[:-1]
  )
  by_language = {}
  for (language, of_language), is_copy in zip(marks.items(), repeated, strict=True):
    filled, rows = np.count_nonzero(of_language), np.flatnonzero(is_copy)
    by_language[language] = Copies(len(rows) / filled if filled and len(marks) > 1 else None, rows)
  return by_language


def _normalize(caption: str) -> str:
  return " ".join(unicodedata.normalize("NFKC", caption).casefold().split()).strip(_ENDS)
