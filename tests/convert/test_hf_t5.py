"""mT5 from and to Hugging Face folders: logits of transformers 5.23.0 with torch 2.13.0; out and back bit-equal."""

import functools
import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.convert.conftest import T5_SIZES, config_of, edit_json, params_of, same_trees, write_mt5
from tests.make import models
from xmcap.convert import hf_t5
from xmcap.models import model_json, stacking
from xmcap.models.captioner import shift_right
from xmcap.models.t5 import Decoder, Encoder, T5Config, TokenEmbedder

RNG = np.random.RandomState(0)
INPUTS, TARGETS = RNG.randint(2, 37, (2, 40)), RNG.randint(2, 37, (2, 30))
MASK = np.arange(40) < np.array([[40], [25]])


def our_logits(folder):
  return _logits(config_of(folder, T5Config), stacking.stack(params_of(folder)))


@functools.partial(jax.jit, static_argnums=0)
def _logits(config, params):
  embed = lambda tokens: TokenEmbedder(config).apply({"params": params["token_embedder"]}, tokens)  # noqa: E731
  encoded = Encoder(config).apply({"params": params["encoder"]}, embed(INPUTS), MASK)
  decoder, variables = Decoder(config), {"params": params["decoder"]}
  return decoder.apply(
    variables, decoder.apply(variables, embed(shift_right(TARGETS)), encoded, MASK), method="logits"
  )


def their_logits(folder, kind="MT5"):
  import torch
  import transformers

  model = getattr(transformers, f"{kind}ForConditionalGeneration")
  model = model.from_pretrained(folder, dtype=torch.float32).eval()
  with torch.no_grad():
    return model(
      input_ids=torch.tensor(INPUTS), attention_mask=torch.tensor(MASK).long(),
      decoder_input_ids=torch.tensor(np.array(shift_right(TARGETS))),
    ).logits.numpy()  # fmt: skip


@pytest.mark.parametrize(
  "sizes",
  [
    pytest.param({}, marks=pytest.mark.full),
    {"num_heads": 4, "d_kv": 8, "d_ff": 44, "num_layers": 1, "num_decoder_layers": 1},
    {"relative_attention_num_buckets": 16, "relative_attention_max_distance": 20, "num_decoder_layers": None},
    {"tied": True},
  ],
)
def test_mt5_logits_equal_transformers(tmp_path, convert, sizes):
  source = write_mt5(tmp_path / "mt5", **sizes)
  np.testing.assert_allclose(our_logits(convert(source)), their_logits(source), rtol=0, atol=1e-4)


def test_mt5_sharded_safetensors_give_the_same_weights(tmp_path, convert):
  transformers = pytest.importorskip("transformers")
  source = write_mt5(tmp_path / "mt5")
  model = transformers.MT5ForConditionalGeneration.from_pretrained(source)
  model.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
  assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 2
  same_trees(params_of(convert(tmp_path / "shards")), params_of(convert(source)))


def test_mt5_bfloat16_weights_stay_bfloat16(tmp_path, convert):
  torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
  model = transformers.MT5ForConditionalGeneration.from_pretrained(write_mt5(tmp_path / "mt5"))
  model.to(torch.bfloat16).save_pretrained(tmp_path / "bf16")
  out = convert(tmp_path / "bf16")
  assert {str(x.dtype) for x in load_file(out / "params.safetensors").values()} == {"bfloat16"}
  np.testing.assert_allclose(our_logits(out), their_logits(tmp_path / "bf16"), rtol=0, atol=1e-4)


def test_t5_1_1_equals_mt5(tmp_path, convert):
  source = write_mt5(tmp_path / "mt5")
  expected = params_of(convert(source))
  edit_json(source / "config.json", architectures=["T5ForConditionalGeneration"], model_type="t5")
  same_trees(params_of(convert(source)), expected)


@models.once
def write_t5(folder, embeddings=("shared",), head=True, **config):
  """A T5 of T5Config with chosen copies of its embedding and fields of config.json, as files of several years have."""
  from safetensors.numpy import save_file

  torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
  sizes = T5_SIZES | {name: value for name, value in config.items() if name == "feed_forward_proj"}
  torch.manual_seed(0)
  model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))
  for name, p in model.named_parameters():
    p.data = torch.randn_like(p) * 0.2 + (1.0 if "norm" in name else 0.0)
  model.save_pretrained(folder)
  tensors = load_file(folder / "model.safetensors")
  shared = tensors.pop("shared.weight")
  tensors |= {f"{name}.weight": shared.copy() for name in embeddings}
  if head:
    tensors["lm_head.weight"] = np.random.RandomState(1).standard_normal(shared.shape).astype(np.float32)
  save_file(tensors, folder / "model.safetensors", {"format": "pt"})
  given = json.loads((folder / "config.json").read_text())
  for name in ("scale_decoder_outputs", "tie_word_embeddings"):
    given.pop(name, None)
  (folder / "config.json").write_text(json.dumps(given | config))
  return folder


@pytest.mark.parametrize(
  "variant",
  [
    {},  # files without the field are of the first T5, which scales
    {"head": False},
    {"tie_word_embeddings": True, "scale_decoder_outputs": False, "head": False},
    {"tie_word_embeddings": False, "feed_forward_proj": "gated-silu"},
    {"feed_forward_proj": "relu", "head": False},
    {"tie_word_embeddings": False, "embeddings": ("decoder.embed_tokens",)},  # madlad400
    *(
      pytest.param(variant, marks=pytest.mark.full)
      for variant in (
        {"tie_word_embeddings": True},
        {"tie_word_embeddings": False},
        {"tie_word_embeddings": True, "scale_decoder_outputs": False},
        {"tie_word_embeddings": False, "embeddings": ("encoder.embed_tokens", "decoder.embed_tokens")},
      )
    ),
  ],
  ids=str,
)
def test_t5_variant_logits_equal_transformers(tmp_path, convert, variant):
  source = write_t5(tmp_path / "t5", **variant)
  wanted = source
  if "embeddings" in variant:
    # This transformers begins madlad400's embedding anew (its issue 48154); with the usual name it reads it.
    wanted = write_t5(tmp_path / "usual", **{k: v for k, v in variant.items() if k != "embeddings"})
  np.testing.assert_allclose(our_logits(convert(source)), their_logits(wanted, "T5"), rtol=0, atol=1e-4)


def test_t5_logits_scale_survives_the_round_trip(tmp_path, convert):
  source = write_t5(tmp_path / "t5", head=False, feed_forward_proj="relu")
  theirs = convert(convert(source), "--to=hf", "--part=t5")
  assert "the logits' factor d_model**-0.5" not in convert.printed
  np.testing.assert_allclose(their_logits(theirs), their_logits(source, "T5"), rtol=0, atol=1e-5)


def test_t5_untied_without_lm_head_is_refused(tmp_path, convert):
  source = write_t5(tmp_path / "t5", head=False, tie_word_embeddings=False)
  assert "no tensor lm_head.weight: config.json says that the logits are not tied" in convert(source, code=2)


def test_mt5_round_trip_is_bit_equal(tmp_path, convert):
  source = write_mt5(tmp_path / "mt5")
  ours = convert(source)
  theirs = convert(ours, "--to=hf", "--part=t5")
  before, after = load_file(source / "model.safetensors"), load_file(theirs / "model.safetensors")
  assert sorted(before) == sorted(after)
  same_trees(before, after)
  back = convert(theirs)
  assert (back / "params.safetensors").read_bytes() == (ours / "params.safetensors").read_bytes()
  assert (back / "model.json").read_text() == (ours / "model.json").read_text()


@pytest.mark.parametrize("tied", [pytest.param(False, marks=pytest.mark.full), True])
def test_mt5_to_hf_loads_in_transformers_without_missing_keys(tmp_path, convert, tied):
  transformers = pytest.importorskip("transformers")
  source = write_mt5(tmp_path / "mt5", tied=tied)
  theirs = convert(convert(source), "--to=hf")
  _, info = transformers.MT5ForConditionalGeneration.from_pretrained(theirs, output_loading_info=True)
  assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
  np.testing.assert_array_equal(their_logits(theirs), their_logits(source))


def test_mt5_embedding_copies_must_be_equal(tmp_path, convert):
  from safetensors.numpy import save_file

  source = write_mt5(tmp_path / "mt5")
  tensors = load_file(source / "model.safetensors")
  tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"].copy()
  save_file(tensors, source / "model.safetensors")
  convert(source)
  assert "not taken: encoder.embed_tokens.weight: the shared embedding once more" in convert.printed
  tensors["encoder.embed_tokens.weight"][3, 4] += 1
  save_file(tensors, source / "model.safetensors")
  assert "encoder.embed_tokens.weight differs from shared.weight" in convert(source, code=2)


@pytest.mark.parametrize("model_type", ["mt5", "t5"])
def test_t5_config_defaults_equal_transformers(model_type):
  transformers = pytest.importorskip("transformers")
  config = {"mt5": transformers.MT5Config, "t5": transformers.T5Config}[model_type]()
  defaults = {k: v for k, v in hf_t5.DEFAULTS[model_type].items() if v is not None}
  assert {name: getattr(config, name) for name in defaults} == defaults


@pytest.mark.parametrize(
  "change, message",
  [
    ({"feed_forward_proj": "relu6"}, "feed_forward_proj is 'relu6'"),
    ({"feed_forward_proj": "relu"}, "not those of feed_forward_proj 'relu'"),
    ({"tie_word_embeddings": True, "transformers_version": "4.36.2"}, "true of transformers 4.36.2, which scales"),
    ({"dense_act_fn": "silu"}, "dense_act_fn 'silu', is_gated_act"),
    ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon is 1e-05"),
    ({"architectures": ["MT5EncoderModel"]}, "MT5EncoderModel is not among what xmcap converts"),
    ({"model_type": "umt5", "architectures": ["UMT5ForConditionalGeneration"]}, "UMT5ForConditionalGeneration is not"),
    ({"d_model": "wide"}, "d_model is 'wide': give int, got str"),
    ({"num_layers": 3}, "encoder.block.2.layer.0.SelfAttention.k.weight, which config.json asks for with shape"),
    ({"num_layers": 1}, "tensor encoder.block.1.layer.0.SelfAttention.k.weight (24, 16) has no place"),
    ({"d_ff": 24}, "DenseReluDense.wi_0.weight has shape (20, 16), and config.json asks for (24, 16)"),
  ],
)  # fmt: skip
def test_t5_unsupported_variants_and_sizes_are_refused(tmp_path, convert, change, message):
  source = write_mt5(tmp_path / "mt5")
  edit_json(source / "config.json", **change)
  assert message in convert(source, code=2)


def test_mt5_model_json_after_a_gin_model_file(tmp_path, convert):
  from xmcap import configuration
  from xmcap.evaluation import model_dir

  out = convert(write_mt5(tmp_path / "mt5"))
  bind = functools.partial(model_dir.bind, model_json.read(out / "model.json"))
  configuration.parse(["models/bb.gin", bind])
  config = T5Config()
  assert (config.vocab_size, config.num_decoder_layers, config.mlp_dim, config.dropout_rate) == (
    37,
    3,
    20,
    0.1,
  )


def test_mt5_to_hf_config_json_has_its_sizes(tmp_path, convert):
  theirs = convert(convert(write_mt5(tmp_path / "mt5")), "--to=hf")
  written = json.loads((theirs / "config.json").read_text())
  assert (written["d_kv"], written["num_decoder_layers"], written["tie_word_embeddings"]) == (12, 3, False)
  assert json.loads((theirs / "generation_config.json").read_text())["decoder_start_token_id"] == 0
