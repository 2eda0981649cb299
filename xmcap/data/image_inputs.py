"""What a batch has of its images: pixels, stored vectors, or nothing; each a value, which other processes can get."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from xmcap.data import draws, images, record_features, records
from xmcap.data.features import Features
from xmcap.data.mixture import MixedSource
from xmcap.data.records import RecordSource
from xmcap.errors import XmcapError
from xmcap.terminal import shown

Encoded = Iterable[tuple[str, bytes]]
"""Key and encoded image of each record."""

_FINGERPRINT_ROWS = 64


class ImageInputs(Protocol):
  """Fills the rows of a batch from images; `name` is that of the array in the batch, "" for none."""

  name: str

  def empty(self, rows: int) -> np.ndarray:
    """Returns memory for so many rows."""
    ...

  def fill(
    self, rows: np.ndarray, encoded: Encoded, positions: np.ndarray, indices: np.ndarray
  ) -> dict[str, str]:
    """Fills N rows from images.

    Args:
      rows: N of `empty`.
      encoded: (key, bytes) of each image, iterated once and in order.
      positions: int64 [N], by which random augmentation is drawn.
      indices: int64 [N], those of the records.

    Returns:
      key -> why it cannot be decoded, of such images; their rows are 0.
    """
    ...

  def signature(self) -> dict[str, Any]:
    """Returns what a resumed run must keep, beside the settings of its stream."""
    ...


@dataclasses.dataclass(frozen=True)
class Pixels:
  """Decoded images, uint8 [N, H, W, 3] with H = W = `image_size`; the others as attributes of `ImageStream`."""

  image_size: int
  resize: str
  augment: images.Augment | None
  seed: int

  name = "image"

  def empty(self, rows: int) -> np.ndarray:
    return np.empty((rows, self.image_size, self.image_size, 3), np.uint8)

  def fill(
    self, rows: np.ndarray, encoded: Encoded, positions: np.ndarray, indices: np.ndarray
  ) -> dict[str, str]:
    del indices
    undecodable = {}
    randoms = [None] * len(positions)
    if self.augment is not None:
      randoms = draws.uniform(self.seed, "augment", positions, images.NUM_DRAWS)
    for row, (key, data), random in zip(rows, encoded, randoms, strict=True):
      try:
        if self.resize == "bilinear":
          row[...] = images.load(data, key, self.image_size, self.augment, random)
        else:
          row[...] = images.load_pixels(data, key, self.image_size, self.resize)
      except XmcapError as error:
        undecodable[key] = str(error)
        row[...] = 0
    return undecodable

  def signature(self) -> dict[str, Any]:
    return {}


@dataclasses.dataclass(frozen=True)
class StoredVectors:
  """Vectors of the images, float32 [N, D], which no image is decoded for.

  Attributes:
    path: file or folder that `xmcap features` wrote (see `data/features.py`).
    source: the records of the split.
  """

  path: str
  source: RecordSource | MixedSource

  name = "features"

  @functools.cached_property
  def stored(self) -> Features:
    """The vectors, float32 [len(source), D], in the order of the records; read at the first use."""
    return record_features.of_source(self.path, self.source)

  def empty(self, rows: int) -> np.ndarray:
    return np.empty((rows, self.stored.vectors.shape[1]), np.float32)

  def fill(
    self, rows: np.ndarray, encoded: Encoded, positions: np.ndarray, indices: np.ndarray
  ) -> dict[str, str]:
    del positions
    rows[...] = self.of([key for key, _ in encoded], indices)
    return {}

  def of(self, keys: Sequence[str], indices: np.ndarray) -> np.ndarray:
    """Returns the vectors of N records, float32 [N, D]; XmcapError if one is of another image."""
    for index, key in zip(indices.tolist(), keys, strict=True):
      stored = self.stored.keys[index]
      if key != stored and not key.endswith(f"/{stored}"):  # with several corpora: NAME/key
        raise XmcapError(
          f"{self.path}: holds the vector of '{shown(stored)}' for record {index:,} of split '{self.source.split}',"
          f" which is '{shown(key)}': the corpus has changed; make the vectors again with `xmcap features --corpus`"
        )
    return np.asarray(self.stored.vectors[indices], np.float32)

  def signature(self) -> dict[str, Any]:
    vectors = self.stored.vectors
    # Some of them tell the vectors of another network apart.
    sample = np.asarray(vectors[records.spread(self.source, _FINGERPRINT_ROWS)], np.float32)
    return {"features": [*vectors.shape, hashlib.sha256(sample.tobytes()).hexdigest()[:16]]}


@dataclasses.dataclass(frozen=True)
class NoImages:
  """For batches that have nothing of their images."""

  name = ""

  def empty(self, rows: int) -> np.ndarray:
    return np.empty((rows, 0), np.uint8)

  def fill(
    self, rows: np.ndarray, encoded: Encoded, positions: np.ndarray, indices: np.ndarray
  ) -> dict[str, str]:
    del rows, positions, indices
    for _ in encoded:  # reads the records
      pass
    return {}

  def signature(self) -> dict[str, Any]:
    return {}
