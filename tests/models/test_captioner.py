"""The captioner: K captions of a picture, masks, names and axes, sizes."""

import dataclasses

import jax
import numpy as np
import pytest
from flax import traverse_util
from flax.linen import partitioning

from xmcap.models.captioner import Captioner, shift_right
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig


def _arguments(batch):
  return batch["image"], batch["prompt_tokens"], batch["target_tokens"]


def _loss(logits, image, prompt, targets):
  log_probs = jax.nn.log_softmax(logits(image, prompt, targets))
  chosen = np.take_along_axis(np.asarray(log_probs), targets[..., None], axis=-1)[..., 0]
  return -(chosen * (targets > 0)).sum()


def test_loss_of_four_captions_equals_loss_of_four_images(logits, batch):
  image, prompt, targets = _arguments(batch)
  shared = _loss(logits, image, prompt, targets)
  split = _loss(logits, np.repeat(image, 4, axis=0), prompt.reshape(12, 1, 2), targets.reshape(12, 1, 7))
  np.testing.assert_allclose(shared, split, rtol=1e-5)


def test_captioner_ignores_prompt_padding(logits, batch):
  image, prompt, targets = _arguments(batch)
  wider = np.concatenate([prompt, np.zeros((3, 4, 3), np.int32)], axis=-1)
  a = logits(image, prompt, targets)
  b = logits(image, wider, targets)
  np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_captioner_decoder_is_causal(logits, batch):
  image, prompt, targets = _arguments(batch)
  changed = targets.copy()
  changed[..., 3] = (changed[..., 3] + 5) % 23
  a = np.asarray(logits(image, prompt, targets))
  b = np.asarray(logits(image, prompt, changed))
  np.testing.assert_allclose(a[..., :4, :], b[..., :4, :], rtol=1e-5, atol=1e-5)
  assert np.abs(a[..., 4, :] - b[..., 4, :]).max() > 1e-3


def test_logits_depend_on_image_and_prompt(logits, batch):
  image, prompt, targets = _arguments(batch)
  a = np.asarray(logits(image, prompt, targets))
  for other in ((255 - image, prompt, targets), (image, (prompt % 20) + 2, targets)):
    assert np.abs(a - np.asarray(logits(*other))).max() > 1e-3


def test_targets_shift_right_behind_the_start_token():
  np.testing.assert_array_equal(shift_right(np.array([[5, 6, 1, 0]])), [[0, 5, 6, 1]])


@pytest.mark.parametrize("pool, tokens", [("gap", 1), ("map", 1), ("tok", 1), ("none", 9)])
def test_each_pool_puts_its_vectors_before_the_prompt(vit_config, t5_config, batch, pool, tokens):
  config = dataclasses.replace(vit_config, pool=pool)
  model = Captioner(config, t5_config)
  variables = jax.eval_shape(model.init, jax.random.key(0), *_arguments(batch))
  features = jax.eval_shape(lambda v, x: model.apply(v, x, method="encode_image"), variables, batch["image"])
  assert features.shape == (3, tokens, 12) and config.num_tokens == tokens
  encode = lambda v, *x: model.apply(v, *x, method="encode")  # noqa: E731
  encoded, _ = jax.eval_shape(encode, variables, features, batch["prompt_tokens"])
  assert encoded.shape == (3, 4, tokens + 2, 12)
  variables, features = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), (variables, features))
  mask = jax.jit(lambda *x: encode(*x)[1])(variables, features, batch["prompt_tokens"])
  assert mask[:, :, :tokens].all() and not mask[:, 1, -1].any()


# By default `test_stacking.py` trains with it, in scanned layers.
@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("remat", ["dots", "full"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_remat_changes_no_value_and_no_parameter_name(captioner, params, batch, deterministic, remat):
  model = Captioner(
    dataclasses.replace(captioner.vit, remat=remat), dataclasses.replace(captioner.t5, remat=remat)
  )
  run = lambda m: jax.jit(jax.grad(  # noqa: E731
    lambda p: (
      m.apply({"params": p}, *_arguments(batch), deterministic, rngs={"dropout": jax.random.key(1)}) ** 2
    ).mean()
  ))(params)  # fmt: skip
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), run(captioner), run(model)
  )


def test_dropout_follows_its_key(captioner, params, logits, batch):
  model = Captioner(
    dataclasses.replace(captioner.vit, dropout_rate=0.2), dataclasses.replace(captioner.t5, dropout_rate=0.2)
  )
  run = jax.jit(
    lambda seed: model.apply(
      {"params": params}, *_arguments(batch), False, rngs={"dropout": jax.random.key(seed)}
    )
  )
  first, again, other = (np.asarray(run(seed)) for seed in (1, 1, 2))
  np.testing.assert_array_equal(first, again)
  assert (first != other).any()
  assert not np.allclose(first, logits(*_arguments(batch)), rtol=1e-3, atol=1e-3)


def test_bfloat16_keeps_parameters_and_logits_in_float32(vit_config, t5_config, batch):
  model = Captioner(
    dataclasses.replace(vit_config, dtype="bfloat16"), dataclasses.replace(t5_config, dtype="bfloat16")
  )
  variables = jax.eval_shape(model.init, jax.random.key(0), *_arguments(batch))
  assert {str(x.dtype) for x in jax.tree.leaves(variables["params"])} == {"float32"}
  run = lambda *inputs, **options: jax.eval_shape(lambda v: model.apply(v, *inputs, **options), variables)  # noqa: E731
  assert run(batch["image"], method="encode_image").dtype == "bfloat16"
  assert run(*_arguments(batch)).dtype == "float32"


def _t5x_names():
  """t5x's names and axes with `scan_layers`, written from its `examples/t5/network`; the head's axes are ours."""
  kernels = {"query": ("embed", "joined_kv"), "out": ("joined_kv", "embed")}
  kernels |= {"key": kernels["query"], "value": kernels["query"]}
  names = {"token_embedder/embedding": ("vocab", "embed")}
  names["decoder/logits_dense/kernel"] = ("head_embed", "head_vocab")
  stacks = {
    "encoder": (["attention"], ["pre_attention", "pre_mlp"]),
    "decoder": (
      ["self_attention", "encoder_decoder_attention"],
      ["pre_self_attention", "pre_cross_attention", "pre_mlp"],
    ),
  }
  for stack, (attentions, norms) in stacks.items():
    names[f"{stack}/relpos_bias/rel_embedding"] = ("heads", "relpos_buckets")
    names[f"{stack}/{stack}_norm/scale"] = ("embed",)
    layer = {f"mlp/{kernel}/kernel": ("embed", "mlp") for kernel in ("wi_0", "wi_1")}
    layer["mlp/wo/kernel"] = ("mlp", "embed")
    layer |= {f"{norm}_layer_norm/scale": ("embed",) for norm in norms}
    for attention in attentions:
      layer |= {f"{attention}/{kernel}/kernel": axes for kernel, axes in kernels.items()}
    names |= {f"{stack}/layers/{name}": ("layers", *axes) for name, axes in layer.items()}
  return names


def test_the_t5_has_t5xs_names_and_axes(variables):
  axes = partitioning.get_axis_names(variables["params_axes"])
  axes = {k: tuple(v) for k, v in traverse_util.flatten_dict(axes, sep="/").items()}
  assert set(axes) == set(traverse_util.flatten_dict(variables["params"], sep="/"))
  t5 = {k: v for k, v in axes.items() if k.split("/")[0] not in ("vit", "projection")}
  assert t5 == _t5x_names()


def test_every_parameter_has_one_axis_a_dimension(variables):
  axes = traverse_util.flatten_dict(partitioning.get_axis_names(variables["params_axes"]), sep="/")
  for name, parameter in traverse_util.flatten_dict(variables["params"], sep="/").items():
    assert len(axes[name]) == parameter.ndim, name


# Scanned layers are traced once.
_BASE = T5Config(250_112, 768, 12, 64, 12, 12, 2048, scan=True)
_LARGE = T5Config(250_112, 1024, 16, 64, 24, 24, 2816, scan=True)
_B16 = ViTConfig(768, 12, 3072, 12, 16, 224, pool="gap", scan=True)
_G14 = ViTConfig(1408, 40, 6144, 16, 14, 224, pool="gap", scan=True)


def _vit_count(c):
  """Weights and biases by hand: patches, positions, blocks, last norm."""
  block = 4 * c.width * (c.width + 1) + 2 * c.width * c.mlp_dim + c.mlp_dim + c.width + 4 * c.width
  return (3 * c.patch_size**2 + 1) * c.width + c.num_patches * c.width + c.depth * block + 2 * c.width


# mT5-base's and mT5-large's published sizes; the first as t5x reports it.
@pytest.mark.parametrize(
  "vit, t5, t5_count",
  [(_B16, _BASE, 582_401_280), (_G14, _BASE, 582_401_280), (_G14, _LARGE, 1_229_581_312)],
  ids=["bb", "bg", "lg"],
)
def test_parameter_counts_of_the_papers_models(vit, t5, t5_count):
  image = jax.ShapeDtypeStruct((1, 224, 224, 3), "uint8")
  tokens = jax.ShapeDtypeStruct((1, 1, 4), "int32")
  params = jax.eval_shape(Captioner(vit, t5).init, jax.random.key(0), image, tokens, tokens)["params"]
  count = lambda tree: sum(x.size for x in jax.tree.leaves(tree))  # noqa: E731
  assert count({k: v for k, v in params.items() if k not in ("vit", "projection")}) == t5_count
  assert count(params["vit"]) == _vit_count(vit)
  assert count(params["projection"]) == (vit.width + 1) * t5.emb_dim


def test_captions_may_share_one_prompt(logits, batch):
  shared = batch["prompt_tokens"][:, :1]
  expected = logits(batch["image"], np.repeat(shared, 4, axis=1), batch["target_tokens"])
  np.testing.assert_allclose(logits(batch["image"], shared, batch["target_tokens"]), expected, atol=1e-5)
