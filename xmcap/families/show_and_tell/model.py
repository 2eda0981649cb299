"""An LSTM as the decoder of a captioner.

Vinyals et al., "Show and Tell: A Neural Image Caption Generator" (2015), as Li et al., "COCO-CN" (2019), section IV-C,
take it. The inputs are the image's vector, the LangId, and the words so far. The LangId stands where Show and Tell has
its start word, so that a model of one language is theirs, and one of several is told the language by an artificial
token, as Tsutsui and Crandall's.
"""

import dataclasses
from typing import Any

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from xmcap.models import limits
from xmcap.models.layers import Dense, Dropout, check_dtype, parameter, resolve_dtype


def _remembering(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
  """Biases of the gates that begin at 0, but for 1 of the forget gate, so that an LSTM begins by keeping its state."""
  del key
  return jnp.repeat(jnp.array([0, 1, 0, 0], dtype), shape[0] // 4)


_UNIFORM = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class LstmConfig:
  """Sizes of an LSTM that writes captions.

  Attributes:
    vocab_size: rows of the embedding and the logits.
    emb_dim: width of the embedding and of the LSTM's state.
    dropout_rate: dropout of the LSTM's inputs and outputs.
    dtype: dtype of the products: `auto`, `float32`, `bfloat16`; state and logits are float32.

  Raises:
    UsageError: a field has the wrong type or is out of its limits, or the dtype is unknown.
  """

  vocab_size: limits.Vocabulary
  emb_dim: limits.Width = 512
  dropout_rate: limits.Rate = 0.0
  dtype: str = "auto"

  def __post_init__(self):
    limits.check(self)
    limits.check_parameters(self, 2 * self.vocab_size * self.emb_dim + 8 * self.emb_dim**2)
    check_dtype(self.dtype)


class State(struct.PyTreeNode):
  """The state of an LSTM, float32 [rows, 1, 1, E]: of four axes, as the searches expect of a cache."""

  hidden: jax.Array
  cell: jax.Array

  def astype(self, dtype: jnp.dtype) -> "State":
    """The state as it is: it is never less than float32."""
    del dtype
    return self


class Nothing(struct.PyTreeNode):
  """What the steps of a search see of the encoder beside the state: nothing."""

  def take(self, rows: jax.Array) -> "Nothing":
    del rows
    return self

  def astype(self, dtype: jnp.dtype) -> "Nothing":
    del dtype
    return self


class NoEncoder(nn.Module):
  """In the place of an encoder: its inputs, [rows, length, embed], are those of the LSTM."""

  config: LstmConfig

  def __call__(self, embedded: jax.Array, mask: jax.Array, deterministic: bool = True) -> jax.Array:
    del mask, deterministic
    return embedded


class Lstm(nn.Module):
  """An LSTM in the form of torch.nn.LSTM, gates in the order input, forget, cell, output, with one bias for both sums.

  Parameters: `input` (a dense layer) and `kernel`. Padding leaves the state as it is.
  """

  width: int
  dtype: Any

  def setup(self):
    gates, axes = 4 * self.width, ("embed", "mlp")
    self.input = Dense(
      gates, axes, use_bias=True, kernel_init=_UNIFORM, bias_init=_remembering, dtype=self.dtype
    )
    self.kernel = parameter("kernel", _UNIFORM, (self.width, gates), axes)

  def __call__(self, x: jax.Array, present: jax.Array, state: State) -> tuple[State, jax.Array]:
    """[rows, length, embed], bool [rows, length] -> the last state, and the outputs float32 [rows, length, E]."""

    def step(state: State, inputs: tuple[jax.Array, jax.Array]) -> tuple[State, jax.Array]:
      gates, there = inputs
      into, forget, new, out = jnp.split(gates + state.hidden @ self.kernel, 4, axis=-1)
      cell = nn.sigmoid(forget) * state.cell + nn.sigmoid(into) * jnp.tanh(new)
      hidden = nn.sigmoid(out) * jnp.tanh(cell)
      kept = jax.tree.map(
        lambda now, before: jnp.where(there[:, None], now, before), State(hidden, cell), state
      )
      return kept, kept.hidden

    gates = self.input(x).astype(jnp.float32).swapaxes(0, 1)
    last, outputs = jax.lax.scan(step, state, (gates, present.T))
    return last, outputs.swapaxes(0, 1)


class LstmDecoder(nn.Module):
  """The LSTM and the logits; called as `t5.Decoder`, whose start token it does not read.

  Parameters: `lstm`, `logits_dense`.

  Attributes:
    config: sizes.
    stepwise: without meaning, as there is one layer.
  """

  config: LstmConfig
  stepwise: bool = False

  def setup(self):
    config = self.config
    dtype = resolve_dtype(config.dtype)
    self.lstm = Lstm(config.emb_dim, dtype)
    axes = ("head_embed", "head_vocab")
    self.logits_dense = Dense(config.vocab_size, axes, use_bias=True, dtype=dtype, accurate=True)
    self.dropout = Dropout(config.dropout_rate, broadcast_dims=())

  def __call__(
    self, embedded: jax.Array, encoded: jax.Array, encoded_mask: jax.Array, deterministic: bool = True
  ) -> jax.Array:
    """The input of `logits` for each target, [rows, length, embed]; arguments as those of `t5.Decoder`."""
    first, length = encoded.shape[1], embedded.shape[1]
    x = self.dropout(jnp.concatenate([encoded, embedded.astype(encoded.dtype)], axis=1), deterministic)
    read = jnp.broadcast_to(jnp.arange(length) > 0, embedded.shape[:2])
    present = jnp.concatenate([encoded_mask, read], axis=1)
    _, outputs = self.lstm(x, present, self._zeros(x.shape[0]))
    return self.dropout(outputs[:, first:], deterministic)

  def logits(self, hidden: jax.Array) -> jax.Array:
    """[..., embed] -> float32 [..., vocab]."""
    return self.logits_dense(hidden)

  def start(
    self, encoded: jax.Array, encoded_mask: jax.Array, max_length: int, beams: int
  ) -> tuple[Nothing, State]:
    """The state after image and LangId, for each beam of a search."""
    del max_length
    last, _ = self.lstm(encoded, encoded_mask, self._zeros(encoded.shape[0]))

    def of_beams(x: jax.Array) -> jax.Array:
      return jnp.broadcast_to(x[:, None], (x.shape[0], beams, x.shape[1])).reshape(-1, 1, 1, x.shape[1])

    return Nothing(), jax.tree.map(of_beams, last)

  def step(
    self, embedded: jax.Array, position: jax.Array, cross: Nothing, cache: State
  ) -> tuple[jax.Array, State]:
    """One position of every beam, [rows, beams, embed] -> the input of `logits`, and the state after it."""
    del cross
    before = jax.tree.map(lambda x: x[:, 0, 0], cache)
    x = embedded.reshape(-1, 1, embedded.shape[-1])
    last, outputs = self.lstm(x, jnp.broadcast_to(position > 0, x.shape[:2]), before)
    return outputs.reshape(embedded.shape), jax.tree.map(lambda x: x[:, None, None], last)

  def _zeros(self, rows: Any) -> State:
    zeros = jnp.zeros((rows, self.config.emb_dim), jnp.float32)
    return State(zeros, zeros)
