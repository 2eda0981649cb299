"""The losses of Word2VisualVec and their gradients against torch 2.13, and the objective's bookkeeping."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import drawn_params, lazily, word_folders
from xmcap.errors import UsageError
from xmcap.families.word2visualvec.model import Word2VisualVecConfig
from xmcap.families.word2visualvec.objective import Word2VisualVecObjective, contrastive_losses

torch = lazily.Module("torch")

CONFIG = Word2VisualVecConfig(4, rnn_width=5, rnn_words=4, hidden=6, relu_output=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return word_folders.write(tmp_path_factory.mktemp("words"), en=["a", "dog", "cat"], zh=["狗", "猫"])


def batch_of(rows=6):
  rng = np.random.default_rng(0)
  words = rng.integers(0, 6, (rows, 4)).astype(np.int32)
  words = np.sort(words, axis=1)[:, ::-1].copy()  # zeros last
  return {
    "words": words,
    "vectors": rng.normal(size=(rows, 4, 3)).astype(np.float32) * (words > 0)[..., None],
    "features": rng.normal(size=(rows, 4)).astype(np.float32),
    "other": rng.normal(size=(rows, 4)).astype(np.float32),
    "weights": np.ones(rows, np.float32),
  }


@functools.cache
def _apply(module):
  return jax.jit(lambda params, *inputs: module.apply({"params": params}, *inputs))


def _loss(objective, params, batch, seed=0, deterministic=True):
  return jax.jit(objective.loss, static_argnums=3)(params, batch, jax.random.key(seed), deterministic)


def test_word2visualvec_contrastive_loss_and_gradient():
  rng = np.random.default_rng(0)
  predicted, own, other = (rng.normal(size=(8, 4)).astype(np.float32) * scale for scale in (0.6, 0.6, 0.9))
  other[0] = predicted[0] + 9  # beyond the margin
  x = torch.tensor(predicted, requires_grad=True)
  near = torch.nn.functional.pairwise_distance(x, torch.tensor(own), eps=0)
  far = torch.nn.functional.pairwise_distance(x, torch.tensor(other), eps=0)
  # y D^2 + (1 - y) max(2 - D, 0)^2, over the pairs with the own picture and those with another one
  expected = torch.cat([near**2, torch.clamp(2 - far, min=0) ** 2]).mean()
  expected.backward()
  value, grad = jax.jit(jax.value_and_grad(lambda x: jnp.mean(contrastive_losses(x, own, other, 2.0))))(
    predicted
  )
  np.testing.assert_allclose(value, expected.detach(), rtol=1e-6)
  np.testing.assert_allclose(grad, x.grad, atol=1e-5)
  same = jax.jit(jax.grad(lambda x: jnp.sum(contrastive_losses(x, own, x, 2.0))))(predicted)
  assert np.isfinite(same).all()


def test_word2visualvec_objective_mse_and_contrastive_loss(folder):
  batch = batch_of()
  for kind in ("mse", "contrastive"):
    objective = Word2VisualVecObjective(CONFIG, folder, ("en", "zh"), kind)
    params = drawn_params.of(objective.init, batch)
    out = torch.tensor(np.asarray(_apply(objective.module)(params, batch["words"], batch["vectors"])))
    target, other = torch.tensor(batch["features"]), torch.tensor(batch["other"])
    if kind == "mse":
      expected = torch.nn.functional.mse_loss(out, target)
    else:
      near, far = torch.linalg.norm(out - target, dim=1), torch.linalg.norm(out - other, dim=1)
      expected = (near**2 + torch.clamp(2 - far, min=0) ** 2).mean() / 2
    loss, metrics = _loss(objective, params, batch)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    cosine = torch.nn.functional.cosine_similarity(out, target).mean()
    np.testing.assert_allclose(metrics["similarity"], cosine, atol=1e-5)


def test_word2visualvec_loss_omits_captions_of_weight_0(folder):
  objective = Word2VisualVecObjective(CONFIG, folder, ("en", "zh"), "contrastive")
  batch = batch_of()
  params = drawn_params.of(objective.init, batch)
  fewer = {name: array[:-1] for name, array in batch.items()}
  batch["weights"][-1] = 0
  whole, part = (_loss(objective, params, one) for one in (batch, fewer))
  np.testing.assert_allclose(whole[0], part[0], rtol=1e-6)
  assert whole[1]["weight"] == len(fewer["words"])


def test_word2visualvec_dropout_is_in_the_hidden_layer(folder):
  objective = Word2VisualVecObjective(CONFIG, folder, ("en", "zh"))
  batch = batch_of()
  params = drawn_params.of(objective.init, batch)
  losses = {float(_loss(objective, params, batch, seed, False)[0]) for seed in range(3)}
  assert len(losses) == 3


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"kind": "cosine"}, "kind 'cosine' and margin 2.0: give mse or contrastive"),
    ({"margin": 0.0}, "margin 0.0: give mse or contrastive, and above 0"),
    ({"languages": ()}, r"languages of words are \(\): give their codes"),
    ({"languages": ("de",)}, "de.safetensors: no such file: `xmcap data words` makes it"),
  ],
)
def test_word2visualvec_objective_refuses_invalid_settings(folder, options, message):
  with pytest.raises(UsageError, match=message):
    Word2VisualVecObjective(**{"config": CONFIG, "words": folder, "languages": ("en",), **options})


def test_word2visualvec_refuses_features_of_another_width(folder):
  objective = Word2VisualVecObjective(CONFIG, folder, ("en",))
  batch = batch_of() | {"features": np.zeros((6, 9), np.float32)}
  with pytest.raises(UsageError, match="output_dim is 4, but features have width 9"):
    objective.init(jax.random.key(0), batch)
