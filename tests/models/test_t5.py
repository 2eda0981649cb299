"""The T5 stacks: buckets of positions, and the cache. tests/convert/test_hf_t5.py has transformers' logits."""

import jax
import numpy as np
import pytest

from tests import drawn_params
from xmcap.models import stacking
from xmcap.models.relative_positions import relative_position_buckets
from xmcap.models.t5 import Decoder, T5Config

CONFIG = T5Config(37, 16, 2, 12, 2, 3, 20, dtype="float32")


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_position_buckets_equal_transformers(bidirectional):
  torch = pytest.importorskip("torch")
  modeling = pytest.importorskip("transformers.models.mt5.modeling_mt5")
  size = 300
  relative = torch.arange(size)[None, :] - torch.arange(size)[:, None]
  expected = modeling.MT5Attention._relative_position_bucket(relative, bidirectional, 32, 128)
  np.testing.assert_array_equal(relative_position_buckets(size, size, bidirectional), expected.numpy())


def test_buckets_are_exact_then_logarithmic():
  """By hand from the formula: 8 + floor(log(d / 8) / log(128 / 8) * 8) for one direction of the encoder."""
  row = relative_position_buckets(200, 200, bidirectional=True)[:, 0]
  assert [row[d] for d in (0, 1, 7, 8, 11, 12, 15, 16, 31, 32, 63, 64, 127, 199)] == [
    0, 1, 7, 8, 8, 9, 9, 10, 11, 12, 13, 14, 15, 15,
  ]  # fmt: skip
  assert relative_position_buckets(1, 3, bidirectional=True)[0].tolist() == [0, 17, 18]
  assert relative_position_buckets(1, 3, bidirectional=False)[0].tolist() == [0, 0, 0]


def test_t5_decoding_with_cache_equals_all_positions_at_once():
  rng = np.random.RandomState(0)
  embedded = rng.standard_normal((2, 6, 16)).astype(np.float32)
  encoded = rng.standard_normal((2, 5, 16)).astype(np.float32)
  mask = np.arange(5) < np.array([[5], [3]])
  params = drawn_params.of(Decoder(CONFIG).init, embedded, encoded, mask)
  expected = jax.jit(Decoder(CONFIG).apply)({"params": params}, embedded, encoded, mask)
  decoder, variables = Decoder(CONFIG, stepwise=True), {"params": stacking.unstack(params)}
  cross, cache = jax.jit(lambda of, mask: decoder.apply(variables, of, mask, 8, 1, method="start"))(
    encoded, mask
  )
  step = jax.jit(lambda x, i, cache: decoder.apply(variables, x, i, cross, cache, method="step"))
  for position in range(6):
    hidden, cache = step(embedded[:, position : position + 1], position, cache)
    np.testing.assert_allclose(hidden[:, 0], expected[:, position], rtol=1e-4, atol=1e-4)
