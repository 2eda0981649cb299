import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import drawn_params
from xmcap.errors import UsageError
from xmcap.families.tagging.vit_objective import TagObjective
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.objectives import CaptionObjective
from xmcap.training.token_logits import reduced
from xmcap.training.token_loss import token_losses

VIT = ViTConfig(
  width=16, depth=1, mlp_dim=32, num_heads=2, patch_size=8, image_size=16, pool="map", dtype="float32"
)
T5 = T5Config(vocab_size=48, emb_dim=16, num_heads=2, head_dim=8, num_encoder_layers=1, num_decoder_layers=1,
              mlp_dim=32, dtype="float32")  # fmt: skip


def caption_batch(pictures=3, captions=2, length=6):
  rng = np.random.default_rng(0)
  weights = (np.arange(length) < rng.integers(1, 5, (pictures, captions, 1))).astype(np.float32)
  tokens = (rng.integers(3, 48, (pictures, captions, length)) * weights).astype(np.int32)
  return {"image": rng.integers(0, 256, (pictures, 16, 16, 3)).astype(np.uint8),
          "prompt_tokens": rng.integers(3, 48, (pictures, captions, 2)).astype(np.int32),
          "target_tokens": tokens, "target_weights": weights}  # fmt: skip


# One of each, so that what a test has compiled the next need not.
captioning = functools.cache(functools.partial(CaptionObjective, VIT, T5))
tagging = functools.cache(functools.partial(TagObjective, VIT, num_classes=5, num_slots=2))


@functools.cache
def params_of(objective):
  return drawn_params.of(objective.init, caption_batch())


@functools.cache
def compiled(objective):
  grad = jax.value_and_grad(objective.loss, has_aux=True)
  return jax.jit(objective.loss, static_argnums=3), jax.jit(grad, static_argnums=3)


def loss_of(objective, params, batch):
  return compiled(objective)[0](params, batch, jax.random.key(0), True)


def loss_and_grad(objective, params, batch):
  return compiled(objective)[1](params, batch, jax.random.key(0), True)


def test_smoothed_loss_equals_optax():
  logits = jax.random.normal(jax.random.key(0), (5, 7)) * 3
  targets = jnp.array([0, 6, 3, 3, 1])
  # optax spreads the smoothing over all 7 classes: e of ours is e * 6 / 7 of theirs, apart from the entropy.
  smooth = optax.smooth_labels(jax.nn.one_hot(targets, 7), 0.1 * 7 / 6)
  entropy = -jnp.sum(smooth * jnp.log(smooth), -1)
  loss, cross_entropy = token_losses(reduced(logits, targets), 7, label_smoothing=0.1, z_loss=1e-2)
  z = jax.nn.logsumexp(logits, -1)
  np.testing.assert_allclose(
    loss, optax.softmax_cross_entropy(logits, smooth) - entropy + 1e-2 * z**2, rtol=1e-5
  )
  np.testing.assert_allclose(
    cross_entropy, optax.softmax_cross_entropy_with_integer_labels(logits, targets), rtol=1e-5
  )


def test_token_losses_of_non_finite_logits_are_not_finite():
  logits = jnp.array([[0.0, jnp.nan, 1.0], [0.0, 1.0, jnp.inf]])
  losses, _ = token_losses(reduced(logits, jnp.zeros(2, jnp.int32)), 3)
  assert not np.isfinite(losses).any()


def test_loss_is_the_mean_over_real_tokens():
  objective, batch = captioning(z_loss=0.0), caption_batch()
  params = params_of(captioning())
  loss, metrics = loss_of(objective, params, batch)
  logits = jax.jit(objective.module.apply)(
    {"params": params}, batch["image"], batch["prompt_tokens"], batch["target_tokens"]
  )
  losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["target_tokens"])
  expected = float(np.sum(losses * batch["target_weights"]) / np.sum(batch["target_weights"]))
  assert float(loss) == pytest.approx(expected, rel=1e-5) == float(metrics["cross_entropy"])
  right = (np.argmax(logits, -1) == batch["target_tokens"]) * batch["target_weights"]
  assert float(metrics["accuracy"]) == pytest.approx(np.sum(right) / np.sum(batch["target_weights"]))


def test_loss_of_k_captions_equals_one_by_one():
  objective, batch = captioning(), caption_batch(pictures=2, captions=4)
  params = params_of(objective)
  loss, metrics = loss_of(objective, params, batch)
  total = weight = 0.0
  for k in range(4):
    one = {name: array if name == "image" else array[:, k : k + 1] for name, array in batch.items()}
    part, part_metrics = loss_of(objective, params, one)
    total, weight = total + part * part_metrics["weight"], weight + part_metrics["weight"]
  assert weight == metrics["weight"]
  assert float(loss) == pytest.approx(float(total / weight), rel=1e-5)


def test_batch_with_no_token_has_loss_zero():
  objective, batch = captioning(), caption_batch()
  params = params_of(objective)
  empty = {**batch, "target_weights": np.zeros_like(batch["target_weights"])}
  (loss, _), grads = loss_and_grad(objective, params, empty)
  assert loss == 0 and all(np.all(np.asarray(leaf) == 0) for leaf in jax.tree.leaves(grads))


def test_tags_loss_and_metrics():
  objective = tagging(labels_weight=0.5)
  batch = {"image": caption_batch()["image"], "tags": np.array([[1, 5], [3, 0], [2, 2]], np.int32)}
  params = params_of(objective)
  slots, labels = jax.jit(objective.module.apply)({"params": params}, batch["image"])
  present = np.array([[1, 0, 0, 0, 1], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]])
  softmax = optax.softmax_cross_entropy_with_integer_labels(slots, batch["tags"]).mean()
  sigmoid = optax.sigmoid_binary_cross_entropy(labels, present).sum(-1).mean()
  loss, metrics = loss_of(objective, params, batch)
  assert float(loss) == pytest.approx(float(softmax + 0.5 * sigmoid), rel=1e-5)
  right = np.argmax(slots, -1) == batch["tags"]
  # Of the three pictures the second has one tag.
  assert float(metrics["accuracy"]) == pytest.approx(np.mean([right[0].mean(), right[1, 0], right[2].mean()]))
  assert float(metrics["exact"]) == pytest.approx(right.all(-1).mean())
  assert float(metrics["weight"]) == 3


def test_tag_accuracy_of_an_image_without_tags():
  objective = tagging()
  tags = np.array([[1, 2], [3, 4]], np.int32)
  batch = {"image": np.repeat(caption_batch()["image"][:1], 2, 0), "tags": tags}
  params = params_of(objective)
  head = params["slots_dense"]
  for named, expected in ((0, 1.0), (3, 0.0)):
    bias = head["bias"].reshape(2, 6) + 1e3 * np.eye(6)[named]
    biased = {**params, "slots_dense": {**head, "bias": bias.reshape(head["bias"].shape)}}
    _, metrics = loss_of(objective, biased, {**batch, "tags": np.zeros_like(tags)})
    assert float(metrics["accuracy"]) == expected


def test_pictures_of_weight_0_do_not_count():
  objective = tagging()
  batch = {"image": caption_batch()["image"], "tags": np.array([[1, 5], [3, 0], [2, 2]], np.int32)}
  params = params_of(objective)
  some = {**batch, "weights": np.array([1, 0, 1], np.float32)}
  few = {name: array[[0, 2]] for name, array in batch.items()}
  (loss, metrics), grads = loss_and_grad(objective, params, some)
  (few_loss, few_metrics), few_grads = loss_and_grad(objective, params, few)
  np.testing.assert_allclose(loss, few_loss, rtol=1e-6)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), metrics, few_metrics)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), grads, few_grads)
  none = {**batch, "weights": np.zeros(3, np.float32)}
  (loss, _), grads = loss_and_grad(objective, params, none)
  assert loss == 0 and all(np.all(np.asarray(leaf) == 0) for leaf in jax.tree.leaves(grads))


def test_caption_objective_refuses_settings_out_of_range():
  with pytest.raises(UsageError, match="z_loss -1"):
    CaptionObjective(VIT, T5, z_loss=-1)
