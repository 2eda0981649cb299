"""The stream of pictures with their labels for tagging, in one or several languages."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import gin
import numpy as np

from xmcap.data.order import Order
from xmcap.data.picture_stream import BatchRows, PictureStream
from xmcap.data.records import parse_columns
from xmcap.data.registry import registration
from xmcap.digests import of_texts
from xmcap.families.tagging import labels as labels_lib

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
      "labels": {language: of_texts(names) for language, names in self.names.items()},
      "labels_of_pictures": of_texts(
        f"{key} {' '.join(map(str, indices))}" for key, indices in sorted(self.truth.columns.items())
      ),
    }

  def keys(self, count: int) -> list[str]:
    """Returns the image keys at the first `count` positions."""
    indices = self.indices(np.arange(count))
    return [record.key for record in self.source.iterate(indices, parse_columns)]

  def _part(self, step: int, positions: np.ndarray, pixels: np.ndarray) -> BatchRows:
    records = self.source.read(self.indices(positions), parse_columns)
    self._load_pixels(pixels, ((record.key, record.image) for record in records), positions)
    keys = [record.key for record in records]
    weights = self._weights_of(positions, keys)
    labels = np.zeros((len(keys), self._width), np.uint8)
    none: list[str] = []
    unknown: list[str] = []
    for row, key, weight in zip(labels, keys, weights, strict=True):
      row[self.truth.columns.get(key, [])] = 1
      if weight and not row.any():
        none.append(key)
      if weight:
        unknown += [key] * self.truth.unknown.get(key, 0)
    fields = {"labels": labels, "weights": weights * labels.any(axis=1)}
    return BatchRows(keys, fields, {_NONE: none, _UNKNOWN: unknown})
