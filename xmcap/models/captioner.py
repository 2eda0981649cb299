"""The captioner: image tokens from a ViT and the prompt of a language go through a T5, which writes the caption.

Thapliyal et al., "Crossmodal-3600" (2022), section 3.2: the image becomes one dense vector (or all patch tokens),
projected to the T5's width and placed before the embedded LangId prompt. The K captions of an image share one pass of
the ViT.
"""

import functools
from typing import Any, cast

import jax
import jax.numpy as jnp
from flax import linen as nn

from xmcap.models.caches import CrossCache, SelfCache
from xmcap.models.layers import Dense, constrain, resolve_dtype
from xmcap.models.parts import (
  ImageConfig,
  LanguageModelConfig,
  image_tower,
  input_shape,
  language_model,
  reads_stored,
  scanned,
)
from xmcap.models.t5 import PAD_ID, TokenEmbedder


def shift_right(tokens: jax.Array) -> jax.Array:
  """Turns targets [..., T] into decoder inputs [..., T]: the start token (pad, 0), then all tokens but the last."""
  start = jnp.full_like(tokens[..., :1], PAD_ID)
  return jnp.concatenate([start, tokens[..., :-1]], axis=-1)


def _flatten(x: jax.Array) -> jax.Array:
  """[B, K, ...] -> [B * K, ...]."""
  return x.reshape(-1, *x.shape[2:])


class Captioner(nn.Module):
  """Maps images and prompts to logits over the vocabulary.

  Parameters: `vit`, `projection`, and with t5x's names `token_embedder`, `encoder`, `decoder`.
  Shapes: B images, K captions per image, N image tokens (`vit.num_tokens`), P prompt tokens, T target tokens, E the
  T5's width, V its vocabulary size.

  Attributes:
    vit, t5: configurations, of the image tower (not only a ViT) and of the language model (not only a T5).
    stepwise: for decoding; see `Decoder`.
  """

  vit: ImageConfig
  t5: LanguageModelConfig
  stepwise: bool = False

  def setup(self):
    self.image_tower = image_tower(self.vit)
    self.projection = Dense(
      self.t5.emb_dim, ("image_embed", "embed"), use_bias=True, dtype=resolve_dtype(self.t5.dtype)
    )
    self.token_embedder = TokenEmbedder(cast(Any, self.t5))  # any language model has the fields that it reads
    self.encoder, self.decoder = language_model(self.t5, self.stepwise)

  def encode_image(self, image: jax.Array, deterministic: bool = True) -> jax.Array:
    """Images [B, H, W, 3] with values 0..255, or their `tower_output` -> image tokens [B, N, E].

    They are to be placed before a prompt.
    """
    return self.projection(self.tower_output(image, deterministic))

  def tower_output(self, image: jax.Array, deterministic: bool = True) -> jax.Array:
    """The output of the image tower, [B, N, W], which may take the images' place.

    So may stored vectors of a tower that sees images, [B, W]: they are one token each. Other towers read stored vectors
    themselves.
    """
    if image.ndim == 3:
      return image
    is_seen = image.ndim == 2 and not reads_stored(self.vit)
    return image[:, None] if is_seen else self.image_tower(image, deterministic)

  def encode(
    self, image_features: jax.Array, prompt_tokens: jax.Array, deterministic: bool = True,
    prompt: jax.Array | None = None,
  ) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """Encodes the image tokens of `encode_image` together with each prompt.

    Args:
      image_features: [B, N, E].
      prompt_tokens: int32 [B, K, P], padded with 0.
      deterministic: no dropout.
      prompt: the embedded prompts, [B, K, P, E]; None: they are embedded here.

    Returns:
      The encoder's output [B, K, N + P, E], and its mask, bool [B, K, N + P], False for padding.
    """
    text = self.token_embedder(prompt_tokens) if prompt is None else prompt
    batch, captions, _ = prompt_tokens.shape
    tokens, width = image_features.shape[1:]
    image = jnp.broadcast_to(image_features[:, None], (batch, captions, tokens, width))
    embedded = jnp.concatenate([image, text.astype(image.dtype)], axis=2)
    rows = constrain(_flatten(embedded), "batch", "length", "embed")
    image_mask = jnp.ones((batch, captions, tokens), bool)
    mask = jnp.concatenate([image_mask, prompt_tokens != PAD_ID], axis=2)
    encoded = self.encoder(rows, _flatten(mask), deterministic)
    return encoded.reshape(batch, captions, *encoded.shape[1:]), mask

  def __call__(
    self, image: jax.Array, prompt_tokens: jax.Array, target_tokens: jax.Array, deterministic: bool = True
  ) -> jax.Array:
    """The logits of each target token, float32 [B, K, T, V], given the image, the prompt and the previous targets.

    The arguments are those of `hidden`.
    """
    return self.logits(self.hidden(image, prompt_tokens, target_tokens, deterministic))

  def hidden(
    self, image: jax.Array, prompt_tokens: jax.Array, target_tokens: jax.Array, deterministic: bool = True
  ) -> jax.Array:
    """What `logits` takes: the decoder's output for each target token, [B, K, T, E].

    Args:
      image: [B, H, W, 3], values 0..255 (uint8 in training), or stored vectors as in `encode_image`.
      prompt_tokens: int32 [B, K, P], padded with 0; or [B, 1, P], one prompt that all captions of an image share.
      target_tokens: int32 [B, K, T], ending with EOS, padded with 0; they are shifted right here.
      deterministic: no dropout; otherwise the random stream `dropout` is needed.
    """
    # One lookup for prompts and targets: with two, each would have a gradient as large as the embedding table.
    captions, (prompts, length) = target_tokens.shape[1], prompt_tokens.shape[1:]
    repeated = jnp.repeat(prompt_tokens, captions // prompts, axis=1)
    tokens = jnp.concatenate([repeated, shift_right(target_tokens)], axis=-1)
    prompt, targets = jnp.split(self.token_embedder(tokens), [length], axis=2)
    features = self.encode_image(image, deterministic)
    encoded, mask = self.encode(features, prompt_tokens, deterministic, prompt[:, :prompts])
    encoded, mask = (jnp.repeat(x, captions // prompts, axis=1) for x in (encoded, mask))
    rows = constrain(_flatten(targets), "batch", "length", "embed")
    hidden = self.decoder(rows, _flatten(encoded), _flatten(mask), deterministic)
    return hidden.reshape(targets.shape)

  def logits(self, hidden: jax.Array) -> jax.Array:
    """[..., E] -> float32 [..., V]. Of the parameters, only those of the logits are needed."""
    return self.decoder.logits(hidden)

  def decode_step(
    self, tokens: jax.Array, position: jax.Array, cross: CrossCache, cache: SelfCache
  ) -> tuple[jax.Array, SelfCache]:
    """The logits of one position, float32 [rows, beams, V], and the cache for the next.

    `tokens`, int32 [rows, beams], are those of the previous position; 0 at the first.
    """
    hidden, cache = self.decoder.step(self.token_embedder(tokens), position, cross, cache)
    return self.logits(hidden), cache

  def decode_prefix(self, tokens: jax.Array, mask: jax.Array, cross: CrossCache) -> SelfCache:
    """The keys and values of given inputs of the decoder, int32 [rows, length], at the right of padding."""
    return self.decoder.prefix(self.token_embedder(tokens), mask, cross)


@functools.lru_cache(maxsize=16)  # a trace takes half a second
def variable_shapes(vit: ImageConfig, t5: LanguageModelConfig) -> dict[str, Any]:
  """`params` and `params_axes` of a captioner, with shapes in place of arrays; not to be changed."""
  model = Captioner(scanned(vit), scanned(t5))
  image = jax.ShapeDtypeStruct((1, *input_shape(vit)), jnp.uint8)
  tokens = jax.ShapeDtypeStruct((1, 1, 1), jnp.int32)
  return jax.eval_shape(model.init, jax.random.key(0), image, tokens, tokens)
