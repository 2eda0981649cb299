"""`Generator`: greedy, beam and sampled search against slow ones that decode again for every token."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from xmcap.errors import UsageError
from xmcap.models.caches import SelfCache
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Greedy, Sample

MAX_LENGTH = 7
FULL = pytest.mark.full


@pytest.fixture(scope="module")
def slow_log_probs(captioner, params, batch):
  """(picture, prompt number, tokens so far) -> log-probabilities of the next, with no cache."""
  forward = jax.jit(lambda *args: jax.nn.log_softmax(captioner.apply({"params": params}, *args)))

  @functools.cache
  def compute(picture, language, prefix):
    targets = np.zeros((1, 1, MAX_LENGTH), np.int32)
    targets[0, 0, : len(prefix)] = prefix
    prompt = batch["prompt_tokens"][picture : picture + 1, language : language + 1]
    return np.asarray(forward(batch["image"][picture : picture + 1], prompt, targets))[0, 0, len(prefix)]

  return compute


def _padded(tokens):
  return np.array(list(tokens) + [0] * (MAX_LENGTH - len(tokens)))


def _slow_greedy(log_probs):
  tokens, score = [], 0.0
  while len(tokens) < MAX_LENGTH and 1 not in tokens:
    step = log_probs(tuple(tokens))
    tokens.append(int(step.argmax()))
    score += step.max()
  return _padded(tokens), score


def _slow_beam(log_probs, beams, alpha):
  """T5's beam search in plain Python, run to max_length without any early end."""
  live, ended = [((), 0.0)], []
  for length in range(1, MAX_LENGTH + 1):
    grown = [
      (prefix + (token,), score + float(p))
      for prefix, score in live
      for token, p in enumerate(log_probs(prefix))
    ]
    grown = sorted(grown, key=lambda x: -x[1])[: 2 * beams]
    ended += [(t, s / ((5 + length) / 6) ** alpha) for t, s in grown if t[-1] == 1]
    ended = sorted(ended, key=lambda x: -x[1])[:beams]
    live = [x for x in grown if x[0][-1] != 1][:beams]
  if ended:
    return _padded(ended[0][0]), ended[0][1]
  return _padded(live[0][0]), live[0][1] / ((5 + MAX_LENGTH) / 6) ** alpha


def test_greedy_equals_a_search_without_cache(captioner, params, batch, slow_log_probs):
  tokens, scores = Generator(captioner, Greedy(), MAX_LENGTH)(params, batch["image"], batch["prompt_tokens"])
  for picture, language in np.ndindex(3, 4):
    expected, score = _slow_greedy(functools.partial(slow_log_probs, picture, language))
    np.testing.assert_array_equal(tokens[picture, language], expected)
    np.testing.assert_allclose(scores[picture, language], score, rtol=1e-4)


@pytest.mark.parametrize(
  "beams, alpha", [(3, 0.6), (4, 2.0), pytest.param(1, 0.6, marks=FULL), pytest.param(4, 0.0, marks=FULL)]
)
def test_beam_equals_a_search_without_cache(captioner, params, batch, slow_log_probs, beams, alpha):
  search = Beam(beams, alpha)
  tokens, scores = Generator(captioner, search, MAX_LENGTH)(params, batch["image"], batch["prompt_tokens"])
  for picture, language in np.ndindex(3, 4):
    expected, score = _slow_beam(functools.partial(slow_log_probs, picture, language), beams, alpha)
    np.testing.assert_allclose(scores[picture, language], score, rtol=1e-4)
    np.testing.assert_array_equal(tokens[picture, language], expected)


def test_greedy_and_beam_search_differ_on_this_model(captioner, params, batch):
  """Else the tests above would pass with a beam of one; and both early and late ends are among them."""
  greedy, beam = (
    np.asarray(Generator(captioner, search, MAX_LENGTH)(params, batch["image"], batch["prompt_tokens"])[0])
    for search in (Greedy(), Beam(3, 0.6))
  )
  assert (greedy != beam).any()
  lengths = (beam > 0).sum(-1)
  assert lengths.min() < lengths.max()


def test_prompts_of_all_pictures_equal_prompts_given_for_each(captioner, params, batch):
  generate = Generator(captioner, Greedy(), MAX_LENGTH)
  prompts = batch["prompt_tokens"][0]
  shared, _ = generate(params, batch["image"], prompts)
  given, _ = generate(params, batch["image"], np.stack([prompts] * 3))
  np.testing.assert_array_equal(shared, given)


def test_sample_temperature_does_not_recompile(captioner, params, batch):
  arguments = params, batch["image"], batch["prompt_tokens"]
  Generator(captioner, Sample(), MAX_LENGTH)(*arguments)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(Sample, "run", None)  # which only a new program traces
    hot, cold = (Generator(captioner, Sample(heat), MAX_LENGTH)(*arguments) for heat in (50, 0.01))
  greedy = Generator(captioner, Greedy(), MAX_LENGTH)(*arguments)
  assert np.array_equal(cold[0], greedy[0]) and not np.array_equal(hot[0], cold[0])
  # Scores are of the model itself, before the temperature.
  np.testing.assert_allclose(cold[1], greedy[1], rtol=1e-5)


@pytest.mark.parametrize("search", [Beam(3, 0.6), Sample(), pytest.param(Greedy(), marks=FULL)])
def test_generator_row_is_independent_of_its_batch(captioner, params, batch, search):
  generate = Generator(captioner, search, MAX_LENGTH)
  ids = np.array([10, 11, 12], np.int32)
  rng = jax.random.key(5)
  together, _ = generate(params, batch["image"], batch["prompt_tokens"], rng, ids)
  backwards, _ = generate(params, batch["image"][::-1], batch["prompt_tokens"][::-1, ::-1], rng, ids[::-1])
  np.testing.assert_array_equal(together, backwards[::-1, ::-1])


@pytest.mark.parametrize("search", [Beam(3, 0.6), pytest.param(Sample(1.5, top_k=9, top_p=0.9), marks=FULL)])
def test_generator_row_is_independent_of_the_size_of_its_batch(captioner, params, batch, search):
  generate = Generator(captioner, search, MAX_LENGTH)
  ids = np.array([10, 11, 12], np.int32)
  together, _ = generate(params, batch["image"], batch["prompt_tokens"], jax.random.key(5), ids)
  alone, _ = generate(params, batch["image"][2:], batch["prompt_tokens"][2:, 1:3], jax.random.key(5), ids[2:])
  np.testing.assert_array_equal(together[2:, 1:3], alone)


def test_a_sample_does_not_depend_on_the_padding_of_its_prompt(captioner, params, batch):
  generate = Generator(captioner, Sample(), MAX_LENGTH)
  prompts = batch["prompt_tokens"]
  wider = np.concatenate([prompts, np.zeros_like(prompts)], axis=-1)
  np.testing.assert_array_equal(
    generate(params, batch["image"], prompts)[0], generate(params, batch["image"], wider)[0]
  )


def test_samples_change_with_the_key_and_the_picture(captioner, params, batch):
  generate = Generator(captioner, Sample(), MAX_LENGTH)
  image = np.repeat(batch["image"][:1], 3, axis=0)
  first, _ = generate(params, image, batch["prompt_tokens"][0], jax.random.key(0))
  second, _ = generate(params, image, batch["prompt_tokens"][0], jax.random.key(1))
  assert (np.asarray(first) != np.asarray(second)).any()
  assert (np.asarray(first[0]) != np.asarray(first[1])).any()


@pytest.mark.parametrize(
  "search, expected",
  [
    (Sample(), [0.5, 0.3, 0.15, 0.05]),
    (Sample(top_k=1), [1, 0, 0, 0]),
    (Sample(top_k=2), [0.625, 0.375, 0, 0]),
    # 0.5 does not reach 0.6, 0.5 + 0.3 does.
    (Sample(top_p=0.6), [0.625, 0.375, 0, 0]),
    (Sample(temperature=0.5), np.square([0.5, 0.3, 0.15, 0.05]) / 0.365),
    (Sample(top_k=3, top_p=0.9), [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]),
  ],
)
def test_samples_follow_their_distribution(search, expected):
  logits = jnp.log(jnp.array([0.15, 0.5, 0.05, 0.3]))
  keys = jax.random.split(jax.random.key(0), 8000)
  drawn = np.asarray(jax.vmap(search.choose, (0, None))(keys, logits))
  shares = np.bincount(drawn, minlength=4)[[1, 3, 0, 2]] / 8000
  np.testing.assert_allclose(shares, expected, atol=4 * math.sqrt(0.25 / 8000))
  assert (shares[np.asarray(expected) == 0] == 0).all()


def test_beam_search_lets_an_ended_caption_be_overtaken():
  """One row: EOS at once has 0.4; token 2 has 0.6, and after it EOS 0.99: 0.594, found a step later."""
  table = np.full((4, 4), 0.0025)
  table[0], table[2] = [1e-9, 0.4, 0.6, 1e-9], [0.005, 0.99, 0.0025, 0.0025]

  def step(tokens, position, cross, cache):
    return jnp.log(jnp.asarray(table, jnp.float32))[tokens], cache

  empty = SelfCache((), ())
  tokens, scores = Beam(2, 0.0).run(step, None, empty, 6, jnp.zeros(1))
  np.testing.assert_array_equal(tokens[0], [2, 1, 0, 0, 0, 0])
  np.testing.assert_allclose(scores[0], np.log(0.6 * 0.99), rtol=1e-4)


@pytest.mark.parametrize(("search", "most"), [(Greedy(), 1), (Beam(3), 4)])
def test_decoding_stops_when_every_row_has_ended(search, most):
  """A model that says EOS at once; the beam goes on until its list of ended ones is full or cannot be beaten."""
  steps = []

  def step(tokens, position, cross, cache):
    jax.debug.callback(lambda _: steps.append(1), position)
    return jnp.zeros((*tokens.shape, 8)).at[..., 1].set(1e3), cache

  tokens, _ = search.run(step, None, SelfCache((), ()), 50, jnp.zeros(12))
  jax.effects_barrier()
  assert len(steps) <= most
  assert (np.asarray(tokens)[..., 0] == 1).all() and not np.asarray(tokens)[..., 1:].any()


@struct.dataclass
class _Lengths:
  """In place of what the encoder made of a row: the row's number and how long its caption is to be."""

  row: jax.Array
  length: jax.Array

  def take(self, rows):
    return jax.tree.map(lambda x: jnp.take(x, rows, mode="clip"), self)


def test_decoding_drops_ended_rows():
  """640 rows of 2 tokens, but for one of 30: 2 steps of 640 rows, then 28 of 40 (a sixteenth)."""
  steps = []

  def step(tokens, position, cross, cache):
    jax.debug.callback(lambda _: steps.append(len(tokens)), position)
    # Each row says 2 + its number until its end; the cache counts its steps, so that mixed rows would be seen.
    token = jnp.where(position + 1 < cross.length, 2 + cross.row % 40, 1)
    cache = jax.tree.map(lambda x: x + 1, cache)
    return jnp.where(jnp.all(cache.keys[0] == position + 1), jax.nn.one_hot(token, 50)[:, None], 0.0), cache

  lengths = np.full(640, 2)
  lengths[17] = 30
  cache = SelfCache((jnp.zeros(640, int),), ())
  rows = _Lengths(jnp.arange(640), jnp.asarray(lengths))
  tokens, scores = jax.jit(lambda rows, cache: Greedy().run(step, rows, cache, 32, jnp.zeros(640)))(
    rows, cache
  )
  jax.effects_barrier()
  expected = np.zeros((640, 32), int)
  expected[:, :2] = np.stack([2 + np.arange(640) % 40, np.ones(640)], axis=1)
  expected[17, :30] = [19] * 29 + [1]
  np.testing.assert_array_equal(tokens, expected)
  np.testing.assert_allclose(scores, lengths * (1 - np.log(np.e + 49)), rtol=1e-5)
  assert sorted(steps) == [40] * 28 + [640] * 2


@pytest.mark.parametrize("length", [1, 5])
def test_captions_without_eos_are_cut_at_max_length(length):
  """Rows beyond a stage's room keep what they had: here none ends, so none may be dropped."""

  def step(tokens, position, cross, cache):
    return jax.nn.one_hot(2 + cross.row, 50)[:, None], cache

  rows = _Lengths(jnp.arange(40), jnp.zeros(40))
  tokens, _ = Greedy().run(step, rows, SelfCache((), ()), length, jnp.zeros(40))
  np.testing.assert_array_equal(tokens, np.repeat(2 + np.arange(40)[:, None], length, axis=1))


@pytest.mark.parametrize(
  "make, message",
  [
    (lambda: Sample(temperature=0), "temperature"),
    (lambda: Sample(top_p=0), "top_p"),
    (lambda: Sample(top_k=-1), "top_k"),
    (lambda: Beam(0), "beams"),
    (lambda: Beam(2, -1.0), "length_penalty"),
    (lambda: Generator(None, max_length=0), "max_length"),
  ],
)
def test_invalid_search_settings_are_refused(make, message):
  with pytest.raises(UsageError, match=message):
    make()


def test_generator_refuses_mismatched_images_and_prompts(captioner, params, batch):
  generate = Generator(captioner, Greedy(), MAX_LENGTH)
  with pytest.raises(UsageError, match="do not match 1 pictures"):
    generate(params, batch["image"][:1], batch["prompt_tokens"])
  with pytest.raises(UsageError, match="no pictures"):
    generate(params, batch["image"][:0], batch["prompt_tokens"][0])
