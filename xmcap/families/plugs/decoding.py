"""Decoding with a language-blind encoder: the decoder is given the LangId after the separator (see `stabilizer.py`).

In one phase, each language searches its own stabilizer and caption. In two phases, the stabilizer of an image is
searched once, its keys and values are computed, and the captions of all languages continue from there.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from xmcap.models.caches import CrossCache, SelfCache
from xmcap.models.captioner import shift_right
from xmcap.models.decoding.search import Search, Step
from xmcap.models.t5 import EOS_ID, PAD_ID, padding_bias
from xmcap.models.targets import TargetFormat

_EXCLUDED = -1e9  # logit of a token that cannot follow


class _Given(struct.PyTreeNode):
  """A `CrossCache` with the LangIds, int32 [rows, P], that the decoder is given."""

  cross: CrossCache
  prompts: jax.Array

  def take(self, rows: jax.Array) -> "_Given":
    return _Given(self.cross.take(rows), jnp.take(self.prompts, rows, axis=0, mode="clip"))


class _Since(struct.PyTreeNode):
  """A `SelfCache` with the number of tokens since the separator, int32 [rows * beams, 1, 1, 1]; 0 before it."""

  cache: SelfCache
  since: jax.Array


def giving_language(step: Step, separator: int) -> Any:
  """A step over `_Given` and `_Since` that continues a separator with the LangId, and forbids EOS before it."""

  def constrained(tokens, position, cross, cache):
    since = cache.since.reshape(tokens.shape)
    since = jnp.where(since > 0, since + 1, (tokens == separator).astype(jnp.int32))
    logits, inner = step(tokens, position, cross.cross, cache.cache)
    count = jnp.sum(cross.prompts != PAD_ID, axis=-1, keepdims=True)
    place = jnp.clip(since - 1, 0, cross.prompts.shape[-1] - 1)
    token = jnp.take_along_axis(cross.prompts, place, axis=1)
    must = ((since > 0) & (since <= count))[..., None]
    ids = jnp.arange(logits.shape[-1])
    excluded = (must & (ids != token[..., None])) | ((since == 0)[..., None] & (ids == EOS_ID))
    return jnp.where(excluded, _EXCLUDED, logits), _Since(inner, since.reshape(cache.since.shape))

  return constrained


def _ending_with(step: Step, separator: int) -> Step:
  """A step in which the separator is called EOS, so that a search ends there, and EOS cannot follow."""

  def ending(tokens, position, cross, cache):
    logits, cache = step(tokens, position, cross, cache)
    ends = logits[..., separator]
    return logits.at[..., EOS_ID].set(ends).at[..., separator].set(_EXCLUDED), cache

  return ending


def _each(x: jax.Array, count: Any) -> jax.Array:
  """[rows, ...] -> [rows * count, ...], each row `count` times in succession."""
  return jnp.broadcast_to(x[:, None], (x.shape[0], count, *x.shape[1:])).reshape(-1, *x.shape[1:])


def one_phase(
  apply: Any, search: Search, marks: TargetFormat, cross: CrossCache, cache: SelfCache, prompts: jax.Array,
  max_length: int, keys: Any,
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
  """Searches stabilizer and caption of each image and language together.

  Args:
    apply: applies a method of the captioner.
    search: the search.
    marks: the tokens around a stabilizer.
    cross, cache: from `Decoder.start`, for the images, B rows.
    prompts: int32 [B, L, P], the LangIds.
    max_length: T.
    keys: random keys [B * L].

  Returns:
    Tokens int32 [B * L, T] and scores [B * L], as `Search.run`.
  """
  languages = prompts.shape[1]
  cross = cross.of_rows(lambda x: _each(x, languages))
  cache = jax.tree.map(lambda x: _each(x, languages), cache)
  return _search_given(apply, search, marks, cross, cache, prompts, max_length, keys)


def _search_given(apply, search, marks, cross, cache, prompts, max_length, keys, start=0):
  """Searches from position `start` on, where the separator was the last token if it is not the first position."""
  flat = prompts.reshape(-1, prompts.shape[-1])
  since = jnp.zeros((cache.keys[0].shape[0], 1, 1, 1), jnp.int32)

  def plain(tokens, position, cross, cache):
    return apply(tokens, position + start, cross, cache, method="decode_step")

  inner = giving_language(plain, marks.separator)

  def step(tokens, position, cross, cache):
    if start:
      tokens = jnp.where(position == 0, marks.separator, tokens)
    return inner(tokens, position, cross, cache)

  return search.run(step, _Given(cross, flat), _Since(cache, since), max_length, keys)


def two_phases(
  apply: Any, search: Search, marks: TargetFormat, cross: CrossCache, cache: SelfCache, prompts: jax.Array,
  max_length: int, keys: tuple[Any, Any],
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
  """Searches the stabilizer of each image, and then the captions of all its languages from there on.

  Args and results are those of `one_phase`, but for `keys`: [B] for the stabilizers, and [B * L]. A score is the sum of
  those of both searches.
  """
  languages, length = prompts.shape[1], marks.stabilizer.length
  first = getattr(search, "best_alone", search)  # only the best stabilizer is held

  def step(tokens, position, cross, cache):
    return apply(tokens, position, cross, cache, method="decode_step")

  short = cross.replace(relpos_bias=cross.relpos_bias[:, :, :length, :length])
  of_stabilizer = jax.tree.map(lambda x: x[:, :, :length], cache)
  decoded, scores = first.run(_ending_with(step, marks.separator), short, of_stabilizer, length, keys[0])
  # The separator, for the search's EOS; at the last position if there is none.
  is_end = (decoded == EOS_ID) | (jnp.arange(length) == length - 1)
  end = jnp.argmax(is_end, axis=1)[:, None]
  stabilizers = jnp.where(jnp.arange(length) == end, marks.separator, decoded)

  # All inputs before the separator, aligned to the right: T5 sees only distances, so that all rows can go on from the
  # same position.
  place = jnp.arange(length) - (length - 1 - end)
  inputs = jnp.take_along_axis(shift_right(stabilizers), jnp.clip(place, 0), axis=1)
  prefix = apply(inputs, place >= 0, short, method="decode_prefix")
  rest = max_length - length

  def room(x):
    x = jnp.pad(x.astype(cache.keys[0].dtype), [(0, 0), (0, 0), (0, rest), (0, 0)])
    return _each(x, languages * search.beams)

  seen = jnp.pad(place >= 0, [(0, 0), (0, rest)], constant_values=True)
  cross = cross.replace(prefix=padding_bias(seen)).of_rows(lambda x: _each(x, languages))
  cache = jax.tree.map(room, prefix)
  tokens, of_captions = _search_given(
    apply, search, marks, cross, cache, prompts, rest, keys[1], start=length
  )

  # Joined without a gap.
  count = _each(end + 1, languages)
  before = jnp.pad(_each(stabilizers, languages), [(0, 0), (0, rest)])
  scores = _each(scores, languages)
  if tokens.ndim == 3:  # of NBest
    count, before, scores = count[:, None], before[:, None], scores[:, None]
  index = jnp.arange(max_length)
  taken = jnp.take_along_axis(
    jnp.pad(tokens, [(0, 0)] * (tokens.ndim - 1) + [(0, length)]),
    jnp.broadcast_to(jnp.clip(index - count, 0), (*tokens.shape[:-1], max_length)),
    axis=-1,
  )
  return jnp.where(index < count, before, taken), scores + of_captions
