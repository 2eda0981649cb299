"""The ViT: pooling by hand. tests/convert/test_hf_vit.py has transformers' features."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from tests import drawn_params
from xmcap.errors import UsageError
from xmcap.families.tagging.vit_objective import Tagger
from xmcap.models.vit import ViT


def _make(config, image, seed=0):
  model = ViT(config)
  return model, drawn_params.of(model.init, image, seed=seed, scale=0.2)


def test_gap_is_the_mean_of_the_patch_tokens(vit_config, batch):
  none, params = _make(dataclasses.replace(vit_config, pool="none"), batch["image"])
  gap = ViT(dataclasses.replace(vit_config, pool="gap"))
  tokens, pooled = (jax.jit(one.apply)({"params": params}, batch["image"]) for one in (none, gap))
  np.testing.assert_allclose(pooled[:, 0], tokens.mean(1), rtol=1e-4, atol=1e-5)


def test_map_is_attention_pooling_by_hand(vit_config, batch):
  model, params = _make(vit_config, batch["image"])
  none = ViT(dataclasses.replace(vit_config, pool="none"))
  tokens = np.asarray(jax.jit(none.apply)({"params": params}, batch["image"]))
  head = params["map_head"]
  project = lambda name, x: x @ head["attention"][name]["kernel"] + head["attention"][name]["bias"]  # noqa: E731
  query = project("query", head["probe"]).reshape(2, 8)
  key, value = (project(name, tokens).reshape(3, 9, 2, 8) for name in ("key", "value"))
  weights = scipy.special.softmax(np.einsum("hd,bkhd->bhk", query, key) / np.sqrt(8), axis=-1)
  x = project("out", np.einsum("bhk,bkhd->bhd", weights, value).reshape(3, 16))
  norm = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
  norm = norm * head["mlp_norm"]["scale"] + head["mlp_norm"]["bias"]
  mlp = jax.nn.gelu(norm @ head["mlp"]["wi"]["kernel"] + head["mlp"]["wi"]["bias"], approximate=True)
  expected = x + mlp @ head["mlp"]["wo"]["kernel"] + head["mlp"]["wo"]["bias"]
  actual = jax.jit(model.apply)({"params": params}, batch["image"])
  np.testing.assert_allclose(actual[:, 0], expected, rtol=1e-4, atol=1e-4)


def test_pixels_are_scaled_to_plus_and_minus_one(vit_config):
  image = np.zeros((1, 12, 12, 3), np.uint8)
  image[..., 0], image[..., 1] = 255, 51
  x = ViT(vit_config).apply({"params": {}}, image, method="normalize")
  np.testing.assert_allclose(x[0, 0, 0], [1.0, -0.6, -1.0], atol=1e-6)


def test_the_tagger_holds_the_captioners_vit(vit_config, batch, variables):
  tagger = Tagger(vit_config, num_classes=5, num_slots=3)
  tags = jax.eval_shape(tagger.init, jax.random.key(0), batch["image"])
  assert jax.tree.map(jnp.shape, tags["params"]["vit"]) == jax.tree.map(jnp.shape, variables["params"]["vit"])
  slots, labels = jax.eval_shape(tagger.apply, tags, batch["image"])
  assert slots.shape == (3, 3, 6) and labels.shape == (3, 5)


@pytest.mark.parametrize(
  "change, message",
  [
    ({"activation": "mish"}, "unknown ViTConfig.activation"),
    ({"image_size": 3}, "image_size 3 is less than patch_size 4"),
  ],
)
def test_vit_config_refuses_invalid_values(vit_config, change, message):
  with pytest.raises(UsageError, match=message):
    dataclasses.replace(vit_config, **change)


def test_vit_refuses_an_image_of_another_size(vit_config):
  with pytest.raises(UsageError, match="do not fit a ViT of image_size 12"):
    jax.eval_shape(ViT(vit_config).init, jax.random.key(0), np.zeros((1, 16, 16, 3), np.uint8))
