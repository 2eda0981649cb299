"""Word2VisualVec: predicts the feature vector of an image from a sentence about it.

Dong, Li and Snoek, "Predicting Visual Features from Text for Image and Video Caption Retrieval" (2018); Li et al.,
"COCO-CN" (2019), section IV-D, for the attention. A sentence is encoded as its words' last GRU state (or an attention
over all states), their counts and their mean vector; two dense layers turn that into the feature.

Deviations: in Keras 1 the reset gate of a GRU came before the product with the state; here, as in torch and cuDNN, it
comes after it. Padding is masked, which the authors' code does not do. Unknown words are left out.
"""

import dataclasses

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.models import limits
from xmcap.models.attention import MASKED
from xmcap.models.layers import VIT_KERNEL_INIT, Dense, Dropout, normalized, parameter


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Word2VisualVecConfig:
  """Sizes and variants of a Word2VisualVec.

  Attributes:
    output_dim: F, the width of the images' features.
    rnn_width: width of the GRU's state.
    rnn_words: the GRU reads so many words; counts and mean are of all.
    hidden: width of the hidden layer.
    attention: a sum over all states of the GRU, weighted by a softmax, instead of its last state.
    only_counts: encode a sentence as the counts of its words alone, a bag of words, as COCO-CN's sentences are
      recommended (section III-A2).
    relu_output: whether a ReLU follows the output. The features of a CNN after its last ReLU are never negative; those
      of a ViT are, and need False.
    dropout_rate: dropout of the hidden layer.
  """

  output_dim: limits.Width
  rnn_width: limits.Width = 1024
  rnn_words: limits.Length = 32
  hidden: limits.MlpWidth = 2048
  attention: bool = False
  only_counts: bool = False
  relu_output: bool = True
  dropout_rate: limits.Rate = 0.2

  def __post_init__(self):
    limits.check(self)
    if self.only_counts and self.attention:
      raise limits.FieldError(
        "Word2VisualVecConfig", "attention", "is True: only_counts has no states to attend to"
      )


class Gru(nn.Module):
  """A GRU (Cho et al., 2014) in the form of torch.nn.GRU, gates in the order reset, update, new.

  Parameters: `input` (a dense layer), `kernel`, `bias` (of the new state alone: those of the gates would add to the
  biases of `input`). Padding leaves the state as it is.
  """

  width: int

  @nn.compact
  def __call__(self, x: jax.Array, present: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[B, T, D], bool [B, T] -> the last state float32 [B, H], and all states [B, T, H]."""
    axes = ("embed", "mlp")
    from_input = Dense(3 * self.width, axes, use_bias=True, kernel_init=VIT_KERNEL_INIT, name="input")(x)
    kernel = parameter("kernel", nn.initializers.orthogonal(), (self.width, 3 * self.width), axes)
    bias = parameter("bias", nn.initializers.zeros, (self.width,), axes[1:])

    def step(state: jax.Array, inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
      gates, there = inputs
      reset_x, update_x, new_x = jnp.split(gates, 3, axis=-1)
      reset_h, update_h, new_h = jnp.split(state @ kernel, 3, axis=-1)
      reset, update = nn.sigmoid(reset_x + reset_h), nn.sigmoid(update_x + update_h)
      new = jnp.tanh(new_x + reset * (new_h + bias))
      state = jnp.where(there[:, None], (1 - update) * new + update * state, state)
      return state, state

    begin = jnp.zeros((len(x), self.width), jnp.float32)
    last, states = jax.lax.scan(step, begin, (from_input.swapaxes(0, 1), present.T))
    return last, states.swapaxes(0, 1)


class Word2VisualVec(nn.Module):
  """Sentences to features of images. Float32 throughout.

  Parameters: `gru` (if not `only_counts`), `attention` (if asked for), `hidden`, `output`. The words' vectors are
  inputs, and do not learn.

  Attributes:
    words: sizes and variants.
    vocab_size: V, the number of words.
  """

  words: Word2VisualVecConfig
  vocab_size: int

  @nn.compact
  def __call__(self, words: jax.Array, vectors: jax.Array, deterministic: bool = True) -> jax.Array:
    """Predicts features.

    Args:
      words: int32 [B, T], 1 + the number of each word, then 0.
      vectors: float32 [B, T, D], the vectors of the words, then 0.
      deterministic: no dropout.

    Returns:
      float32 [B, F]. A sentence without words is that of zero states, counts and mean.
    """
    config = self.words
    x = jnp.sum(jax.nn.one_hot(words - 1, self.vocab_size), axis=1)
    if not config.only_counts:
      x = self._with_order(x, vectors, words > 0)
    x = nn.relu(self._dense(config.hidden, ("embed", "mlp"), "hidden")(x))
    x = Dropout(config.dropout_rate, broadcast_dims=())(x, deterministic)
    x = self._dense(config.output_dim, ("mlp", "image_embed"), "output")(x)
    return nn.relu(x) if config.relu_output else x

  def _with_order(self, counts: jax.Array, vectors: jax.Array, present: jax.Array) -> jax.Array:
    """The counts [B, V], after the GRU's state and before the mean vector: [B, H + V + D]."""
    config = self.words
    read = config.rnn_words
    last, states = Gru(config.rnn_width, name="gru")(vectors[:, :read], present[:, :read])
    if config.attention:
      last = self._attended(states, present[:, :read])
    lengths = jnp.sum(present, axis=1, keepdims=True)
    mean = jnp.sum(vectors * present[..., None], axis=1) / jnp.maximum(lengths, 1)
    return jnp.concatenate([last, counts, mean], axis=-1)

  def _attended(self, states: jax.Array, present: jax.Array) -> jax.Array:
    """The states [B, T, H] summed by the softmax of m_i = W'h_i + b over the words of a sentence: [B, H]."""
    scores = self._dense(1, ("mlp", "classes"), "attention")(states)[..., 0]
    weights = jax.nn.softmax(jnp.where(present, scores, MASKED), axis=-1) * present
    return jnp.einsum("bt,bth->bh", weights, states)

  def _dense(self, features: int, axes: tuple[str, str], name: str) -> Dense:
    return Dense(features, axes, use_bias=True, kernel_init=VIT_KERNEL_INIT, name=name)

  def embed(self, words: jax.Array, vectors: jax.Array) -> jax.Array:
    """The features of length 1, for cosines; features that are 0 stay 0."""
    return normalized(self(words, vectors))
