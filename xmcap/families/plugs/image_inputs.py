"""What a PLuGS model knows of an image: a stored vector of the whole, and the labels of the objects in it.

A draft of Thapliyal et al., "Crossmodal-3600", section 3.1: the vector of an image (Graph-RISE, 64 numbers) and the
sixteen object labels of which a classifier is surest, best first, each with its embedding, are projected to the width
of the Transformer by two dense layers with linear activation. This is an image tower: its first dense layers are here,
and the captioner's `projection` is the second, which vector and labels share. That loses nothing, since two linear
layers are one.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import gin
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from xmcap.data.features import Features
from xmcap.errors import UsageError
from xmcap.models import limits
from xmcap.models.layers import VIT_KERNEL_INIT, Dense, parameter, resolve_dtype
from xmcap.terminal import shown
from xmcap.wording import count, first_few

MOST_LABELS = 16
_CHECKED = 65_536  # rows at a time


@gin.configurable
@dataclasses.dataclass(frozen=True)
class VectorAndLabelsConfig:
  """Sizes of the inputs of an image.

  Attributes:
    vector_dim: D, the width of the stored vectors.
    num_labels: the number of different labels.
    label_dim: width of a label's embedding.
    most: M, the labels of an image that are read.
    width: of the first dense layers.
    image_size: side of the images that are shown beside captions, in pixels.
    dtype: of the activations, as `T5Config.dtype`.
  """

  num_labels: limits.Vocabulary
  label_dim: limits.Width
  width: limits.Width
  vector_dim: limits.Width = 64
  most: limits.Length = MOST_LABELS
  image_size: limits.Width = 224
  dtype: str = "auto"

  depth, num_heads, remat, scan = 0, 1, "no", False

  def __post_init__(self):
    limits.check(self)

  @property
  def num_tokens(self) -> int:
    """The vector's and those of the labels."""
    return 1 + self.most

  @property
  def input_shape(self) -> tuple[int, ...]:
    """The shape of a stored row, in place of that of pixels: the vector, then the numbers of the labels."""
    return (self.vector_dim + self.most,)

  def check_stored(self, rows: np.ndarray, path: str) -> None:
    """Raises UsageError if the last M columns of rows [N, D + M] are no numbers of labels."""
    for first in range(0, len(rows), _CHECKED):
      labels = np.asarray(rows[first : first + _CHECKED, self.vector_dim :])
      is_label = (labels >= 0) & (labels <= self.num_labels) & (labels == np.floor(labels))
      if not is_label.all():
        row, column = np.argwhere(~is_label)[0]
        raise UsageError(
          f"{path}, row {first + row + 1:,}, column {self.vector_dim + column + 1}: {labels[row, column]:g} is no"
          f" number of one of {self.num_labels:,} labels: make the file as docs/plugs.md says"
        )


class VectorAndLabels(nn.Module):
  """Stored rows [B, D + M] -> tokens [B, 1 + M, width].

  A row has the vector, then 1 + the number of each label, and 0 where there are fewer than M. Parameters: `vector`,
  `labels` (the dense layers) and `label_embedding`, [1 + num_labels, label_dim], whose row 0 is that of no label.
  """

  config: VectorAndLabelsConfig

  @nn.compact
  def __call__(self, rows: jax.Array, deterministic: bool = True) -> jax.Array:
    del deterministic
    config = self.config
    if rows.ndim != 2:
      raise UsageError(
        "the model reads stored vectors and labels, not pictures: give them, as FEATURES or --features"
      )
    vector, labels = jnp.split(rows.astype(jnp.float32), [config.vector_dim], axis=-1)
    shape = (1 + config.num_labels, config.label_dim)
    table = parameter("label_embedding", nn.initializers.normal(1.0), shape, ("classes", "channel"))
    embedded = jnp.take(table, labels.astype(jnp.int32), axis=0, mode="clip")
    parts = self._dense("vector")(vector)[:, None], self._dense("labels")(embedded)
    return jnp.concatenate(parts, axis=1)

  def _dense(self, name: str) -> Dense:
    return Dense(
      self.config.width, ("channel", "image_embed"), use_bias=True, kernel_init=VIT_KERNEL_INIT,
      dtype=resolve_dtype(self.config.dtype), name=name,
    )  # fmt: skip


def with_labels(
  vectors: Features, tags: Mapping[str, Sequence[str]], labels: Sequence[str], most: int = MOST_LABELS
) -> Features:
  """Returns the rows that `VectorAndLabels` reads, for `features.write`.

  Args:
    vectors: the vectors of images.
    tags: image key -> its labels, best first; those after `most` are left out.
    labels: all labels; their order is that of `label_embedding`.
    most: M.

  Raises:
    UsageError: an image has no list of labels, or one that is none of `labels`.
  """
  number = {label: place for place, label in enumerate(labels, 1)}
  missing = [key for key in vectors.keys if key not in tags]
  if missing:
    raise UsageError(
      f"no labels of {count(len(missing), 'picture')} ({first_few(missing)}): predict them first"
    )
  ids = np.zeros((len(vectors.keys), most), np.float32)
  for row, key in zip(ids, vectors.keys, strict=True):
    for place, label in enumerate(tags[key][:most]):
      if label not in number:
        raise UsageError(f"picture '{shown(key)}': '{shown(label)}' is none of the {len(labels):,} labels")
      row[place] = number[label]
  return Features(vectors.keys, np.concatenate([np.asarray(vectors.vectors, np.float32), ids], axis=1))
