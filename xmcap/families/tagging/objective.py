"""Trains the networks of `families/tagging/label_tagger.py` on the batches of `families/tagging/stream.py`."""

from collections.abc import Mapping
from typing import Any, cast

import gin
import jax
import jax.numpy as jnp

from xmcap.families.tagging import labels as labels_lib
from xmcap.families.tagging.label_tagger import LabelTagger, Sizes, TaggerConfig, columns
from xmcap.files.bucket_paths import epath
from xmcap.models.parts import ImageConfig
from xmcap.training.objectives import Batch, Metrics


@gin.configurable
class LabelObjective:
  """The binary cross-entropy of an image's labels: its mean over the labels of a language, summed over languages.

  Li et al., "COCO-CN" (2019), section IV-B. One language is their plain MLP, several are multi-task learning, and
  `first` makes a cascade, whose first network should be frozen (`Optimizer.frozen`).

  Args:
    labels: language code -> folder that `xmcap data tags` wrote, as in the stream.
    vit: configuration of the ViT; None: the batches have stored features.
    first: the same as `labels` for the first network of a cascade; {}: no cascade.
    hidden: width of the hidden layer, or widths of several, as (1024, 2048) of the tag recommender (section III-A3).
    dropout_rate: dropout of the hidden layers.
  """

  def __init__(
    self,
    labels: Mapping[str, str] = gin.REQUIRED,
    vit: ImageConfig | None = gin.REQUIRED,
    first: Mapping[str, str] | None = None,
    hidden: int | tuple[int, ...] = 1024,
    dropout_rate: float = 0.5,
  ):
    self.names = labels_lib.read_names(labels)
    sizes_of_first = _sizes(labels_lib.read_names(first)) if first else ()
    self.module = LabelTagger(vit, TaggerConfig(_sizes(self.names), sizes_of_first, hidden, dropout_rate))

  def write_files(self, model_dir: epath.Path) -> None:
    """Writes the labels into the folder of the run."""
    labels_lib.write_names(model_dir / labels_lib.FOLDER, self.names)

  def inputs(self, batch: Batch) -> jax.Array:
    """The images or the features of a batch."""
    return batch["features" if self.module.vit is None else "image"]

  def init(self, rng: jax.Array, batch: Batch) -> Mapping[str, Any]:
    """Fresh variables: `params` and `params_axes`. Only the shapes of `batch` matter."""
    return self.module.init(rng, self.inputs(batch))

  def loss(self, params: Any, batch: Batch, rng: jax.Array, deterministic: bool) -> tuple[jax.Array, Metrics]:
    """The loss of a batch.

    Args:
      batch: `image` uint8 [B, H, W, 3] or `features` [B, D]; `labels` uint8 [B, L], 1 for each label of an image, the
        languages side by side; `weights` float32 [B]. An image without a label in a language is left out there.

    Returns:
      The loss, float32 [], a weighted mean over images; and the metrics `accuracy` (share of the images and
      languages whose highest label is right, a weighted mean over images) and `weight` (sum over images).
    """
    outputs = self.module.apply({"params": params}, self.inputs(batch), deterministic, rngs={"dropout": rng})
    logits, labels = cast(jax.Array, outputs), batch["labels"].astype(jnp.float32)
    losses = jax.nn.softplus(logits) - labels * logits
    total = right = count = jnp.zeros(len(labels), jnp.float32)
    for part in columns(self.module.tagger.sizes).values():
      labelled = jnp.max(labels[:, part], axis=-1)
      highest = jnp.argmax(logits[:, part], axis=-1)
      total += labelled * jnp.mean(losses[:, part], axis=-1)
      right += jnp.take_along_axis(labels[:, part], highest[:, None], axis=-1)[:, 0]
      count += labelled
    weights = batch["weights"]
    weight = jnp.sum(weights)

    def mean(values):
      return jnp.sum(values * weights) / jnp.maximum(weight, 1e-9)

    return mean(total), {"accuracy": mean(right / jnp.maximum(count, 1)), "weight": weight}


def _sizes(names: Mapping[str, tuple[str, ...]]) -> Sizes:
  return tuple((language, len(of_language)) for language, of_language in names.items())
