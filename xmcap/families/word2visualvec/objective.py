"""Trains the network of `families/word2visualvec/model.py` on the batches of `families/word2visualvec/stream.py`."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import gin
import jax
import jax.numpy as jnp

from xmcap.errors import UsageError
from xmcap.families.word2visualvec import words as words_lib
from xmcap.families.word2visualvec.model import Word2VisualVec, Word2VisualVecConfig
from xmcap.files.bucket_paths import epath
from xmcap.models.layers import normalized
from xmcap.training.objectives import Batch, Metrics

KINDS = ("mse", "contrastive")
_SMALLEST = 1e-12  # squared distance whose root still has a gradient


@gin.configurable
class Word2VisualVecObjective:
  """Pulls what a sentence predicts towards the features of its image, and perhaps away from those of another.

  Li et al., "COCO-CN" (2019), section IV-D.

  Args:
    config: sizes and variants of the network.
    words: folder that `xmcap data words` wrote, as in the stream.
    languages: codes of its words, as in the stream.
    kind: `mse`, the mean square of the differences; `contrastive`, the mean of y D^2 + (1 - y) max(margin - D, 0)^2
      over the pairs of a sentence and an image, where D is the Euclidean distance, and y is 1 for the sentence's own
      image and 0 for the other one.
    margin: distance to which other images are pushed away.
  """

  def __init__(
    self,
    config: Word2VisualVecConfig = gin.REQUIRED,
    words: str = gin.REQUIRED,
    languages: Sequence[str] = gin.REQUIRED,
    kind: str = "mse",
    margin: float = 2.0,
  ):
    if kind not in KINDS or not margin > 0:
      raise UsageError(
        f"Word2VisualVecObjective with kind {kind!r} and margin {margin}: give {' or '.join(KINDS)}, and above 0"
      )
    self.words = words_lib.read(words, languages)
    self.languages = tuple(self.words.by_language)
    self.module = Word2VisualVec(config, len(self.words))
    self.kind, self.margin = kind, margin

  def write_files(self, model_dir: epath.Path) -> None:
    """Writes the words into the folder of the run."""
    words_lib.copy_to(model_dir / words_lib.FOLDER, self.words)

  def init(self, rng: jax.Array, batch: Batch) -> Mapping[str, Any]:
    """Fresh variables: `params` and `params_axes`. Only the shapes of `batch` matter."""
    width = batch["features"].shape[-1]
    if width != self.module.words.output_dim:
      raise UsageError(
        f"Word2VisualVecConfig.output_dim is {self.module.words.output_dim}, but features have width {width}: give"
        " the features of one model"
      )
    return self.module.init(rng, batch["words"], batch["vectors"])

  def loss(self, params: Any, batch: Batch, rng: jax.Array, deterministic: bool) -> tuple[jax.Array, Metrics]:
    """The loss of a batch of `WordStream`.

    Returns:
      The loss, float32 [], a weighted mean over sentences; and the metrics `similarity` (cosine of the prediction and
      the features of the image), a weighted mean too, and `weight` (number of sentences).
    """
    outputs = self.module.apply(
      {"params": params}, batch["words"], batch["vectors"], deterministic, rngs={"dropout": rng}
    )
    predicted, features = cast(jax.Array, outputs), batch["features"]
    if self.kind == "mse":
      losses = jnp.mean(jnp.square(predicted - features), axis=-1)
    else:
      losses = contrastive_losses(predicted, features, batch["other"], self.margin)
    weights = batch["weights"]
    weight = jnp.sum(weights)

    def mean(values):
      return jnp.sum(values * weights) / jnp.maximum(weight, 1e-9)

    similarity = jnp.sum(normalized(predicted) * normalized(features), axis=-1)
    return mean(losses), {"similarity": mean(similarity), "weight": weight}


def contrastive_losses(predicted: jax.Array, own: jax.Array, other: jax.Array, margin: float) -> jax.Array:
  """(D(own)^2 + max(margin - D(other), 0)^2) / 2 of each row, [B], of vectors [B, F]; Hadsell et al. (2006), eq. 4."""
  own_square, other_square = (jnp.sum(jnp.square(predicted - x), axis=-1) for x in (own, other))
  distance = jnp.sqrt(jnp.maximum(other_square, _SMALLEST))
  return (own_square + jnp.square(jnp.maximum(margin - distance, 0))) / 2
