"""Two trivial taggers that any trained one must beat: the most frequent tags, and those of the nearest image."""

import collections
from collections.abc import Mapping, Sequence

import numpy as np

from xmcap.reading.tag_files import Scores

_AT_ONCE = 1024  # images that are compared at once

Tags = Mapping[str, Mapping[str, Sequence[str]]]
"""Language code -> image key -> the image's true tags."""


def most_frequent(train: Tags, keys: Sequence[str], count: int) -> Scores:
  """Predicts the `count` most frequent training tags of each language for all images; of equal ones the first."""
  return {
    language: dict.fromkeys(keys, _ranked(_frequent(of_language)[:count]))
    for language, of_language in train.items()
  }


def nearest_picture(
  train: Tags,
  train_keys: Sequence[str],
  train_vectors: np.ndarray,
  keys: Sequence[str],
  vectors: np.ndarray,
  count: int,
) -> Scores:
  """Predicts the tags of the training image with the highest cosine similarity, then the most frequent tags.

  Args:
    train: the tags of the training images; each language has at least one.
    train_keys, train_vectors: their keys and vectors, float32 [M, D].
    keys, vectors: of the images to tag, float32 [N, D].
    count: number of predicted tags; fewer if a language has fewer.
  """
  nearest: list[int] = _nearest(_normalized(train_vectors), _normalized(vectors)).tolist()
  scores: Scores = {}
  for language, of_language in train.items():
    frequent = _frequent(of_language)
    scores[language] = {}
    for key, place in zip(keys, nearest, strict=True):
      own = of_language.get(train_keys[place], ())
      scores[language][key] = _ranked([*dict.fromkeys([*own, *frequent])][:count])
  return scores


def _frequent(of_language: Mapping[str, Sequence[str]]) -> list[str]:
  counts = collections.Counter(tag for tags in of_language.values() for tag in tags)
  return sorted(counts, key=lambda tag: (-counts[tag], tag))


def _ranked(tags: Sequence[str]) -> dict[str, float]:
  return {tag: -float(place) for place, tag in enumerate(tags)}


def _normalized(vectors: np.ndarray) -> np.ndarray:
  return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def _nearest(candidates: np.ndarray, queries: np.ndarray) -> np.ndarray:
  """The most similar candidate of each query, int64 [N], for unit vectors [M, D] and [N, D]."""
  parts = [
    np.argmax(queries[start : start + _AT_ONCE] @ candidates.T, axis=1)
    for start in range(0, len(queries), _AT_ONCE)
  ]
  return np.concatenate(parts)
