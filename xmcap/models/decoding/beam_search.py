"""Beam search with the conventions of t5x or of transformers.

Hypotheses that end move from the beam to a separate list. A row is done when no live hypothesis can (or, depending on
`early_stopping`, is expected to) beat the worst of that list.
"""

import dataclasses
import functools
from typing import Annotated

import gin
import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from msgspec import Meta

from xmcap.errors import UsageError
from xmcap.models import limits
from xmcap.models.caches import SelfCache
from xmcap.models.decoding.search import run_in_stages, top, top_tokens
from xmcap.models.t5 import EOS_ID, PAD_ID

IMPOSSIBLE = -1e7
"""Score of an empty place for a hypothesis."""

CONVENTIONS = ("t5x", "transformers")
EARLY_STOPPING = ("never", False, True)


class _Rows(struct.PyTreeNode):
  """Live and ended hypotheses: tokens [rows, beams, max_length + 1], scores float32 [rows, beams].

  Both lists are sorted, best first. The cache's arrays are [rows, beams, heads, max_length, kv].
  """

  live_tokens: jax.Array
  live_scores: jax.Array
  ended_tokens: jax.Array
  ended_scores: jax.Array
  done: jax.Array
  cache: SelfCache


@jax.tree_util.register_static
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Beam:
  """Beam search. The score of a hypothesis is its log-probability divided by a penalty of its length, counting EOS.

  There are two conventions. Each equals its namesake except for ties, where here the lower token and the better parent
  win:

  - `t5x`: the penalty is ((5 + length) / 6)^length_penalty (Wu et al., "Google's Neural Machine Translation
    System", 2016, equation 14). A hypothesis ends only with EOS; if none has ended by max_length, the best live one is
    returned. Any EOS among the 2 * beams best continuations ends a hypothesis.
  - `transformers`: the penalty is length^length_penalty (transformers' default is 1.0). A hypothesis also ends at
    max_length. Only the `beams` best continuations may end; an EOS below them is dropped.

  Attributes:
    beams: hypotheses per row.
    length_penalty: 0: none; larger values prefer longer captions.
    convention: `t5x` or `transformers`.
    early_stopping: when a row with a full list of ended hypotheses is done, as in transformers. "never" (T5): when even
      the best live hypothesis could not enter the list with the penalty of max_length, so that nothing is missed. False
      (transformers' default): when it could not with the penalty of its current length. True: immediately.

  Raises:
    UsageError: a value is out of range.
  """

  beams: Annotated[int, Meta(ge=1, le=1024)] = 4
  length_penalty: Annotated[float, Meta(ge=0, le=1000)] = 0.6
  convention: str = "t5x"
  early_stopping: bool | str = "never"

  def __post_init__(self):
    limits.check(self)
    limits.check_names(self, convention=CONVENTIONS)
    if self.early_stopping not in EARLY_STOPPING:
      raise UsageError(
        f"unknown Beam.early_stopping {str(self.early_stopping)[:40]!r}: use 'never', False or True"
      )

  def penalty(self, length: jax.Array | int) -> jax.Array:
    """The divisor of the log-probability of a hypothesis of `length` tokens."""
    base = (5.0 + length) / 6.0 if self.convention == "t5x" else jnp.float32(length)
    return base**self.length_penalty

  def run(self, step, cross, cache, max_length, keys):
    """See `Search.run`."""
    rows = keys.shape[0]
    # Only one beam is live at first; otherwise all would hold the same hypotheses.
    start = jnp.full((rows, self.beams), IMPOSSIBLE).at[:, 0].set(0.0)
    tokens = jnp.full((rows, self.beams, max_length + 1), PAD_ID, jnp.int32)
    ended = jnp.full((rows, self.beams), IMPOSSIBLE)
    cache = jax.tree.map(lambda x: x.reshape(rows, self.beams, *x.shape[1:]), cache)
    state = _Rows(tokens, start, tokens, ended, jnp.zeros(rows, bool), cache)
    extend = functools.partial(self._extend, step, max_length)
    result = functools.partial(self._result, max_length)
    return run_in_stages(extend, result, cross, state, max_length)

  def _result(self, max_length, rows: _Rows):
    tokens, scores = self._best(max_length, rows, 1)
    return tokens[:, 0], scores[:, 0]

  def _best(self, max_length, rows: _Rows, count: int):
    """Tokens [rows, count, max_length] and scores: ended hypotheses, then live ones, each best first."""
    num_ended = jnp.sum(rows.ended_scores > IMPOSSIBLE / 2, axis=1, keepdims=True)
    place = jnp.arange(count)[None]
    index = jnp.where(place < num_ended, place, self.beams + place - num_ended)
    tokens = jnp.concatenate([rows.ended_tokens, rows.live_tokens], axis=1)
    scores = jnp.concatenate([rows.ended_scores, rows.live_scores / self.penalty(max_length)], axis=1)
    tokens = jnp.take_along_axis(tokens, index[..., None], axis=1)
    return tokens[..., 1:], jnp.take_along_axis(scores, index, axis=1)

  def _extend(self, step, max_length, cross, position, rows: _Rows) -> _Rows:
    """Extends every live hypothesis by one token."""
    tokens, scores, parents, cache = self._continuations(step, cross, position, rows)
    ends = tokens[:, :, position + 1] == EOS_ID
    if self.convention == "transformers":
      ends |= position + 1 == max_length
      may_end = ends & (jnp.arange(ends.shape[1]) < self.beams)
    else:
      may_end = ends

    may_end &= (scores > IMPOSSIBLE / 2) & ~rows.done[:, None]
    ended_scores = jnp.where(may_end, scores / self.penalty(position + 1), IMPOSSIBLE)
    ended_scores = jnp.concatenate([rows.ended_scores, ended_scores], axis=1)
    ended_tokens = jnp.concatenate([rows.ended_tokens, tokens], axis=1)
    ended_scores, index = top(ended_scores, self.beams)
    ended_tokens = jnp.take_along_axis(ended_tokens, index[..., None], axis=1)

    live_scores, index = top(jnp.where(ends, IMPOSSIBLE, scores), self.beams)
    live_tokens = jnp.take_along_axis(tokens, index[..., None], axis=1)
    parents = jnp.take_along_axis(parents, index, axis=1)
    if self.beams > 1:
      cache = jax.tree.map(lambda x: jnp.take_along_axis(x, parents[:, :, None, None, None], axis=1), cache)

    done = rows.done | self._nothing_to_gain(live_scores[:, 0], ended_scores[:, -1], position + 1, max_length)
    return _Rows(live_tokens, live_scores, ended_tokens, ended_scores, done, cache)

  def _continuations(self, step, cross, position, rows: _Rows):
    """The 2 * beams best continuations, since `beams` of them may end.

    Returns tokens [rows, 2 * beams, max_length + 1], scores, parents (indices of beams), and the updated cache.
    """
    count = rows.done.shape[0]
    before = lax.dynamic_slice_in_dim(rows.live_tokens, position, 1, axis=2)[..., 0]
    cache = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows.cache)
    logits, cache = step(before, position, cross, cache)
    cache = jax.tree.map(lambda x: x.reshape(count, self.beams, *x.shape[1:]), cache)
    best, candidates = top_tokens(logits, min(2 * self.beams, logits.shape[-1]))
    scores = best - jax.nn.logsumexp(logits, axis=-1, keepdims=True) + rows.live_scores[..., None]
    width = candidates.shape[-1]
    scores, index = top(scores.reshape(count, -1), min(2 * self.beams, self.beams * width))
    parents = index // width
    token = jnp.take_along_axis(candidates.reshape(count, -1), index, axis=1)
    tokens = jnp.take_along_axis(rows.live_tokens, parents[..., None], axis=1)
    tokens = lax.dynamic_update_slice_in_dim(tokens, token[..., None], position + 1, axis=2)
    return tokens, scores, parents, cache

  def _nothing_to_gain(self, best_live, worst_ended, length, max_length):
    """Whether each row is done, bool [rows], given its scores after `length` tokens; see `early_stopping`."""
    if self.early_stopping is True:
      return worst_ended > IMPOSSIBLE / 2
    # A log-probability can only fall, so a score can only rise through the penalty.
    final = max_length if self.early_stopping == "never" else length
    return worst_ended >= best_live / self.penalty(final)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class NBest(Beam):
  """Beam search that returns its `count` best hypotheses, best first: tokens [rows, count, T], scores [rows, count].

  If there are fewer hypotheses, as with a tiny `max_length`, the scores of the rest are about `IMPOSSIBLE`.
  """

  count: int = 1

  def __post_init__(self):
    super().__post_init__()
    if not 1 <= self.count <= self.beams:
      raise UsageError(
        f"the {self.count} best of {self.beams} beams: ask for 1 to {self.beams}, or use more beams"
      )

  @property
  def best_alone(self) -> Beam:
    """The same search, which returns its best hypothesis."""
    return Beam(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Beam)})

  def _result(self, max_length, rows: _Rows):
    return self._best(max_length, rows, self.count)


def n_best(beam: Beam, count: int) -> NBest:
  """The same search, returning `count` hypotheses; UsageError if that is more than its beams."""
  return NBest(**{field.name: getattr(beam, field.name) for field in dataclasses.fields(beam)}, count=count)
