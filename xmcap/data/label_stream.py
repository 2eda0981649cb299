"""The stream of pictures with their labels for tagging, in one or several languages."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import gin
import numpy as np

from xmcap.data import labels as labels_lib
from xmcap.data.columns import parse_picture
from xmcap.data.order import Order
from xmcap.data.picture_stream import Batch, PictureStream
from xmcap.data.tasks import registration
from xmcap.scoring.signature import of_texts

_NONE = "pictures without a label"
_UNKNOWN = "tags that are not among the labels"


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class LabelStream(PictureStream):
  """Pictures with their labels.

  A batch has `image` uint8 [B, H, W, 3]; `labels` uint8 [B, L], 1 for each label of a picture, the languages side by
  side in the order of `labels`; `weights` float32 [B], 0 for pictures that are skipped or have no label; `key` [B].
  Pictures without a label and tags that are not among the labels are counted in `lost`.

  Attributes, beside those of `PictureStream`:
    labels: language code -> folder that `xmcap data tags` wrote.
  """

  labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    super().__post_init__()
    self.source = registration(self.mixture).corpus.source(self.split)
    self.order = Order(self.seed, [len(self.source)])
    self.names = labels_lib.read_names(self.labels)
    self.truth = labels_lib.read_pictures(self.labels, self.names, [*self.source.sizes])
    self._width = sum(map(len, self.names.values()))

  def signature(self) -> dict[str, Any]:
    return {
      **super().signature(),
      "labels": {code: of_texts(names) for code, names in self.names.items()},
      "labels_of_pictures": of_texts(
        f"{key} {' '.join(map(str, held))}" for key, held in sorted(self.truth.columns.items())
      ),
    }

  def keys(self, count: int) -> list[str]:
    """Returns the image keys at the first `count` positions."""
    indices = self.indices(np.arange(count))
    return [record.key for record in self.source.iterate(indices, parse_picture)]

  def _part(
    self, step: int, positions: np.ndarray, pixels: np.ndarray
  ) -> tuple[list[str], np.ndarray, list[str], list[str]]:
    """Returns keys [N], labels uint8 [N, L], the keys of pictures without a label, and a key for each unknown tag."""
    records = self.source.read(self.indices(positions), parse_picture)
    labels = np.zeros((len(records), self._width), np.uint8)
    none: list[str] = []
    unknown: list[str] = []
    for row, record, weight in zip(labels, records, self._weights_of(positions), strict=True):
      row[self.truth.columns.get(record.key, [])] = 1
      if weight:
        none += [record.key] * (not row.any())
        unknown += [record.key] * self.truth.unknown.get(record.key, 0)
    self._load_pixels(pixels, ((record.key, record.image) for record in records), positions)
    return [record.key for record in records], labels, none, unknown

  def _joined(self, positions: np.ndarray, pixels: np.ndarray, parts: list[tuple]) -> Batch:
    keys, labels, none, unknown = zip(*parts, strict=True)
    self._count_lost(_NONE, sum(none, []))
    self._count_lost(_UNKNOWN, sum(unknown, []))
    keys, labels = sum(keys, []), np.concatenate(labels)
    weights = self._weights_of(positions) * self.skipped.weights(keys) * labels.any(axis=1)
    return {self.input: pixels, "labels": labels, "weights": weights, "key": np.array(keys)}
