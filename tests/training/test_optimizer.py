import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util

from xmcap.errors import UsageError
from xmcap.models import stacking
from xmcap.models.stacking import merge
from xmcap.training.optimizer import Optimizer, adafactor, adam, rmsprop, sgd
from xmcap.training.schedule import ConstantThenRsqrt

PARAMS = {
  "vit": {"kernel": jnp.ones((4, 3)), "bias": jnp.ones(3)},
  "decoder": {"kernel": jnp.full((3, 2), 2.0)},
}
RATE = ConstantThenRsqrt(learning_rate=0.1, constant_steps=None)


def grads_like(params, scale=1.0):
  return jax.tree.map(
    lambda x: scale * jnp.asarray(np.random.default_rng(x.size).normal(size=x.shape), jnp.float32), params
  )


def run(optimizer, params, grads, steps=3):
  # Compiled as one: op by op takes several times as long.
  state, update = jax.jit(optimizer.init)(params), jax.jit(optimizer.update, static_argnums=4)
  for step in range(steps):
    params, state, _ = update(grads, state, params, step, steps)
  return params


def run_optax(rule, params, grads, steps=3):
  @jax.jit
  def update(params, state):
    updates, state = rule.update(grads, state, params)
    return optax.apply_updates(params, updates), state

  state = rule.init(params)
  for _ in range(steps):
    params, state = update(params, state)
  return params


@pytest.mark.parametrize(
  "rule, reference",
  [(adam, optax.adam(0.1)), (lambda: adam(weight_decay=0.1), optax.adamw(0.1, weight_decay=0.1)),
   (adafactor, optax.adafactor(0.1)), (lambda: adafactor(min_dim_size_to_factor=2), optax.adafactor(0.1, 2))],
)  # fmt: skip
def test_optimizer_equals_optax(rule, reference):
  grads = grads_like(PARAMS)
  ours = run(Optimizer(rule, RATE, clip_norm=None), PARAMS, grads)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), ours, run_optax(reference, PARAMS, grads)
  )


def test_rmsprop_is_torchs():
  torch = pytest.importorskip("torch")  # 2.13; Keras 1 and 2 have the same rule
  params = {"a": jnp.array([1.0, -2.0, 0.0])}
  theirs = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.0]))
  rule = torch.optim.RMSprop([theirs], lr=0.1, alpha=0.9, eps=1e-8)
  optimizer = Optimizer(rmsprop, RATE, clip_norm=None)
  state = optimizer.init(params)
  for step in range(4):
    # The last number shows where eps is: under the root it would count for more.
    grad = np.array([0.3 * step + 0.1, -2.0, 1e-7], np.float32)
    params, state, _ = optimizer.update({"a": jnp.asarray(grad)}, state, params, step, 4)
    theirs.grad = torch.tensor(grad)
    rule.step()
  np.testing.assert_allclose(params["a"], theirs.detach(), rtol=1e-5)


@pytest.mark.parametrize(
  "rule, theirs",
  [(adam, "Adam"), (sgd, "SGD"), (lambda: sgd(momentum=0.9), "SGD")],
  ids=["adam", "sgd", "momentum"],
)
def test_l2_in_the_loss_is_torchs_weight_decay(rule, theirs):
  torch = pytest.importorskip("torch")  # 2.13
  params = {"a": jnp.array([[1.0, -2.0], [0.5, 30.0]])}
  parameter = torch.nn.Parameter(torch.tensor(np.array(params["a"])))
  more = {"momentum": 0.9} if rule not in (adam, sgd) else {}
  reference = getattr(torch.optim, theirs)([parameter], lr=0.1, weight_decay=0.03, **more)
  optimizer = Optimizer(rule, RATE, clip_norm=None, l2=0.03)
  state = optimizer.init(params)
  for step in range(4):
    grad = np.array([[0.1 * step, -0.2], [0.01, 0.0]], np.float32)
    params, state, _ = optimizer.update({"a": jnp.asarray(grad)}, state, params, step, 4)
    parameter.grad = torch.tensor(grad)
    reference.step()
  np.testing.assert_allclose(params["a"], parameter.detach(), rtol=1e-4)


def test_l2_leaves_frozen_parameters_alone():
  optimizer = Optimizer(sgd, RATE, frozen=["^vit/"], l2=0.5)
  learning, frozen = optimizer.split(PARAMS)
  moved = run(optimizer, learning, jax.tree.map(jnp.zeros_like, learning), steps=1)
  np.testing.assert_allclose(moved["decoder"]["kernel"], 2.0 - 0.1 * 0.5 * 2.0, rtol=1e-6)
  assert frozen.keys() == {"vit"}
  with pytest.raises(UsageError, match="l2 is -1"):
    Optimizer(sgd, RATE, l2=-1)


def test_clips_by_global_norm():
  grads = grads_like(PARAMS, 100.0)
  small = jax.tree.map(lambda x: x / optax.tree.norm(grads), grads)

  def eps():
    return adam(eps=1.0)  # with it the size of a gradient matters to Adam

  clipped, plain = (
    run(Optimizer(eps, RATE, clip_norm=1.0), PARAMS, grads),
    run(Optimizer(eps, RATE, clip_norm=None), PARAMS, small),
  )
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), clipped, plain)


def test_first_matching_learning_rate_multiplier_applies():
  grads = grads_like(PARAMS)
  before = run(Optimizer(adam, RATE), PARAMS, grads, 1)
  after = run(Optimizer(adam, RATE, [("^vit/bias", 0.5), ("vit", 2.0)]), PARAMS, grads, 1)
  factors = {"vit": {"kernel": 2.0, "bias": 0.5}, "decoder": {"kernel": 1.0}}
  jax.tree.map(
    lambda a, b, start, factor: np.testing.assert_allclose(b - start, factor * (a - start), rtol=1e-5),
    before, after, PARAMS, factors,
  )  # fmt: skip


@pytest.mark.parametrize(
  "multipliers, message",
  [([("encoder", 2.0)], "'encoder' matches no parameter"),
   ([("vit", 2.0), ("vit/bias", 3.0)], "'vit/bias' matches no parameter, or only some that an earlier pattern matches"),
   ([("vit(", 2.0)], "'vit(' is not a regular expression"), ([("vit", "two")], "give a number above 0"),
   ([("vit", 0)], "freeze the parameters with Optimizer.frozen")],
)  # fmt: skip
def test_multipliers_without_effect_are_refused(multipliers, message):
  with pytest.raises(UsageError, match=message.replace("(", r"\(")):
    Optimizer(adam, RATE, multipliers).init(PARAMS)


def test_frozen_parameters_are_split_off():
  optimizer = Optimizer(adam, RATE, frozen=("^vit/",))
  learning, frozen = optimizer.split(PARAMS)
  assert set(learning) == {"decoder"} and set(frozen) == {"vit"}
  assert jax.tree.structure(merge(learning, frozen)) == jax.tree.structure(PARAMS)
  state = optimizer.init(learning)
  assert all(leaf.shape in ((), (3, 2)) for leaf in jax.tree.leaves(state))


@pytest.mark.parametrize(
  "frozen, message",
  [(["encoder"], "frozen: 'encoder' matches no parameter, or .* paths look like"),
   (["vit("], "frozen: 'vit(' is not a regular expression"), ([""], "nothing is left to learn")],
)  # fmt: skip
def test_frozen_patterns_matching_nothing_or_everything_are_refused(frozen, message):
  with pytest.raises(UsageError, match=message.replace("(", r"\(")):
    Optimizer(adam, RATE, frozen=frozen).split(PARAMS)


def layers(count):
  """Parameters with two stacks, whose layers all differ, and one outside of them."""
  rng = np.random.default_rng(0)

  def stack(depth):
    shapes = {"kernel": (4, 6), "bias": (6,)}
    return {"layers": {"mlp": {name: _normal(rng, depth, *shape) for name, shape in shapes.items()}}}

  return {"encoder": stack(count), "decoder": stack(2), "head": {"kernel": jnp.ones((3, 2))}}


def _normal(rng, *shape):
  # Layers of very different scales: a rule that took them as one would show.
  scale = 10.0 ** np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
  return jnp.asarray(scale * rng.normal(size=shape), jnp.float32)


@pytest.mark.parametrize("rule", [adam, lambda: adafactor(min_dim_size_to_factor=2)])
def test_each_layer_of_a_stack_learns_by_itself(rule):
  params, optimizer = layers(3), Optimizer(rule, RATE)
  grads = grads_like(params)
  expected = run(optimizer, stacking.unstack(params), stacking.unstack(grads))
  found = run(optimizer, params, grads)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), stacking.unstack(found), expected)


@pytest.mark.parametrize("frozen", ["layers_1/mlp/bias", "encoder/layers_[02]/", "layers/mlp/bias"])
def test_frozen_layers_stay_and_others_learn(frozen):
  params = layers(3)
  optimizer = Optimizer(adam, RATE, frozen=[frozen])
  learning, still = optimizer.split(params)
  grads = jax.tree.map(jnp.cos, learning)
  found = run(optimizer, learning, grads, 1)
  merged = stacking.unstack(merge(found, still))
  for path, before in traverse_util.flatten_dict(stacking.unstack(params), sep="/").items():
    names = (path, re.sub(r"layers_[0-9]+", "layers", path))
    after = traverse_util.flatten_dict(merged, sep="/")[path]
    assert np.array_equal(before, after) == any(re.search(frozen, name) for name in names), path


def test_layers_of_a_stack_have_multipliers_of_their_own():
  params = layers(3)
  grads = jax.tree.map(jnp.cos, params)

  def moved(multipliers):
    optimizer = Optimizer(adam, RATE, multipliers)
    new = run(optimizer, params, grads, 1)
    return stacking.unstack(jax.tree.map(jnp.subtract, new, params))

  plain, scaled = moved(()), moved([("encoder/layers_1/", 3.0), ("decoder/.*bias", 2.0)])
  for path, change in traverse_util.flatten_dict(scaled, sep="/").items():
    factor = (
      3.0 if path.startswith("encoder/layers_1/") else 2.0 if re.search("decoder/.*bias", path) else 1.0
    )
    before = traverse_util.flatten_dict(plain, sep="/")[path]
    np.testing.assert_allclose(change, factor * before, rtol=1e-3, atol=1e-5, err_msg=path)


def test_optimizer_reports_norms_of_each_part():
  optimizer = Optimizer(adam, RATE, clip_norm=0.01)  # norms of gradients are those before clipping
  params = {**PARAMS, "encoder": {"layers": {"scale": jnp.array([[1.0, 1.0], [2.0, 2.0]])}}}
  grads = grads_like(params)
  update = jax.jit(optimizer.update, static_argnums=4)
  after, _, measured = update(grads, optimizer.init(params), params, 0, 10)
  moved = jax.tree.map(jnp.subtract, params, after)
  for name, tree in (("grad", grads), ("update", moved), ("param", params)):
    for part in ("vit", "encoder", "decoder"):
      assert measured[f"{name}_norm/{part}"] == pytest.approx(float(optax.tree.norm(tree[part])), rel=1e-4)
  squares = [float(measured[f"grad_norm/{part}"]) ** 2 for part in params]
  assert measured["grad_norm"] == pytest.approx(sum(squares) ** 0.5, rel=1e-6)


def test_frozen_parameters_have_no_norms():
  optimizer = Optimizer(adam, RATE, frozen=("^vit/",))
  learning, _ = optimizer.split(PARAMS)
  *_, measured = jax.eval_shape(lambda of: optimizer.update(of, optimizer.init(of), of, 0, 10), learning)
  assert sorted(measured) == ["grad_norm", "grad_norm/decoder", "learning_rate", "param_norm/decoder",
                              "update_norm/decoder"]  # fmt: skip
