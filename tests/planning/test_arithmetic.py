import jax
import jax.numpy as jnp
from jax import lax

from xmcap.planning.arithmetic import matmul_flops


def _shape(*sizes):
  return jax.ShapeDtypeStruct(sizes, jnp.float32)


def test_a_product_is_two_operations_a_multiplication():
  assert matmul_flops(jnp.dot, _shape(3, 5), _shape(5, 7)) == 2 * 3 * 5 * 7
  assert (
    matmul_flops(lambda a, b: jnp.einsum("bik,bkj->bij", a, b), _shape(4, 3, 5), _shape(4, 5, 7))
    == 8 * 3 * 5 * 7
  )


def test_gradients_of_a_product_are_two_more():
  loss = lambda a, b: jnp.sum(jnp.dot(a, b) ** 2)  # noqa: E731
  assert matmul_flops(jax.grad(loss, (0, 1)), _shape(3, 5), _shape(5, 7)) == 3 * 2 * 3 * 5 * 7


def test_loops_branches_and_functions_count():
  def steps(x, w):
    return lax.scan(lambda x, _: (jax.jit(jnp.dot)(x, w), None), x, length=6)[0]

  assert matmul_flops(steps, _shape(4, 4), _shape(4, 4)) == 6 * 2 * 64
  branch = lambda x: lax.cond(x[0, 0] > 0, lambda: x @ x @ x, lambda: x @ x)  # noqa: E731
  assert matmul_flops(branch, _shape(4, 4)) == 2 * 2 * 64


def test_a_convolution():
  def convolve(image, kernel):
    return lax.conv_general_dilated(
      image, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )

  assert matmul_flops(convolve, _shape(1, 8, 8, 3), _shape(3, 3, 3, 5)) == 2 * 36 * 5 * 27


def test_other_arithmetic_is_none():
  assert matmul_flops(lambda x: jnp.sum(jnp.exp(x)), _shape(9, 9)) == 0
