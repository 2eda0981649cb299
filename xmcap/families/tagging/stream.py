"""The stream of images with their labels for tagging, in one or several languages."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import gin
import numpy as np

from xmcap.data.batch_maker import BatchRows, weights_of
from xmcap.data.image_inputs import ImageInputs
from xmcap.data.image_stream import ImageStream
from xmcap.data.order import Order, Places
from xmcap.data.records import RecordSource, parse_columns
from xmcap.data.registry import registration
from xmcap.digests import of_texts
from xmcap.families.tagging import labels as labels_lib

_NONE = "pictures without a label"
_UNKNOWN = "tags that are not among the labels"


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class LabelStream(ImageStream):
  """Images with their labels.

  A batch has `image` uint8 [B, H, W, 3]; `labels` uint8 [B, L], 1 for each label of an image, the languages side by
  side in the order of `labels`; `weights` float32 [B], 0 for images that are skipped or have no label; `key` [B].
  Images without a label and tags that are not among the labels are counted in `lost`.

  Attributes, beside those of `ImageStream`:
    labels: language code -> folder that `xmcap data tags` wrote.
  """

  labels: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    super().__post_init__()
    source = registration(self.mixture).corpus.source(self.split)
    self._open(source, Order(self.seed, [len(source)], self.neighbours))
    self.names = labels_lib.read_names(self.labels)
    self.truth = labels_lib.read_pictures(self.labels, self.names, [*source.sizes])
    width = sum(map(len, self.names.values()))
    self.reader = LabelReader(source, self.truth, width, self.inputs)

  def signature(self) -> dict[str, Any]:
    return {
      **super().signature(),
      "labels": {language: of_texts(names) for language, names in self.names.items()},
      "labels_of_pictures": of_texts(
        f"{key} {' '.join(map(str, indices))}" for key, indices in sorted(self.truth.columns.items())
      ),
    }


@dataclasses.dataclass(frozen=True, eq=False)
class LabelReader:
  """Reads the labels and images of a `LabelStream`: of `source`, the labels `truth`, `width` of all languages."""

  source: RecordSource
  truth: labels_lib.ImageLabels
  width: int
  inputs: ImageInputs

  def __call__(
    self, inputs: np.ndarray, positions: np.ndarray, counted: np.ndarray, places: Places
  ) -> BatchRows:
    """Returns the labels and weights of N images."""
    records = self.source.read(places.indices, parse_columns)
    of_records = ((record.key, record.image) for record in records)
    undecodable = self.inputs.fill(inputs, of_records, positions, places.indices)
    keys = [record.key for record in records]
    weights = weights_of(keys, counted, undecodable)
    labels = np.zeros((len(keys), self.width), np.uint8)
    none: list[str] = []
    unknown: list[str] = []
    for row, key, weight in zip(labels, keys, weights, strict=True):
      row[self.truth.columns.get(key, [])] = 1
      if weight and not row.any():
        none.append(key)
      if weight:
        unknown += [key] * self.truth.unknown.get(key, 0)
    fields = {"labels": labels, "weights": weights * labels.any(axis=1)}
    return BatchRows(keys, fields, {_NONE: none, _UNKNOWN: unknown}, undecodable)
