"""Contrastive losses against transformers' CLIP and SigLIP, and on meshes; test_contrastive_losses.py has loops."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from tests.make.command import forked
from tests.training.test_objectives import T5, VIT, caption_batch, loss_of, params_of
from xmcap.errors import UsageError
from xmcap.families.dual import objective as contrastive
from xmcap.families.dual.model import DualConfig

LOSSES = {"sigmoid": contrastive.sigmoid_losses, "infonce": contrastive.infonce_losses}


def rows_of(pictures, captions, seed=0, present=None):
  rng = np.random.default_rng(seed)
  image, text = (rng.normal(size=(count, 6)) for count in (pictures, pictures * captions))
  image, text = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (image, text))
  there = np.ones(len(text), bool) if present is None else np.asarray(present)
  return contrastive.LossInputs(
    jnp.array(image, jnp.float32),
    jnp.array(there.reshape(pictures, captions).any(axis=1)),
    jnp.array(text, jnp.float32),
    jnp.array(there),
    jnp.arange(len(text), dtype=jnp.uint32),
  )


@functools.partial(jax.jit, static_argnums=(0, 4))
def mean_loss(kind, rows, scale, bias, mask_equal=False):
  return jnp.sum(contrastive.spread(LOSSES[kind], mask_equal)(rows, scale, bias)) / jnp.sum(rows.text_present)


def test_one_way_loss_equals_torch_cross_entropy():
  torch = pytest.importorskip("torch")
  rows = rows_of(12, 1)
  image, text = (torch.tensor(np.asarray(x), requires_grad=True) for x in (rows.image, rows.text))
  wanted = torch.nn.functional.cross_entropy(20 * image @ text.T, torch.arange(12))
  wanted.backward()

  def loss(image, text):
    losses = contrastive.spread(contrastive.one_way_losses, False)
    return jnp.mean(losses(rows._replace(image=image, text=text), jnp.asarray(20.0), jnp.zeros(())))

  value, grads = jax.value_and_grad(loss, argnums=(0, 1))(rows.image, rows.text)
  assert float(value) == pytest.approx(wanted.item(), abs=1e-5)
  for ours, theirs in zip(grads, (image, text), strict=True):
    np.testing.assert_allclose(ours, theirs.grad, atol=1e-5)


def value_and_grads(kind, rows, scale, bias):
  def loss(image, text, scale, bias):
    return mean_loss(kind, rows._replace(image=image, text=text), scale, bias)

  return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))(rows.image, rows.text, scale, bias)


# Daily, tests/training/test_contrastive_losses.py compares with values of open_clip.
@pytest.mark.full
@pytest.mark.parametrize("kind", LOSSES)
def test_contrastive_loss_equals_transformers_clip_loss(kind):
  torch = pytest.importorskip("torch")
  modeling_clip = pytest.importorskip("transformers.models.clip.modeling_clip")
  rows, scale, bias = rows_of(12, 1), 7.0, -4.0 if kind == "sigmoid" else 0.0
  image, text = (torch.tensor(np.asarray(x), requires_grad=True) for x in (rows.image, rows.text))
  t, b = torch.tensor(scale, requires_grad=True), torch.tensor(bias, requires_grad=True)
  logits = t * text @ image.T + b
  if kind == "sigmoid":
    # SiglipModel.forward, transformers 5: the loss of its logits.
    signs = 2 * torch.eye(len(logits)) - torch.ones_like(logits)
    expected = -torch.nn.functional.logsigmoid(signs * logits).sum(dim=-1).mean()
  else:
    expected = modeling_clip.image_text_contrastive_loss(logits)
  expected.backward()
  loss, grads = value_and_grads(kind, rows, scale, bias)
  assert float(loss) == pytest.approx(expected.item(), abs=1e-5)
  for ours, theirs in zip(grads, (image, text, t, b), strict=True):
    np.testing.assert_allclose(ours, theirs.grad, atol=1e-4)


@pytest.mark.full
def test_sigmoid_loss_equals_transformers_siglip():
  torch = pytest.importorskip("torch")
  transformers = pytest.importorskip("transformers")
  sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
  text = {**sizes, "vocab_size": 30, "max_position_embeddings": 8, "projection_size": 16}
  config = transformers.SiglipConfig(
    text_config=text, vision_config={**sizes, "image_size": 16, "patch_size": 8}
  )
  torch.manual_seed(0)
  model = transformers.SiglipModel(config).eval()
  with torch.no_grad():
    out = model(torch.randint(2, 30, (5, 8)), torch.randn(5, 3, 16, 16), return_loss=True)
  rows = rows_of(5, 1)._replace(
    image=jnp.array(out.image_embeds.numpy()), text=jnp.array(out.text_embeds.numpy())
  )
  loss = mean_loss("sigmoid", rows, float(model.logit_scale.exp().detach()), float(model.logit_bias.detach()))
  assert float(loss) == pytest.approx(out.loss.item(), abs=1e-5)


@pytest.mark.parametrize("kind", LOSSES)
def test_contrastive_loss_equal_captions_are_no_negatives(kind):
  rows = rows_of(3, 2)
  text = np.array(rows.text)
  text[4] = text[1]  # the third picture's first caption is the first picture's second
  twice = rows._replace(text=jnp.array(text), same=rows.same.at[4].set(rows.same[1]))
  masked, plain = (mean_loss(kind, twice, 5.0, 0.0, mask_equal=mask) for mask in (True, False))
  assert float(masked) < float(plain)
  assert float(mean_loss(kind, rows, 5.0, 0.0, mask_equal=True)) == pytest.approx(
    float(mean_loss(kind, rows, 5.0, 0.0)), rel=1e-6
  )


SHAPES = ((1, 1, 1), (8, 1, 1), (2, 2, 2))
PRESENT = np.arange(48) % 11 > 0


def on_meshes(file):
  """Writes the loss and the gradients of each kind on each mesh, in one row."""
  jax.config.update("jax_num_cpu_devices", 8)
  rows = []
  for kind in LOSSES:
    for shape in SHAPES:
      mesh = Mesh(np.array(jax.devices()[: math.prod(shape)]).reshape(shape), ("data", "fsdp", "model"))
      with jax.set_mesh(mesh):
        loss, grads = value_and_grads(kind, rows_of(16, 3, present=PRESENT), 6.0, -3.0)
      rows.append(np.concatenate([np.asarray(leaf).ravel() for leaf in (loss, *grads)]))
  np.save(file, rows)


def test_contrastive_ring_loss_is_the_same_on_every_mesh(tmp_path):
  forked(on_meshes, tmp_path / "found.npy", environment={"NPROC": "64"}).succeeded()
  found = np.load(tmp_path / "found.npy").reshape(len(LOSSES), len(SHAPES), -1)
  for kind, (one, *others) in zip(LOSSES, found, strict=True):
    assert one[0] == pytest.approx(
      float(mean_loss(kind, rows_of(16, 3, present=PRESENT), 6.0, -3.0)), rel=1e-5
    )
    for other in others:
      np.testing.assert_allclose(other, one, atol=2e-6)


@pytest.fixture(scope="module", params=LOSSES)
def objective(request):
  return contrastive.ContrastiveObjective(VIT, T5, DualConfig(8), kind=request.param)


def test_contrastive_objective_learns_to_discriminate_images(objective):
  batch = caption_batch(pictures=4, captions=2)
  params = params_of(objective)

  @jax.jit
  def step(params):
    (loss, metrics), grads = jax.value_and_grad(objective.loss, has_aux=True)(
      params, batch, jax.random.key(0), True
    )
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss, metrics

  first = None
  for _ in range(40):
    params, loss, metrics = step(params)
    first = float(loss) if first is None else first
  assert float(loss) < 0.9 * first and float(metrics["weight"]) == 8


def test_contrastive_loss_ignores_captions_of_weight_0(objective):
  batch = caption_batch(pictures=3, captions=2)
  params = params_of(objective)
  padded = {name: np.concatenate([array, array[:1]]) for name, array in batch.items()}
  padded["target_weights"][-1] = 0
  losses = [loss_of(objective, params, held)[0] for held in (batch, padded)]
  assert float(losses[0]) == pytest.approx(float(losses[1]), rel=1e-5)


def test_caption_hashes_are_independent_of_padding():
  tokens = jnp.array([[5, 6, 1, 0], [5, 6, 1, 0], [6, 5, 1, 0], [5, 6, 7, 1]])
  short, long = contrastive._hashes(tokens[:3, :3]), contrastive._hashes(tokens)
  assert long[0] == long[1] == short[0] and len(set(np.asarray(long).tolist())) == 3


def test_contrastive_objective_refuses_an_unknown_loss():
  with pytest.raises(UsageError, match="sigmoid or infonce"):
    contrastive.ContrastiveObjective(VIT, T5, 8, kind="triplet")
