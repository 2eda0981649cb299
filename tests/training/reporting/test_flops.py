import dataclasses

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from xmcap.families.tagging.vit_objective import TagObjective
from xmcap.models.vit import ViTConfig
from xmcap.training.optimizer import Optimizer
from xmcap.training.reporting.flops import ideal_seconds, matmul_flops, step_flops


def _shape(*sizes):
  return jax.ShapeDtypeStruct(sizes, jnp.float32)


def test_matmul_flops_of_a_product():
  assert matmul_flops(jnp.dot, _shape(3, 5), _shape(5, 7)) == 2 * 3 * 5 * 7
  assert (
    matmul_flops(lambda a, b: jnp.einsum("bik,bkj->bij", a, b), _shape(4, 3, 5), _shape(4, 5, 7))
    == 8 * 3 * 5 * 7
  )


def test_matmul_flops_of_gradients():
  loss = lambda a, b: jnp.sum(jnp.dot(a, b) ** 2)  # noqa: E731
  assert matmul_flops(jax.grad(loss, (0, 1)), _shape(3, 5), _shape(5, 7)) == 3 * 2 * 3 * 5 * 7


def test_loops_branches_and_functions_count():
  def steps(x, w):
    return lax.scan(lambda x, _: (jax.jit(jnp.dot)(x, w), None), x, length=6)[0]

  assert matmul_flops(steps, _shape(4, 4), _shape(4, 4)) == 6 * 2 * 64
  branch = lambda x: lax.cond(x[0, 0] > 0, lambda: x @ x @ x, lambda: x @ x)  # noqa: E731
  assert matmul_flops(branch, _shape(4, 4)) == 2 * 2 * 64


def test_matmul_flops_of_a_convolution():
  def convolve(image, kernel):
    return lax.conv_general_dilated(
      image, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )

  assert matmul_flops(convolve, _shape(1, 8, 8, 3), _shape(3, 3, 3, 5)) == 2 * 36 * 5 * 27


def test_matmul_flops_of_elementwise_operations_are_0():
  assert matmul_flops(lambda x: jnp.sum(jnp.exp(x)), _shape(9, 9)) == 0


def _tag_run(vit):
  """An objective, shapes of its parameters, and of a batch of two pictures of 16 x 16."""
  objective = TagObjective(vit=vit, num_classes=5, num_slots=2)
  batch = {
    "image": jax.ShapeDtypeStruct((2, 16, 16, 3), jnp.uint8),
    "tags": jax.ShapeDtypeStruct((2, 2), jnp.int32),
  }
  params = jax.eval_shape(lambda batch: objective.init(jax.random.key(0), batch), batch)["params"]
  return objective, params, batch


def _tag_step(vit, optimizer=None, **options):
  objective, params, batch = _tag_run(vit)
  return step_flops(objective, Optimizer(**optimizer or {}), params, batch, **options)


@pytest.fixture
def vit():
  return ViTConfig(width=8, depth=2, mlp_dim=16, num_heads=2, patch_size=8, image_size=16, pool="gap")


def test_remat_flops_count_only_with_remat(vit):
  again = dataclasses.replace(vit, remat="full")
  assert _tag_step(again) == _tag_step(vit) == _tag_step(vit, remat=True) < _tag_step(again, remat=True)


def test_frozen_parameters_have_no_gradient_flops(vit):
  assert _tag_step(vit, optimizer={"frozen": ("^vit/",)}) < 0.6 * _tag_step(vit)


class _Device:
  def __init__(self, device_kind):
    self.device_kind = device_kind


def test_ideal_seconds_of_a_step(vit):
  objective, params, batch = _tag_run(vit)
  seconds = ideal_seconds(objective, Optimizer(), params, [_Device("TPU v4")] * 4, batch)
  assert seconds == pytest.approx(_tag_step(vit) / (4 * 275e12))
  assert ideal_seconds(objective, Optimizer(), params, jax.devices(), batch) is None  # a CPU
