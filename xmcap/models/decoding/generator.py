"""Generates captions by a search with a key-value cache; an image is encoded once for all languages."""

import functools
from typing import Any

import gin
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from xmcap.errors import UsageError
from xmcap.models import stacking
from xmcap.models.captioner import Captioner
from xmcap.models.decoding.search import Greedy, Search
from xmcap.models.layers import resolve_dtype
from xmcap.models.parts import IMAGE
from xmcap.models.t5 import PAD_ID, T5Config
from xmcap.models.targets import TargetFormat

_GREEDY = Greedy()
_BEYOND_TOKENS = 2**30  # larger than any token id


def _row_keys(rng: jax.Array, row_ids: jax.Array, prompts: jax.Array) -> jax.Array:
  """A key for each (image, prompt), a function of the image's id and the prompt's tokens, not of their position.

  If an image has the same prompt several times, each repetition has a different key.
  """

  def key(row_id, prompt, repetition):
    key = lax.fori_loop(
      0, jnp.sum(prompt != PAD_ID), lambda i, key: jax.random.fold_in(key, prompt[i]),
      jax.random.fold_in(rng, row_id),
    )  # fmt: skip
    return jnp.where(repetition > 0, jax.random.fold_in(key, _BEYOND_TOKENS + repetition), key)

  same = jnp.all(prompts[:, :, None] == prompts[:, None], axis=-1)
  repetitions = jnp.sum(jnp.tril(same, -1), axis=-1)
  return jax.vmap(jax.vmap(key, (None, 0, 0)))(row_ids, prompts, repetitions).reshape(-1)


def in_dtype_of_activations(captioner: Captioner, params: Any) -> Any:
  """Casts the kernels and the embedding once, so that the search does not cast them at each step."""
  vit, t5 = resolve_dtype(captioner.vit.dtype), resolve_dtype(captioner.t5.dtype)

  def cast(path, leaf):
    dtype = vit if path[0].key == IMAGE else t5
    return leaf.astype(dtype) if path[-1].key in ("kernel", "embedding") else leaf

  return jax.tree_util.tree_map_with_path(cast, params)


@functools.partial(jax.jit, static_argnames=("captioner", "max_length", "cache_dtype", "marks"))
def generate(captioner, search, max_length, cache_dtype, marks, params, image, prompt_tokens, rng, row_ids):
  """`Generator.__call__` as one jitted function of `Generator.static` and its arguments, with prompts [B, L, P].

  When it is traced for export, the number of images may be symbolic.
  """
  params = in_dtype_of_activations(captioner, params)
  apply = functools.partial(
    captioner.apply, {"params": {**params, "decoder": stacking.unstack(params["decoder"])}}
  )
  batch, languages, _ = prompt_tokens.shape
  consistent = marks if marks is not None and marks.stabilizer.is_consistent else None
  prompts = prompt_tokens if consistent is None else jnp.full((batch, 1, 1), PAD_ID, jnp.int32)
  rows = batch * prompts.shape[1]
  encoded, mask = apply(apply(image, method="encode_image"), prompts, method="encode")
  encoded, mask = encoded.reshape(rows, *encoded.shape[2:]), mask.reshape(rows, -1)
  cross, cache = apply(method=lambda model: model.decoder.start(encoded, mask, max_length, search.beams))
  if cache_dtype is not None:
    cross, cache = cross.astype(cache_dtype), cache.astype(cache_dtype)
  keys = _row_keys(rng, row_ids, prompt_tokens)
  if consistent is None:
    step = functools.partial(apply, method="decode_step")
    decoded = search.run(step, cross, cache, max_length, keys)
  else:
    both = jax.vmap(jax.random.fold_in, (None, 0))(rng, row_ids), keys
    decoded = consistent.search(apply, search, cross, cache, prompt_tokens, max_length, both)
  tokens, scores = (leaf.reshape(batch, languages, *leaf.shape[1:]) for leaf in decoded)
  return tokens, scores


@gin.configurable
class Generator:
  """Captions batches of images with one compiled program.

  Args:
    captioner: the model.
    search: `Greedy()`, `Beam(...)` or `Sample(...)`.
    max_length: T, the largest number of tokens in a caption, counting EOS.
    cache_dtype: dtype of the cached keys and values, `float32` or `bfloat16` (half the memory, nearly the same
      captions); `auto`: that of the T5's activations.
    marks: the tokens around stabilizers, which then precede the captions that it returns, and count in `max_length`;
      None: the model has none. If it is consistent, the prompts of a call must be LangIds, and the model a T5.

  Raises:
    UsageError: max_length is below 1 or leaves no room after a stabilizer, or the dtype is unknown.
  """

  def __init__(
    self, captioner: Captioner, search: Search = _GREEDY, max_length: int = 32, cache_dtype: str = "auto",
    marks: TargetFormat | None = None,
  ):  # fmt: skip
    least = 1 if marks is None else marks.least_length
    if max_length < least:
      after = " (with Stabilizer.length tokens before a caption)" if least > 1 else ""
      raise UsageError(f"Generator.max_length is {max_length}: it must be at least {least}{after}")
    if marks is not None and marks.stabilizer.is_consistent and not isinstance(captioner.t5, T5Config):
      kind = type(captioner.t5).__name__
      raise UsageError(
        f"Stabilizer.form = 'consistent' needs a T5, and the model's {kind} is none: give 'plain'"
      )
    self.marks = marks
    self.captioner = captioner.clone(stepwise=True)
    self.search = search
    self.max_length = max_length
    self.cache_dtype = None if cache_dtype == "auto" else resolve_dtype(cache_dtype)

  @property
  def static(self) -> tuple[Any, ...]:
    """The first arguments of `generate`, for which it is compiled (except for the leaves of the search)."""
    return self.captioner, self.search, self.max_length, self.cache_dtype, self.marks

  def cast(self, params: Any) -> Any:
    """Casts parameters to the dtypes of the computation."""
    return in_dtype_of_activations(self.captioner, params)

  def __call__(
    self, params: Any, image: Any, prompt_tokens: Any, rng: jax.Array | None = None, row_ids: Any = None
  ) -> tuple[jax.Array, jax.Array]:
    """Captions images; compiles once per batch size.

    Args:
      params: the captioner's parameters, or the output of `cast`.
      image: [B, H, W, 3], values 0..255.
      prompt_tokens: int32 [L, P], the same languages for every image, or [B, L, P]; padded with 0. `Sample` draws a
        different caption for each repetition of a prompt.
      rng: key for `Sample`; None: seed 0.
      row_ids: int32 [B], ids of the images in their split. The same (rng, id, prompt) gives the same sample in any
        batch and with any other languages. None: 0 .. B - 1.

    Returns:
      Tokens int32 [B, L, T], ending with EOS (1) unless max_length was reached, padded with 0; and scores float32
      [B, L]. The search `NBest` adds a dimension: [B, L, count, T] and [B, L, count].

    Raises:
      UsageError: there are no images, or the prompts do not match the images.
    """
    batch = len(image)
    if not batch:
      raise UsageError("no pictures to caption: give at least one")
    if prompt_tokens.ndim == 2:
      prompt_tokens = np.broadcast_to(prompt_tokens, (batch, *prompt_tokens.shape))
    if prompt_tokens.ndim != 3 or len(prompt_tokens) != batch:
      raise UsageError(
        f"prompts of shape {tuple(prompt_tokens.shape)} do not match {batch} pictures: "
        f"give [L, P] or [{batch}, L, P]"
      )
    row_ids = np.arange(batch, dtype=np.int32) if row_ids is None else row_ids
    rng = jax.random.key(0) if rng is None else rng
    return generate(*self.static, params, image, prompt_tokens, rng, row_ids)
