"""The compiled program of decoding: what it holds in memory, what it computes, and that it is compiled once."""

import math
import re

import jax
import numpy as np
import pytest

from tests import drawn_params
from xmcap.errors import UsageError
from xmcap.models.captioner import Captioner
from xmcap.models.decoding import search
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.generator import Generator, generate
from xmcap.models.decoding.search import Greedy, Sample
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

VOCABULARY, WIDTH, PICTURES, LANGUAGES = 1031, 24, 12, 4


@pytest.fixture(scope="module")
def model():
  """A captioner whose vocabulary is a prime that no other size is, its parameters, pictures and prompts."""
  rng = np.random.RandomState(0)
  captioner = Captioner(
    ViTConfig(16, 1, 24, 2, 4, 8, dtype="float32"),
    T5Config(VOCABULARY, WIDTH, 2, 20, 1, 2, 28, dtype="float32"),
  )
  image = rng.randint(0, 256, (PICTURES, 8, 8, 3)).astype(np.uint8)
  prompts = rng.randint(2, VOCABULARY, (LANGUAGES, 3)).astype(np.int32)
  inputs = image[:1], prompts[None], np.ones((1, LANGUAGES, 2), np.int32)
  return captioner, drawn_params.of(captioner.init, *inputs, scale=0.1), image, prompts


def _lowered(model, searching, max_length, cache_dtype="auto"):
  captioner, params, image, prompts = model
  prompts = np.broadcast_to(prompts, (PICTURES, *prompts.shape))
  generator = Generator(captioner, searching, max_length, cache_dtype=cache_dtype)
  return generate.lower(*generator.static, params, image, prompts, jax.random.key(0), np.arange(PICTURES))


@pytest.mark.parametrize("searching", [Greedy(), Beam(4), pytest.param(Sample(), marks=pytest.mark.full)])
def test_logits_are_computed_for_one_position_of_a_row(model, searching):
  """No array holds the vocabulary for more than the hypotheses of one position: 48 rows times the beams."""
  text = _lowered(model, searching, 13).compile().as_text()
  shapes = {tuple(map(int, dims.split(","))) for dims in re.findall(r"\w+\[([\d,]+)\]", text)}
  others = {tuple(x for x in shape if x != VOCABULARY) for shape in shapes if VOCABULARY in shape}
  hypotheses = PICTURES * LANGUAGES * searching.beams
  assert (WIDTH,) in others
  assert max(int(np.prod(x)) for x in others) == hypotheses


def test_a_cache_in_bfloat16_takes_half_of_the_memory(model):
  """By the types of what the search carries from token to token: all keys and values, and nothing beside them."""
  long = 600

  def bytes_of_cache(dtype):
    text = _lowered(model, Beam(2), long, dtype).as_text()
    heads = (loop.split("cond {")[0] for loop in text.split("stablehlo.while")[1:])
    found = max((re.findall(rf"tensor<((?:\d+x)+2x{long}x20)x(f32|bf16)>", head) for head in heads), key=len)
    return sum(math.prod(map(int, dims.split("x"))) * {"f32": 4, "bf16": 2}[kind] for dims, kind in found)

  # Keys and values of 2 layers of 2 heads of 20 for 96 hypotheses, named once or more in the head of the loop.
  full, half = bytes_of_cache("float32"), bytes_of_cache("bfloat16")
  assert full == 2 * half and full % (2 * 2 * 2 * 20 * 96 * long * 4) == 0 and full


@pytest.mark.parametrize("searching", [Beam(4), pytest.param(Greedy(), marks=pytest.mark.full)])
def test_a_cache_in_bfloat16_gives_nearly_the_same_captions(model, searching):
  captioner, params, image, prompts = model
  full, half = (
    Generator(captioner, searching, 8, cache_dtype=dtype)(params, image, prompts)
    for dtype in ("float32", "bfloat16")
  )
  same = (np.asarray(full[0]) == np.asarray(half[0])).all(-1)
  assert same.mean() > 0.8
  # Rounded to 8 bits, the keys and values move the scores a little, but they do move them.
  difference = np.abs(np.asarray(full[1]) - np.asarray(half[1]))[same]
  assert 0 < difference.max() < 0.1


def test_the_cache_has_the_activations_dtype_unless_told(model):
  captioner, *_ = model
  assert Generator(captioner).cache_dtype is None
  with pytest.raises(UsageError, match="unknown dtype 'half'"):
    Generator(captioner, cache_dtype="half")


def test_nothing_is_compiled_after_the_first_batch(model):
  """Languages in another order run what the first batch has compiled."""
  captioner, params, image, prompts = model
  compiled = []
  jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: compiled.append(event) if "backend_compile" in event else None
  )
  generate = Generator(captioner, Greedy(), 6)
  first = generate(params, image, prompts)
  assert compiled
  del compiled[:]
  again = generate(params, image, prompts[::-1])
  assert not compiled
  np.testing.assert_array_equal(np.asarray(first[0])[:, ::-1], again[0])


@pytest.mark.parametrize(
  "vocabulary, count", [(2112, 8), (8192, 8), (8192, 1), (1031, 8), (1031, 1), (512, 8)]
)
def test_top_tokens_equal_top_k(vocabulary, count):
  """Also where logits are tied, within a block and across blocks."""
  rng = np.random.RandomState(0)
  logits = rng.randint(0, 40, (5, 3, vocabulary)).astype(np.float32)
  logits[0] += rng.standard_normal((3, vocabulary))
  logits[1] = 0
  actual = jax.jit(search.top_tokens, static_argnums=1)(logits, count)
  for found, expected in zip(actual, jax.lax.top_k(logits, count), strict=True):
    np.testing.assert_array_equal(found, expected)
