"""Captions from a captioner: greedy search, beam search and sampling over a key-value cache.

A picture is encoded once for all languages asked for. Beam search is T5's (Wu et al., "Google's Neural
Machine Translation System", 2016, equation 14, for the length penalty): hypotheses that end leave the beam
for a list of their own, and a row ends when nothing in the beam can still beat the worst of that list.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Protocol

import gin
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from xmcap.errors import UsageError
from xmcap.models.captioner import Captioner
from xmcap.models.t5 import EOS_ID, PAD_ID, CrossCache, SelfCache

IMPOSSIBLE = -1e7
"""Score of a hypothesis that is not there."""


Step = Callable[[jax.Array, jax.Array, CrossCache, SelfCache], tuple[jax.Array, SelfCache]]
"""(tokens [rows, beams], position, cross, cache) -> (logits [rows, beams, V], cache)."""


class Search(Protocol):
  """How captions are chosen: hashable, and pure in `run`."""

  beams: int

  def run(
    self, step: Step, cross: CrossCache, cache: SelfCache, max_length: int, keys: Any
  ) -> tuple[Any, Any]:
    """Returns tokens int32 [rows, max_length] and scores float32 [rows]; `keys` [rows] are random keys."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Greedy:
  """The likeliest token at each position. Scores are sums of log-probabilities."""

  beams = 1

  def run(self, step, cross, cache, max_length, keys):
    """See `Search.run`."""
    return _one_by_one(step, cross, cache, max_length, keys, lambda logits, *_: jnp.argmax(logits, axis=-1))


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Sample:
  """A random token at each position.

  Scores are sums of log-probabilities under the model itself, before temperature, top-k and top-p.

  Attributes:
    temperature: logits are divided by it.
    top_k: only the k likeliest tokens; 0: all.
    top_p: of those, the fewest whose probabilities (after temperature and top_k) reach p; 1: all.

  Raises:
    UsageError: for a value out of range.
  """

  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  beams = 1

  def __post_init__(self):
    if self.temperature <= 0:
      raise UsageError(f"Sample.temperature is {self.temperature}: it must be above 0 (use Greedy for 0)")
    if self.top_k < 0:
      raise UsageError(f"Sample.top_k is {self.top_k}: it must be 0 (all tokens) or more")
    if not 0 < self.top_p <= 1:
      raise UsageError(f"Sample.top_p is {self.top_p}: it must be above 0 and at most 1")

  def run(self, step, cross, cache, max_length, keys):
    """See `Search.run`."""

    def choose(logits, position, keys):
      position_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, position)
      return jax.vmap(self.choose)(position_keys, logits)

    return _one_by_one(step, cross, cache, max_length, keys, choose)

  def choose(self, key: jax.Array, logits: jax.Array) -> jax.Array:
    """Draws one token from logits [V]; returns its id, an int32 scalar."""
    logits = logits / self.temperature
    if self.top_k == 0 and self.top_p == 1.0:
      return jax.random.categorical(key, logits)
    size = min(self.top_k or logits.size, logits.size)
    logits, tokens = lax.top_k(logits, size)
    if self.top_p < 1.0:
      probabilities = jax.nn.softmax(logits)
      before = jnp.cumsum(probabilities) - probabilities
      logits = jnp.where(before < self.top_p, logits, -jnp.inf)
    return tokens[jax.random.categorical(key, logits)]


@struct.dataclass
class _Rows:
  """Rows of a search with one hypothesis each; `index` is a row's place in the batch.

  Column 0 of `tokens` is the start token, so that column `position` is what stands before it.
  """

  index: jax.Array
  tokens: jax.Array
  ended: jax.Array
  scores: jax.Array
  keys: jax.Array
  cache: SelfCache


def _one_by_one(step, cross, cache, max_length, keys, choose):
  """Search with one hypothesis a row; `choose(logits [rows, V], position, keys) -> tokens [rows]`.

  Captions differ in length, and the longest of a batch should not cost what all of them cost: once no more
  than a quarter of the rows goes on, these alone are kept, and so again.
  """

  def body(cross, state):
    position, rows = state
    before = lax.dynamic_slice_in_dim(rows.tokens, position, 1, axis=1)
    logits, cache = step(before, position, cross, rows.cache)
    logits = logits[:, 0]
    token = choose(logits, position, rows.keys).astype(jnp.int32)
    chosen = jnp.take_along_axis(logits, token[:, None], axis=-1)[:, 0]
    gained = jnp.where(rows.ended, 0.0, chosen - jax.nn.logsumexp(logits, axis=-1))
    token = jnp.where(rows.ended, PAD_ID, token)
    tokens = lax.dynamic_update_slice_in_dim(rows.tokens, token[:, None], position + 1, axis=1)
    ended = rows.ended | (token == EOS_ID)
    return position + 1, rows.replace(tokens=tokens, ended=ended, scores=rows.scores + gained, cache=cache)

  count = len(keys)
  tokens = jnp.full((count, max_length + 1), PAD_ID, jnp.int32)
  scores = jnp.zeros(count)
  state = jnp.int32(0), _Rows(jnp.arange(count), tokens, jnp.zeros(count, bool), scores, keys, cache)
  sizes = sorted({count, math.ceil(count / 4), math.ceil(count / 16)}, reverse=True)
  for _, fewer in itertools.pairwise([*sizes, 0]):
    state = lax.while_loop(
      lambda state, fewer=fewer: (state[0] < max_length) & (jnp.sum(~state[1].ended) > fewer),
      functools.partial(body, cross),
      state,
    )
    position, rows = state
    tokens = tokens.at[rows.index].set(rows.tokens, mode="drop")
    scores = scores.at[rows.index].set(rows.scores, mode="drop")
    if fewer:
      unfinished = jnp.nonzero(~rows.ended, size=fewer, fill_value=count)[0]
      cross = cross.take(unfinished)
      rows = jax.tree.map(lambda x, rows=unfinished: jnp.take(x, rows, axis=0, mode="clip"), rows)
      filled = unfinished < count
      rows = rows.replace(index=jnp.where(filled, rows.index, count), ended=rows.ended | ~filled)
      state = position, rows
  return tokens[:, 1:], scores


@struct.dataclass
class _BeamState:
  """Live hypotheses have not ended; tokens [rows, beams, max_length + 1], scores float32 [rows, beams]."""

  position: jax.Array
  live_tokens: jax.Array
  live_scores: jax.Array
  ended_tokens: jax.Array
  ended_scores: jax.Array
  cache: SelfCache


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Beam:
  """The best of several hypotheses. A score is the log-probability / ((5 + length) / 6)^length_penalty.

  The length counts the EOS. Where nothing has ended by max_length, the best hypothesis is given as it is.

  Attributes:
    beams: hypotheses a row.
    length_penalty: alpha; 0: none, larger: longer captions.

  Raises:
    UsageError: for a value out of range.
  """

  beams: int = 4
  length_penalty: float = 0.6

  def __post_init__(self):
    if self.beams < 1:
      raise UsageError(f"Beam.beams is {self.beams}: it must be at least 1")
    if self.length_penalty < 0:
      raise UsageError(f"Beam.length_penalty is {self.length_penalty}: it must be 0 or more")

  def penalty(self, length: jax.Array | int) -> jax.Array:
    """What a hypothesis of `length` tokens has its log-probability divided by."""
    return ((5.0 + length) / 6.0) ** self.length_penalty

  def run(self, step, cross, cache, max_length, keys):
    """See `Search.run`."""
    rows = len(keys)
    start = jnp.full((rows, self.beams), IMPOSSIBLE).at[:, 0].set(0.0)
    tokens = jnp.full((rows, self.beams, max_length + 1), PAD_ID, jnp.int32)
    ended = jnp.full((rows, self.beams), IMPOSSIBLE)
    state = _BeamState(jnp.int32(0), tokens, start, tokens, ended, cache)

    def unfinished(state):
      # A live score can only fall, and max_length's penalty is the kindest.
      best_live = state.live_scores[:, 0] / self.penalty(max_length)
      worst_ended = state.ended_scores[:, -1]
      return (state.position < max_length) & ~jnp.all(worst_ended >= best_live)

    state = lax.while_loop(unfinished, functools.partial(self._extend, step, cross), state)
    any_ended = state.ended_scores[:, 0] > IMPOSSIBLE / 2
    tokens = jnp.where(any_ended[:, None], state.ended_tokens[:, 0], state.live_tokens[:, 0])
    live = state.live_scores[:, 0] / self.penalty(max_length)
    return tokens[:, 1:], jnp.where(any_ended, state.ended_scores[:, 0], live)

  def _extend(self, step, cross, state: _BeamState) -> _BeamState:
    """Every live hypothesis grows by one token."""
    beams, position = self.beams, state.position
    rows = state.live_scores.shape[0]
    before = lax.dynamic_slice_in_dim(state.live_tokens, position, 1, axis=2)[..., 0]
    logits, cache = step(before, position, cross, state.cache)
    # Twice the beams: at least `beams` of them do not end. No more than that many come from one hypothesis.
    best, candidates = lax.top_k(logits, min(2 * beams, logits.shape[-1]))
    scores = best - jax.nn.logsumexp(logits, axis=-1, keepdims=True) + state.live_scores[..., None]
    per_beam = candidates.shape[-1]
    scores, index = lax.top_k(scores.reshape(rows, -1), min(2 * beams, beams * per_beam))
    token = jnp.take_along_axis(candidates.reshape(rows, -1), index, axis=1)
    parent = index // per_beam
    tokens = jnp.take_along_axis(state.live_tokens, parent[..., None], axis=1)
    tokens = lax.dynamic_update_slice_in_dim(tokens, token[..., None], position + 1, axis=2)

    ends = token == EOS_ID
    live_scores, index = lax.top_k(jnp.where(ends, IMPOSSIBLE, scores), beams)
    live_tokens = jnp.take_along_axis(tokens, index[..., None], axis=1)
    parent = jnp.take_along_axis(parent, index, axis=1)
    ends_here = ends & (scores > IMPOSSIBLE / 2)
    ended_scores = jnp.where(ends_here, scores / self.penalty(position + 1), IMPOSSIBLE)
    ended_scores = jnp.concatenate([state.ended_scores, ended_scores], axis=1)
    ended_tokens = jnp.concatenate([state.ended_tokens, tokens], axis=1)
    ended_scores, index = lax.top_k(ended_scores, beams)
    ended_tokens = jnp.take_along_axis(ended_tokens, index[..., None], axis=1)

    if beams > 1:
      source = (jnp.arange(rows)[:, None] * beams + parent).reshape(-1)
      cache = jax.tree.map(lambda x: jnp.take(x, source, axis=0), cache)
    return _BeamState(position + 1, live_tokens, live_scores, ended_tokens, ended_scores, cache)


def _row_keys(rng: jax.Array, row_ids: jax.Array, prompts: jax.Array) -> jax.Array:
  """A key for each (picture, prompt): of the picture's id and the prompt's tokens, not of their place."""

  def key(row_id, prompt):
    return lax.fori_loop(
      0, jnp.sum(prompt != PAD_ID), lambda i, key: jax.random.fold_in(key, prompt[i]),
      jax.random.fold_in(rng, row_id),
    )  # fmt: skip

  return jax.vmap(jax.vmap(key, (None, 0)))(row_ids, prompts).reshape(-1)


@functools.partial(jax.jit, static_argnames=("captioner", "search", "max_length"))
def _generate(captioner, search, max_length, params, image, prompt_tokens, rng, row_ids):
  apply = functools.partial(captioner.apply, {"params": params})
  batch, languages, _ = prompt_tokens.shape
  rows = batch * languages
  encoded, mask = apply(apply(image, method="encode_image"), prompt_tokens, method="encode")
  encoded, mask = encoded.reshape(rows, *encoded.shape[2:]), mask.reshape(rows, -1)
  cross, cache = apply(encoded, mask, max_length, search.beams, method="start_decoding")
  step = functools.partial(apply, method="decode_step")
  keys = _row_keys(rng, row_ids, prompt_tokens)
  tokens, scores = search.run(step, cross, cache, max_length, keys)
  return tokens.reshape(batch, languages, max_length), scores.reshape(batch, languages)


@gin.configurable
class Generator:
  """Captions for batches of pictures, by one program that is compiled once.

  Args:
    captioner: the model.
    search: `Greedy()`, `Beam(...)` or `Sample(...)`.
    max_length: T, the most tokens of a caption, its EOS counted.
    batch_size: pictures a program call; a smaller batch, such as a split's last, is filled up with copies of
      its first picture, which costs no compilation and no step of the search. None: each size compiles.

  Raises:
    UsageError: for a length or batch size below 1.
  """

  def __init__(
    self, captioner: Captioner, search: Search = Greedy(), max_length: int = 32, batch_size: int | None = None
  ):
    if max_length < 1:
      raise UsageError(f"Generator.max_length is {max_length}: it must be at least 1")
    if batch_size is not None and batch_size < 1:
      raise UsageError(f"Generator.batch_size is {batch_size}: it must be at least 1")
    self.captioner = captioner
    self.search = search
    self.max_length = max_length
    self.batch_size = batch_size

  def __call__(
    self, params: Any, image: Any, prompt_tokens: Any, rng: jax.Array | None = None, row_ids: Any = None
  ) -> tuple[jax.Array, jax.Array]:
    """Captions pictures.

    Args:
      params: the captioner's parameters.
      image: [B, H, W, 3], values 0..255.
      prompt_tokens: int32 [L, P], the same languages for every picture, or [B, L, P]; padded with 0.
      rng: key for `Sample`; None: that of seed 0.
      row_ids: int32 [B], of the pictures in their split: the same (rng, id, prompt) gives the same sample in
        any batch and beside any languages. None: 0 .. B - 1.

    Returns:
      Tokens int32 [B, L, T], ended by EOS (1) where the caption ended, then 0; and scores float32 [B, L].

    Raises:
      UsageError: no pictures, more pictures than batch_size, or prompts that do not fit the pictures.
    """
    batch = len(image)
    if not batch:
      raise UsageError("no pictures to caption: give at least one")
    if prompt_tokens.ndim == 2:
      prompt_tokens = np.broadcast_to(prompt_tokens, (batch, *prompt_tokens.shape))
    if prompt_tokens.ndim != 3 or len(prompt_tokens) != batch:
      raise UsageError(
        f"prompts of shape {tuple(prompt_tokens.shape)} do not fit {batch} pictures: "
        f"give [L, P] or [{batch}, L, P]"
      )
    row_ids = np.arange(batch, dtype=np.int32) if row_ids is None else row_ids
    rng = jax.random.key(0) if rng is None else rng
    missing = 0 if self.batch_size is None else self.batch_size - batch
    if missing < 0:
      raise UsageError(
        f"{batch} pictures in one call of a Generator of batch_size {self.batch_size}: split them"
      )
    if missing:
      image, prompt_tokens, row_ids = (_fill(x, missing) for x in (image, prompt_tokens, row_ids))
    tokens, scores = _generate(
      self.captioner, self.search, self.max_length, params, image, prompt_tokens, rng, row_ids
    )
    return (tokens[:batch], scores[:batch]) if missing else (tokens, scores)


def _fill(x: Any, missing: int) -> np.ndarray:
  x = np.asarray(x)
  return np.concatenate([x, np.broadcast_to(x[:1], (missing, *x.shape[1:]))])
