"""The base of all searches, and those with one hypothesis per row: greedy search and sampling.

A row is one caption to generate, that is, one image and one language.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, Protocol

import gin
import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from msgspec import Meta

from xmcap.errors import UsageError
from xmcap.models import limits
from xmcap.models.caches import CrossCache, SelfCache
from xmcap.models.t5 import EOS_ID, PAD_ID

Step = Callable[[jax.Array, jax.Array, CrossCache, SelfCache], tuple[jax.Array, SelfCache]]
"""(tokens [rows, beams], position, cross, cache) -> (logits [rows, beams, V], cache)."""

STAGES = (2, 4, 8, 16)
"""Once at most 1 / stage of the rows are unfinished, a search continues with those alone; each stage is compiled."""
FEWEST = 32
"""Smallest stage, in rows: with fewer, the time of a step is that of reading the weights."""


class Search(Protocol):
  """A search: a pytree whose leaves are arguments of the compiled program, with a pure function `run`."""

  beams: int

  def run(
    self, step: Step, cross: CrossCache, cache: SelfCache, max_length: int, keys: Any
  ) -> tuple[Any, Any]:
    """Returns tokens int32 [rows, max_length] and scores float32 [rows]; `keys` [rows] are random keys."""
    ...


def top_tokens(logits: jax.Array, count: int, portable: bool = False) -> tuple[jax.Array, jax.Array]:
  """`lax.top_k` over a vocabulary, with the same order of ties (lower token first), in little more than one pass.

  The `count` best logits are in the `count` blocks with the highest maxima, so only these are searched. A vocabulary
  whose size is not divisible by 64 is searched as a whole.

  Args:
    logits: [..., V].
    count: number of tokens.
    portable: see `top`.

  Returns:
    The best logits and their tokens, int32, each [..., count].
  """
  vocabulary = logits.shape[-1]
  block = math.gcd(vocabulary, 256)
  if block < 64 or vocabulary < 4 * count * block:
    return top(logits, count, portable)
  blocks = logits.reshape(*logits.shape[:-1], -1, block)
  _, chosen = top(jnp.max(blocks, axis=-1), count, portable)
  chosen = jnp.sort(chosen, axis=-1)
  candidates = jnp.take_along_axis(blocks, chosen[..., None], axis=-2)
  best, index = top(candidates.reshape(*chosen.shape[:-1], -1), count, portable)
  return best, jnp.take_along_axis(chosen, index // block, axis=-1) * block + index % block


def top(x: jax.Array, count: int, portable: bool = False) -> tuple[jax.Array, jax.Array]:
  """`lax.top_k`; for count 1 by reductions, which need no communication between devices that share the rows.

  With `portable`, and always for a symbolic number of rows, it sorts instead, with the same result: TensorFlow 2.21
  cannot read the `lax.top_k` of jax 0.10.
  """
  if count > 1 and (portable or is_symbolic(*x.shape)):
    tokens = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    descending, tokens = lax.sort((-x, tokens), num_keys=1, is_stable=True)
    return -descending[..., :count], tokens[..., :count]
  if count > 1:
    return lax.top_k(x, count)
  return jnp.max(x, axis=-1, keepdims=True), jnp.argmax(x, axis=-1, keepdims=True).astype(jnp.int32)


def is_symbolic(*sizes: Any) -> bool:
  """Whether a size is symbolic, as when `jax.export` traces a program for any number of rows."""
  return not all(isinstance(size, int) for size in sizes)


def run_in_stages(
  extend: Callable[[Any, jax.Array, Any], Any], result: Callable[[Any], Any], cross: CrossCache, rows: Any,
  max_length: int,
) -> Any:  # fmt: skip
  """Extends rows until all are done or have max_length tokens, and returns their `result`; see `STAGES`.

  `rows` is a dataclass whose leaves have the rows as leading axis, with a field `done`, bool [rows]. `extend(cross,
  position, rows)` returns rows with one more token, and must not change rows that are done. The leaves of
  `result(rows)` have the rows as leading axis too.
  """
  count = rows.done.shape[0]
  index, position = jnp.arange(count), jnp.int32(0)
  results = result(rows)
  stages = () if is_symbolic(count) else STAGES  # the size of a stage must be known
  sizes = {size for stage in stages if FEWEST <= (size := math.ceil(count / stage)) < count}
  for fewer in [*sorted(sizes, reverse=True), 0]:

    def body(state, cross=cross):
      position, rows = state
      return position + 1, extend(cross, position, rows)

    def unfinished(state, fewer=fewer):
      return (state[0] < max_length) & (jnp.sum(~state[1].done) > fewer)

    position, rows = lax.while_loop(unfinished, body, (position, rows))
    results = jax.tree.map(
      lambda x, new, index=index: x.at[index].set(new, mode="drop"), results, result(rows)
    )
    if fewer:
      kept = jnp.nonzero(~rows.done, size=fewer, fill_value=count)[0]
      cross = cross.take(kept)
      there = kept < count
      rows, index = jax.tree.map(lambda x, kept=kept: jnp.take(x, kept, axis=0, mode="clip"), (rows, index))
      rows, index = rows.replace(done=rows.done | ~there), jnp.where(there, index, count)
  return results


class _Rows(struct.PyTreeNode):
  """Rows with one hypothesis each.

  Column 0 of `tokens` is the start token, so column `position` holds the token before that position.
  """

  tokens: jax.Array
  done: jax.Array
  scores: jax.Array
  keys: jax.Array
  cache: SelfCache


def _one_by_one(step, cross, cache, max_length, keys, choose):
  """A search with one hypothesis per row; `choose(logits [rows, V], position, keys) -> (logits, tokens) [rows]`."""

  def extend(cross, position, rows):
    before = lax.dynamic_slice_in_dim(rows.tokens, position, 1, axis=1)
    logits, cache = step(before, position, cross, rows.cache)
    logits = logits[:, 0]
    chosen, token = choose(logits, position, rows.keys)
    gained = jnp.where(rows.done, 0.0, chosen - jax.nn.logsumexp(logits, axis=-1))
    token = jnp.where(rows.done, PAD_ID, token)
    tokens = lax.dynamic_update_slice_in_dim(rows.tokens, token[:, None], position + 1, axis=1)
    done = rows.done | (token == EOS_ID)
    return rows.replace(tokens=tokens, done=done, scores=rows.scores + gained, cache=cache)

  count = keys.shape[0]
  tokens = jnp.full((count, max_length + 1), PAD_ID, jnp.int32)
  rows = _Rows(tokens, jnp.zeros(count, bool), jnp.zeros(count), keys, cache)
  return run_in_stages(extend, lambda rows: (rows.tokens[:, 1:], rows.scores), cross, rows, max_length)


@jax.tree_util.register_static
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Greedy:
  """Greedy search: the most likely token at each position. Scores are sums of log-probabilities."""

  beams = 1

  def run(self, step, cross, cache, max_length, keys):
    """See `Search.run`."""

    def choose(logits, position, keys):
      best, token = top_tokens(logits, 1)
      return best[:, 0], token[:, 0]

    return _one_by_one(step, cross, cache, max_length, keys, choose)


@jax.tree_util.register_pytree_node_class
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Sample:
  """Sampling: a random token at each position. One compiled program serves all temperatures.

  Scores are sums of log-probabilities under the model itself, before temperature, top-k and top-p.

  Attributes:
    temperature: logits are divided by it.
    top_k: sample from the k most likely tokens; 0: all.
    top_p: of those, sample from the fewest whose probabilities (after temperature and top_k) sum to p; 1: all.

  Raises:
    UsageError: a value is out of range.
  """

  temperature: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
  top_k: Annotated[int, Meta(ge=0, le=2**24)] = 0
  top_p: limits.Rate = 1.0
  beams = 1

  def __post_init__(self):
    limits.check(self)
    if not self.temperature:
      raise UsageError(f"Sample.temperature is {self.temperature}: it must be above 0 (use Greedy for 0)")
    if not self.top_p:
      raise UsageError(f"Sample.top_p is {self.top_p}: it must be above 0 and at most 1")
    object.__setattr__(self, "temperature", float(self.temperature))  # an int would compile another program

  def tree_flatten(self):
    """The temperature is the only leaf."""
    return (self.temperature,), (self.top_k, self.top_p)

  @classmethod
  def tree_unflatten(cls, fixed, leaves):
    """Skips the checks, because jax may put a tracer or another object in place of the temperature."""
    search = object.__new__(cls)
    vars(search).update(temperature=leaves[0], top_k=fixed[0], top_p=fixed[1])
    return search

  def run(self, step, cross, cache, max_length, keys):
    """See `Search.run`."""

    def choose(logits, position, keys):
      position_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, position)
      one = functools.partial(self.choose, portable=is_symbolic(logits.shape[0]))
      token = jax.vmap(one)(position_keys, logits).astype(jnp.int32)
      return jnp.take_along_axis(logits, token[:, None], axis=-1)[:, 0], token

    return _one_by_one(step, cross, cache, max_length, keys, choose)

  def choose(self, key: jax.Array, logits: jax.Array, portable: bool = False) -> jax.Array:
    """Draws one token from logits [V]; returns its id, an int32 scalar; for `portable` see `top`."""
    logits = logits / self.temperature
    if self.top_k == 0 and self.top_p == 1.0:
      return jax.random.categorical(key, logits)
    size = min(self.top_k or logits.size, logits.size)
    logits, tokens = top_tokens(logits, size, portable)
    if self.top_p < 1.0:
      probabilities = jax.nn.softmax(logits)
      before = jnp.cumsum(probabilities) - probabilities
      logits = jnp.where(before < self.top_p, logits, -jnp.inf)
    return tokens[jax.random.categorical(key, logits)]
