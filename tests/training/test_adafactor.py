"""Our Adafactor against t5x's own over 10 steps, where t5x imports, and against the paper's equations everywhere.

t5x: commit cc342d4 (2026-04), with the settings of its mT5 run files. It is on no package index; the extra `t5x` names
its repository. What was found: on this model optax's rule, which ours is, and t5x's move every parameter alike, to
float32's rounding; stacked layers are the exception, whose layers t5x takes one by one by a rule of their axis, and we
by `Optimizer`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from flax.linen.partitioning import get_axis_names

from tests import drawn_params
from xmcap.models import stacking
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.objectives import CaptionObjective
from xmcap.training.optimizer import Optimizer, adafactor
from xmcap.training.schedule import ConstantThenRsqrt

STEPS, RATE = 10, 0.01
OPTIMIZER = Optimizer(adafactor, ConstantThenRsqrt(RATE, constant_steps=None), clip_norm=None)
# Rows and columns on both sides of 128, under which second moments are not factored.
T5 = T5Config(
  300, emb_dim=128, num_heads=2, head_dim=64, num_encoder_layers=1, num_decoder_layers=1, mlp_dim=160
)
VIT = ViTConfig(width=128, depth=1, mlp_dim=256, num_heads=2, patch_size=8, image_size=16)


def batch(images=4, captions=2):
  rng = np.random.default_rng(0)
  return {
    "image": rng.integers(0, 256, (images, 16, 16, 3), np.uint8),
    "prompt_tokens": rng.integers(2, 300, (images, captions, 3)).astype(np.int32),
    "target_tokens": rng.integers(2, 300, (images, captions, 6)).astype(np.int32),
    "target_weights": np.ones((images, captions, 6), np.float32),
  }


@pytest.fixture(scope="module")
def run():
  """Ten steps of ours: variables before the first, the gradients of each step, and the parameters at the end."""
  objective, data = CaptionObjective(VIT, T5), batch()
  variables = jax.eval_shape(objective.init, jax.random.key(0), data)
  variables["params"] = drawn_params.like(variables["params"], scale=0.1)

  @jax.jit
  def step(params, state, number):
    grads = jax.grad(lambda params: objective.loss(params, data, jax.random.key(0), True)[0])(params)
    params, state, _ = OPTIMIZER.update(grads, state, params, number, STEPS)
    return params, state, grads

  params, gradients = variables["params"], []
  state = OPTIMIZER.init(params)
  for number in range(STEPS):
    params, state, grads = step(params, state, number)
    gradients.append(flat(grads))
  return variables, gradients, flat(params)


def flat(tree):
  return traverse_util.flatten_dict(tree, sep="/")


def assert_moved_alike(before, ours, theirs, tolerance):
  """Each parameter went where the other went, to a share of the distance (root mean square) that it went."""
  assert ours.keys() == theirs.keys()
  apart = {}
  for name, start in before.items():
    start, one, other = (np.asarray(x, np.float64) for x in (start, ours[name], theirs[name]))
    moved = np.sqrt(np.mean((other - start) ** 2))
    assert moved > 0, name
    apart[name] = np.max(np.abs(one - other)) / moved
  assert not {name: share for name, share in apart.items() if share > tolerance}


# ---- t5x ------------------------------------------------------------------------------------------


def t5x_rules(adafactor):
  """t5x's rules for logical axes, with ours of the picture's side. No axis is both, so patches are not factored."""
  none, column = adafactor.FactorDim.NONE, adafactor.FactorDim.COLUMN
  return {
    **adafactor.standard_logical_factor_rules(),
    **dict.fromkeys(("height", "width", "channel"), none),
    **dict.fromkeys(("position", "image_embed", "head_embed", "head_vocab", None), column),
  }


def test_adafactor_equals_t5x(run):
  theirs = pytest.importorskip("t5x.adafactor", reason="t5x is not installed: pip install -e '.[t5x]'")
  variables, gradients, ours = run
  rule = theirs.Adafactor(RATE, decay_rate=0.8, step_offset=0, logical_factor_rules=t5x_rules(theirs))
  # t5x would scale a stack of layers as one parameter, so it gets them one by one.
  params, axes = stacking.unstack(variables["params"]), flat(get_axis_names(variables["params_axes"]))
  single = {}
  for name, names in axes.items():
    depth = flat(variables["params"])[name].shape[0]
    single |= stacking.one_by_one(name, depth, lambda n, names=names: type(names)(*names[1:])) or {
      name: names
    }
  rule.set_param_axes(traverse_util.unflatten_dict(single, sep="/"))
  state = rule.init_state(params)
  step = jax.jit(lambda params, state, grads: rule.apply_gradient(rule.hyper_params, params, state, grads))
  for grads in gradients:
    params, state = step(params, state, stacking.unstack(traverse_util.unflatten_dict(grads, sep="/")))
  assert_moved_alike(flat(variables["params"]), ours, flat(stacking.stack(params)), 3e-5)


# ---- the paper ------------------------------------------------------------------------------------


def paper(param, gradients, rate=RATE):
  """Algorithms 4 and 5 of Shazeer & Stern (2018), in float64, with the hyper-parameters of Algorithm 6.

  Matrices with both dimensions of 128 or more are factored. The decay of step t is 1 - t**-0.8, so 0 at the first.
  """
  x = np.asarray(param, np.float64)
  row = col = v = 0.0
  for t, grad in enumerate(gradients, start=1):
    g = np.asarray(grad, np.float64)
    alpha = max(1e-3, rms(x)) * rate
    beta = 1 - t**-0.8
    squared = g**2 + 1e-30
    if g.ndim == 2 and min(g.shape) >= 128:
      row = beta * row + (1 - beta) * squared.sum(1)
      col = beta * col + (1 - beta) * squared.sum(0)
      v = np.outer(row, col) / row.sum()
    else:
      v = beta * v + (1 - beta) * squared
    u = g / np.sqrt(v)
    x = x - alpha * u / max(1.0, rms(u) / 1.0)
  return x


def rms(x):
  return np.sqrt(np.mean(np.square(x)))


def each_layer(name, param, gradients):
  """The paper's update of a parameter; the layers of a stack are parameters of their own."""
  if not stacking.is_stacked(name):
    return paper(param, gradients)
  return np.stack([paper(layer, [grads[n] for grads in gradients]) for n, layer in enumerate(param)])


@pytest.mark.full  # by shape, without a model: test_adafactor_closed_form_by_shape
def test_adafactor_of_a_captioner_equals_the_paper(run):
  variables, gradients, ours = run
  before = flat(variables["params"])
  theirs = {
    name: each_layer(name, param, [grads[name] for grads in gradients]) for name, param in before.items()
  }
  assert_moved_alike(before, ours, theirs, 1e-4)


def steps(params, gradients):
  state, update = OPTIMIZER.init(params), jax.jit(OPTIMIZER.update, static_argnums=4)
  for number, grads in enumerate(gradients):
    params, state, _ = update(grads, state, params, number, STEPS)
  return params


def made(shape, size, seed):
  return jnp.asarray(np.random.default_rng(seed).normal(scale=size, size=shape), jnp.float32)


@pytest.mark.parametrize(
  "shape, size",
  [((300, 128), 1.0), ((128, 300), 0.1), ((128, 128), 0.1), ((2, 32), 0.3), ((127, 300), 0.1), ((160,), 1.0),
   ((8, 8, 3, 128), 0.1), ((160,), 0.0), ((200, 130), 0.0)],
  ids=["tall", "wide", "square", "small", "just_unfactored", "vector", "patches", "zero_vector", "zero_matrix"],
)  # fmt: skip
def test_adafactor_closed_form_by_shape(shape, size):
  start = made(shape, size, 0)
  # Of very unequal sizes, so that clipping bites at some steps and not at others.
  gradients = [made(shape, 10.0 ** (step % 3 - 4), 1 + step) for step in range(STEPS)]
  ours = steps({"kernel": start}, [{"kernel": grad} for grad in gradients])
  assert_moved_alike({"kernel": start}, ours, {"kernel": paper(start, gradients)}, 1e-4)


def test_adafactor_keeps_embedding_rows_without_gradient():
  start, grad = made((300, 128), 1.0, 0), made((300, 128), 1.0, 1).at[100:].set(0.0)
  after = steps({"embedding": start}, [{"embedding": grad}] * 3)["embedding"]
  np.testing.assert_array_equal(after[100:], start[100:])


def test_adafactor_treats_each_stacked_layer_separately():
  start = jnp.stack([made((130, 140), size, 0) for size in (0.01, 0.1, 1.0)])
  gradients = [
    jnp.stack([made((130, 140), size, step) for size in (1.0, 0.1, 0.01)]) for step in range(STEPS)
  ]

  def tree(leaf):
    return {"decoder": {"layers": {"kernel": leaf}}}

  ours = steps(tree(start), [tree(grad) for grad in gradients])["decoder"]["layers"]["kernel"]
  alone = {str(i): paper(start[i], [grad[i] for grad in gradients]) for i in range(3)}
  assert_moved_alike({str(i): start[i] for i in range(3)}, {str(i): ours[i] for i in range(3)}, alone, 1e-4)
