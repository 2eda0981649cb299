"""Two trivial captioners that any trained model must beat."""

import collections
import concurrent.futures
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import gin
import numpy as np
from PIL import Image

from xmcap import processes
from xmcap.data import images
from xmcap.reading.predictions import Predictions
from xmcap.reading.references import References

if TYPE_CHECKING:
  from xmcap.data import records

_THUMBNAIL = 16  # pixels per side: 10,000 images take 30 MB, and blurring helps the nearest neighbour

_AT_ONCE = 4096  # training images read at once

Vectors = Callable[[Mapping[str, bytes]], np.ndarray]
"""Turns the files of N images by key into float32 [N, D]."""


@dataclasses.dataclass(frozen=True)
class Measured:
  """What the training captions tell about a split.

  Attributes:
    predictions: name of the baseline -> its predictions for all references.
    images: number of training images.
    copied, copied_references: share of the model's captions, and of the references, that are captions of training in
      their language, word for word.
  """

  predictions: dict[str, Predictions]
  images: int
  copied: float
  copied_references: float


@gin.configurable
class Baselines:
  """Both baselines, computed from training records.

  Args:
    data_dir: folder of the records.
    split: split of the records.
    encoder: folder of a model whose image tower compares images, by the cosine of its vectors; "": thumbnails do.
  """

  def __init__(self, data_dir: str = gin.REQUIRED, split: str = "train", encoder: str = ""):
    from xmcap.data.records import RecordSource  # needs the extra train

    self.source = RecordSource(data_dir, split)
    self.compares = encoder or "thumbnails"
    self._vectors = _of_encoder(encoder) if encoder else thumbnails

  def measure(
    self, references: References, read_bytes: Callable[[str], bytes], predictions: Predictions
  ) -> Measured:
    """Reads the training records once; `read_bytes(key)` returns the bytes of an image's file.

    `most frequent caption` predicts each language's most frequent training caption; ties go to the caption that sorts
    first. `nearest picture` predicts the first caption in each language of the nearest training image, by squared
    Euclidean distance. With the vectors of a pretrained encoder it is the nearest neighbour of Devlin et al.,
    "Exploring Nearest Neighbor Approaches for Image Captioning" (2015), with one neighbour. Where there is no caption,
    both predict "".
    """
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    nearest = _Nearest(list(references), read_bytes, self._vectors)
    for start in range(0, len(self.source), _AT_ONCE):
      pictures = self.source.read(range(start, min(start + _AT_ONCE, len(self.source))))
      for record in pictures:
        for caption in record.captions:
          counts[caption.language][caption.text] += 1
      nearest.look_at(start, pictures)
    best = {
      language: min(counter, key=lambda text: (-counter[text], text)) for language, counter in counts.items()
    }
    most_frequent, of_nearest = {}, {}
    for (key, captions), record in zip(
      references.items(), self.source.read(nearest.places.tolist()), strict=True
    ):
      first = {caption.language: caption.text for caption in reversed(record.captions)}
      most_frequent[key] = {language: best.get(language, "") for language in captions}
      of_nearest[key] = {language: first.get(language, "") for language in captions}
    written = [(language, text) for of_key in predictions.values() for language, text in of_key.items()]
    human = [
      (language, text)
      for of_key in references.values()
      for language, texts in of_key.items()
      for text in texts
    ]
    return Measured(
      {"most frequent caption": most_frequent, "nearest picture": of_nearest},
      len(self.source),
      *(sum(text in counts[language] for language, text in texts) / len(texts) for texts in (written, human)),
    )


class _Nearest:
  """The training images that are nearest to N images, found part by part: `places`, int64 [N]."""

  def __init__(self, keys: Sequence[str], read_bytes: Callable[[str], bytes], vectors_of: Vectors):
    parts = [keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE)]
    self._queries = np.concatenate([vectors_of({key: read_bytes(key) for key in part}) for part in parts])
    self._vectors_of = vectors_of
    self._distance = np.full(len(keys), np.inf, np.float32)
    self.places = np.zeros(len(keys), np.int64)

  def look_at(self, start: int, pictures: Sequence["records.Record"]) -> None:
    """Compares the training images from number `start` on."""
    vectors = self._vectors_of({record.key: record.image for record in pictures})
    # |q - v|^2 without |q|^2, which is the same for every candidate.
    candidates = (vectors**2).sum(axis=1) - 2 * self._queries @ vectors.T
    best = candidates.argmin(axis=1)
    smallest = candidates[np.arange(len(best)), best]
    closer = smallest < self._distance
    self.places[closer], self._distance[closer] = start + best[closer], smallest[closer]


def thumbnails(pictures: Mapping[str, bytes]) -> np.ndarray:
  """Thumbnails of N images by key, float32 [N, 768]: 16 x 16 pixels in RGB, from 0 to 1."""
  # Threads are enough, because Pillow releases the GIL while decoding.
  with concurrent.futures.ThreadPoolExecutor(processes.available_cores()) as threads:
    return np.stack(list(threads.map(_thumbnail, pictures.values(), pictures)))


def _of_encoder(folder: str) -> Vectors:
  from xmcap.evaluation.image_features import ImageEncoder  # imports jax

  encoder = ImageEncoder(folder)

  def vectors_of(pictures: Mapping[str, bytes]) -> np.ndarray:
    vectors, _ = encoder(list(pictures), pictures.__getitem__)
    # Of unit length, so that the smallest distance is the largest cosine.
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

  return vectors_of


def _thumbnail(data: bytes, key: str) -> np.ndarray:
  image = Image.fromarray(images.decode(data, key)).resize((_THUMBNAIL, _THUMBNAIL), Image.Resampling.BOX)
  return np.asarray(image, np.float32).reshape(-1) / 255.0
