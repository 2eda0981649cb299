"""Two trivial captioners that any trained model must beat."""

import collections
import concurrent.futures
from collections.abc import Callable, Mapping

import gin
import numpy as np
from PIL import Image

from xmcap.data import images, records
from xmcap.evaluation.picture_features import PictureEncoder
from xmcap.scoring.reading.predictions import Predictions
from xmcap.scoring.reading.references import References
from xmcap.storage import files

_THUMBNAIL = 16  # pixels per side: 10,000 pictures take 30 MB, and blurring helps the nearest neighbour

_AT_ONCE = 4096  # training pictures read at once

Vectors = Callable[[Mapping[str, bytes]], np.ndarray]
"""Turns the files of N pictures by key into float32 [N, D]."""


@gin.configurable
class Baselines:
  """Both baselines, computed from training records.

  Args:
    data_dir: folder of the records.
    split: split of the records.
    encoder: folder of a model whose image tower compares pictures, by the cosine of its vectors; "": thumbnails do.
  """

  def __init__(self, data_dir: str = gin.REQUIRED, split: str = "train", encoder: str = ""):
    self.source = records.RecordSource(data_dir, split)
    self._vectors = _of_encoder(PictureEncoder(encoder)) if encoder else thumbnails

  def predict(self, references: References, read_bytes: Callable[[str], bytes]) -> dict[str, Predictions]:
    """Name -> predictions for all references; `read_bytes(key)` returns the bytes of a picture's file."""
    return {
      "most frequent caption": most_frequent_caption(self.source, references),
      "nearest picture": nearest_picture(self.source, references, read_bytes, self._vectors),
    }


def most_frequent_caption(source: records.RecordSource, references: References) -> Predictions:
  """Predicts each language's most frequent training caption for all references.

  Ties go to the caption that sorts first. A language without training captions gets "".
  """
  counts = collections.defaultdict(collections.Counter)
  for record in source:
    for caption in record.captions:
      counts[caption.language][caption.text] += 1
  best = {
    language: min(counter, key=lambda text: (-counter[text], text)) for language, counter in counts.items()
  }
  return {
    key: {language: best.get(language, "") for language in captions} for key, captions in references.items()
  }


def nearest_picture(
  source: records.RecordSource,
  references: References,
  read_bytes: Callable[[str], bytes],
  vectors_of: Vectors,
) -> Predictions:
  """Predicts the first caption in each language of the nearest training picture, by squared Euclidean distance.

  A language in which the nearest picture has no caption gets "". With the vectors of a pretrained encoder this is the
  nearest neighbour of Devlin et al., "Exploring Nearest Neighbor Approaches for Image Captioning" (2015), with one
  neighbour.
  """
  keys = list(references)
  parts = [keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE)]
  queries = np.concatenate([vectors_of({key: read_bytes(key) for key in part}) for part in parts])
  nearest = np.zeros(len(keys), np.int64)
  distance = np.full(len(keys), np.inf, np.float32)
  for start in range(0, len(source), _AT_ONCE):
    found = source.read(range(start, min(start + _AT_ONCE, len(source))))
    vectors = vectors_of({record.key: record.image for record in found})
    # |q - v|^2 without |q|^2, which is the same for every candidate.
    candidates = (vectors**2).sum(axis=1) - 2 * queries @ vectors.T
    best = candidates.argmin(axis=1)
    smallest = candidates[np.arange(len(keys)), best]
    closer = smallest < distance
    nearest[closer], distance[closer] = start + best[closer], smallest[closer]
  predictions = {}
  for key, record in zip(keys, source.read(nearest.tolist()), strict=True):
    first = {caption.language: caption.text for caption in reversed(record.captions)}
    predictions[key] = {language: first.get(language, "") for language in references[key]}
  return predictions


def thumbnails(pictures: Mapping[str, bytes]) -> np.ndarray:
  """Thumbnails of N pictures by key, float32 [N, 768]: 16 x 16 pixels in RGB, from 0 to 1."""
  # Threads are enough, because Pillow releases the GIL while decoding.
  with concurrent.futures.ThreadPoolExecutor(files.available_cores()) as threads:
    return np.stack(list(threads.map(_thumbnail, pictures.values(), pictures)))


def _of_encoder(encoder: PictureEncoder) -> Vectors:
  def vectors_of(pictures: Mapping[str, bytes]) -> np.ndarray:
    vectors, _ = encoder(list(pictures), pictures.__getitem__)
    # Of unit length, so that the smallest distance is the largest cosine.
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

  return vectors_of


def _thumbnail(data: bytes, key: str) -> np.ndarray:
  image = Image.fromarray(images.decode(data, key)).resize((_THUMBNAIL, _THUMBNAIL), Image.Resampling.BOX)
  return np.asarray(image, np.float32).reshape(-1) / 255.0
