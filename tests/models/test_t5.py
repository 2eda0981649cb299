"""The T5 stacks: logits equal to transformers' MT5ForConditionalGeneration; buckets equal to its buckets."""

import copy

import jax
import numpy as np
import pytest

from xmcap.errors import UsageError
from xmcap.models import stacking
from xmcap.models.captioner import shift_right
from xmcap.models.relative_positions import relative_position_buckets
from xmcap.models.t5 import Decoder, Encoder, T5Config, TokenEmbedder

CONFIG = T5Config(37, 16, 2, 12, 2, 3, 20, dtype="float32")


@pytest.fixture(scope="module")
def mt5():
  """A tiny mT5 of transformers 5.23.0 with torch 2.13.0, random weights, and its modeling module."""
  torch = pytest.importorskip("torch")
  transformers = pytest.importorskip("transformers")
  torch.manual_seed(0)
  model = transformers.MT5ForConditionalGeneration(
    transformers.MT5Config(
      vocab_size=37, d_model=16, d_kv=12, d_ff=20, num_layers=2, num_decoder_layers=3, num_heads=2,
      dropout_rate=0.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )
  ).eval()  # fmt: skip
  for p in model.parameters():
    p.data += 0.3 * torch.randn_like(p)
  return model


def _params(mt5):
  w = {k: v.detach().numpy() for k, v in mt5.state_dict().items()}
  kernel = lambda name: {"kernel": w[name + ".weight"].T}  # noqa: E731
  scale = lambda name: {"scale": w[name + ".weight"]}  # noqa: E731

  def attention(prefix):
    names = {"query": "q", "key": "k", "value": "v", "out": "o"}
    return {ours: kernel(f"{prefix}.{theirs}") for ours, theirs in names.items()}

  def mlp(prefix):
    return {name: kernel(f"{prefix}.DenseReluDense.{name}") for name in ("wi_0", "wi_1", "wo")}

  tables = {}
  for stack, layers in (("encoder", 2), ("decoder", 3)):
    first = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    tables[stack] = {
      "relpos_bias": {"rel_embedding": w[first].T},
      f"{stack}_norm": scale(f"{stack}.final_layer_norm"),
    }
    for i in range(layers):
      block = f"{stack}.block.{i}.layer"
      if stack == "encoder":
        layer = {
          "pre_attention_layer_norm": scale(f"{block}.0.layer_norm"),
          "attention": attention(f"{block}.0.SelfAttention"),
          "pre_mlp_layer_norm": scale(f"{block}.1.layer_norm"),
          "mlp": mlp(f"{block}.1"),
        }
      else:
        layer = {
          "pre_self_attention_layer_norm": scale(f"{block}.0.layer_norm"),
          "self_attention": attention(f"{block}.0.SelfAttention"),
          "pre_cross_attention_layer_norm": scale(f"{block}.1.layer_norm"),
          "encoder_decoder_attention": attention(f"{block}.1.EncDecAttention"),
          "pre_mlp_layer_norm": scale(f"{block}.2.layer_norm"),
          "mlp": mlp(f"{block}.2"),
        }
      tables[stack][f"layers_{i}"] = layer
  tables["decoder"]["logits_dense"] = kernel("lm_head")
  return stacking.stack({"token_embedder": {"embedding": w["shared.weight"]}, **tables})


def test_t5_logits_equal_transformers(mt5):
  import torch

  rng = np.random.RandomState(0)
  # Long enough to meet the logarithmic buckets of both stacks.
  inputs, targets = rng.randint(2, 37, (2, 40)), rng.randint(2, 37, (2, 50))
  mask = np.arange(40) < np.array([[40], [25]])
  params = _params(mt5)

  @jax.jit
  def logits(inputs, targets):
    embed = lambda tokens: TokenEmbedder(CONFIG).apply({"params": params["token_embedder"]}, tokens)  # noqa: E731
    encoded = Encoder(CONFIG).apply({"params": params["encoder"]}, embed(inputs), mask)
    decoder, variables = Decoder(CONFIG), {"params": params["decoder"]}
    hidden = decoder.apply(variables, embed(shift_right(targets)), encoded, mask)
    return decoder.apply(variables, hidden, method="logits")

  actual = logits(inputs, targets)
  with torch.no_grad():
    # In float64: with these weights torch's own float32 is 1.7e-4 away from it, ours 1.1e-4.
    expected = copy.deepcopy(mt5).double()(
      input_ids=torch.tensor(inputs), attention_mask=torch.tensor(mask).long(),
      decoder_input_ids=torch.tensor(np.array(shift_right(targets))),
    ).logits.numpy()  # fmt: skip
  # A norm's epsilon of 1e-5, the least of the slips tried, is 3.3e-3 away.
  np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


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


def test_t5_decoding_with_cache_equals_all_positions_at_once(mt5):
  params = _params(mt5)
  rng = np.random.RandomState(0)
  embedded = rng.standard_normal((2, 6, 16)).astype(np.float32)
  encoded = rng.standard_normal((2, 5, 16)).astype(np.float32)
  mask = np.arange(5) < np.array([[5], [3]])
  expected = jax.jit(Decoder(CONFIG).apply)({"params": params["decoder"]}, embedded, encoded, mask)
  decoder, variables = Decoder(CONFIG, stepwise=True), {"params": stacking.unstack(params["decoder"])}
  cross, cache = jax.jit(lambda of, mask: decoder.apply(variables, of, mask, 8, 1, method="start"))(
    encoded, mask
  )
  step = jax.jit(lambda x, i, cache: decoder.apply(variables, x, i, cross, cache, method="step"))
  for position in range(6):
    hidden, cache = step(embedded[:, position : position + 1], position, cache)
    np.testing.assert_allclose(hidden[:, 0], expected[:, position], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["vocab_size", "num_decoder_layers", "head_dim"])
def test_t5_config_refuses_sizes_below_1(name):
  sizes = dict(
    vocab_size=8, emb_dim=8, num_heads=2, head_dim=4, num_encoder_layers=1, num_decoder_layers=1, mlp_dim=8
  )
  with pytest.raises(UsageError, match=f"T5Config.{name} is 0"):
    T5Config(**sizes | {name: 0})
