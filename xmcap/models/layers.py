"""Layers shared by ViT and T5; each parameter names its logical axes where it is made.

Logical axes of parameters, which `training/sharding.py` maps to the mesh: t5x's `embed`, `mlp`, `joined_kv`, `heads`,
`relpos_buckets`, `vocab`, `layers`; and `image_embed` (the ViT's width, in the projection to the T5's), `height`,
`width` and `channel` (inside a patch), `position` (of a patch in the image), `classes` (of the tagger), `head_embed`
and `head_vocab` (of the logits' kernel).
Logical axes of activations: `batch`, `length`, `embed`, `mlp`, `heads`, `kv`, `logits`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen import partitioning, spmd
from jax import lax
from jax.sharding import PartitionSpec

from xmcap.errors import UsageError

Initializer = Callable[..., jax.Array]

T5_KERNEL_INIT = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal")
T5_ATTENTION_INIT = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
VIT_KERNEL_INIT = nn.initializers.xavier_uniform()

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
  "gelu": lambda x: nn.gelu(x, approximate=False),
  "gelu_tanh": lambda x: nn.gelu(x, approximate=True),
  "quick_gelu": lambda x: x * nn.sigmoid(1.702 * x),
  "relu": nn.relu,
  "silu": nn.silu,
}

_DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


def resolve_dtype(name: str) -> jnp.dtype:
  """Returns the dtype of activations: `auto` is bfloat16 on an accelerator, float32 on a CPU.

  Raises:
    UsageError: for a name other than `auto`, `float32`, `bfloat16`.
  """
  check_dtype(name)
  if name == "auto":
    return jnp.dtype(jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16)
  return jnp.dtype(_DTYPES[name])


def check_dtype(name: str) -> None:
  """Raises UsageError as `resolve_dtype`, without initializing the devices before the hosts have joined."""
  if name != "auto" and name not in _DTYPES:
    raise UsageError(
      f"unknown dtype {name[:40]!r} in a model's configuration: use auto, {', '.join(_DTYPES)}"
    )


def mesh_axes(
  shape: Sequence[int], axes: Sequence[str | None], rules: Sequence[tuple[str, Any]], sizes: Mapping[str, int]
) -> list[tuple[str, ...]]:
  """The mesh axes over which each dimension of an array is sharded.

  A dimension takes the first rule whose mesh axes are free in the array, less those at the end that do not divide it: a
  search has few rows left at its end. Axes that do not divide one dimension are free for the others.

  Args:
    shape, axes: size and logical name of each dimension.
    rules: logical name -> mesh axes, in order of precedence.
    sizes: mesh axis -> number of devices.
  """
  of_axis = dict(zip(axes, shape, strict=True))
  dividing = []
  for logical, physical in rules:
    if logical not in of_axis:
      continue
    names = (physical,) if isinstance(physical, str) else tuple(physical or ())
    while of_axis[logical] % math.prod(sizes[name] for name in names):
      names = names[:-1]
    dividing.append((logical, names))
  assigned = spmd.logical_to_mesh_axes(tuple(axes), tuple(dividing))
  assert assigned is not None  # as `axes` is not
  return [(names,) if isinstance(names, str) else tuple(names or ()) for names in assigned]


def _mesh_axes(shape: tuple[int, ...], axes: tuple[str | None, ...]) -> list[tuple[str, ...]]:
  """`mesh_axes` by the rules and the mesh that are set; [] if there are none."""
  rules, sizes = nn.get_logical_axis_rules(), jax.sharding.get_abstract_mesh().shape
  return mesh_axes(shape, axes, rules, sizes) if rules and sizes else []


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
  """Shards an activation by the logical names of its axes; does nothing if no axis rules or no mesh are set."""
  spec = partition_spec(x.shape, *axes)
  return x if spec is None else lax.with_sharding_constraint(x, spec)


def partition_spec(shape: tuple[int, ...], *axes: str | None) -> PartitionSpec | None:
  """How `constrain` shards an activation of this shape; None if no axis rules or no mesh are set."""
  cut = _mesh_axes(shape, axes)
  return PartitionSpec(*(names or None for names in cut)) if cut else None


def pieces(shape: tuple[int, ...], *axes: str | None) -> int:
  """The number of pieces in which an activation lies on the mesh; 1 without axis rules or a mesh."""
  sizes = jax.sharding.get_abstract_mesh().shape
  return math.prod(sizes[name] for names in _mesh_axes(shape, axes) for name in names)


def parameter(
  name: str, init: Initializer, shape: tuple[int, ...], axes: tuple[str | None, ...], dtype: Any = jnp.float32
) -> jax.Array:
  """Makes a float32 parameter of the current module, and returns it in the dtype of the computation.

  The parameter may be sharded over `data` too, so that nothing is stored twice. It is gathered over that axis for the
  computation, after the cast, which halves the traffic.
  """
  # Without rules, because flax would gather it immediately, in float32.
  with nn.logical_axis_rules(()):
    # flax accepts None among the names, but its type hint does not.
    value = partitioning.param_with_axes(name, init, shape, jnp.float32, axes=axes)  # pyright: ignore[reportArgumentType]
  value = value.astype(dtype)
  cut = [tuple(axis for axis in names if axis != "data") for names in _mesh_axes(shape, axes)]
  return (
    lax.with_sharding_constraint(value, PartitionSpec(*(names or None for names in cut))) if cut else value
  )


def normalized(x: jax.Array) -> jax.Array:
  """Vectors [..., D] divided by their lengths, float32; 0 stays 0."""
  x = x.astype(jnp.float32)
  return x * lax.rsqrt(jnp.maximum(jnp.sum(jnp.square(x), axis=-1, keepdims=True), 1e-12))


@jax.custom_vjp
def accurate_product(x: jax.Array, kernel: jax.Array) -> jax.Array:
  """x [rows, in] times kernel [in, out] in float32, whatever the dtype of both.

  On a GPU its gradient is rounded to that dtype, as products of float32 take twice the time or more there. On a TPU
  they do not, as it rounds what it multiplies.
  """
  return jnp.dot(x, kernel, preferred_element_type=jnp.float32)


def _accurate_product_forward(x: jax.Array, kernel: jax.Array):
  return accurate_product(x, kernel), (x, kernel)


def _accurate_product_backward(factors: tuple[jax.Array, jax.Array], gradient: jax.Array):
  def products(dtype):
    def of_dtype(*arrays):
      x, kernel, gradient = (array.astype(dtype) for array in arrays)
      (of_x,) = jax.linear_transpose(lambda x: jnp.dot(x, kernel), x)(gradient)
      (of_kernel,) = jax.linear_transpose(lambda kernel: jnp.dot(x, kernel), kernel)(gradient)
      return of_x.astype(arrays[0].dtype), of_kernel.astype(arrays[1].dtype)

    return of_dtype

  rounded, exact = products(factors[0].dtype), products(gradient.dtype)
  return lax.platform_dependent(*factors, gradient, cuda=rounded, rocm=rounded, default=exact)


accurate_product.defvjp(_accurate_product_forward, _accurate_product_backward)


class Lora(NamedTuple):
  """A low-rank update of a kernel (Hu et al., 2022): its rank, 0 for none, and its factor, alpha / rank."""

  rank: int = 0
  scale: float = 1.0

  @classmethod
  def of(cls, adapter: str, rank: int, alpha: float) -> Self:
    """Returns the update of a tower whose adapter is `lora`, or none of any other; alpha 0 is that of factor 1."""
    return cls(rank, alpha / rank if alpha else 1.0) if adapter == "lora" else cls()


NO_LORA = Lora()


class Dense(nn.Module):
  """A dense layer with a 2-D kernel over the last axis: [..., in] -> [..., features] or [..., heads, kv].

  Attributes:
    features: size of the last axis of the output.
    axes: logical axes of the kernel; the bias has the last of them.
    use_bias: whether to add a bias.
    dtype: dtype of the computation; parameters are float32.
    accurate: whether the output is float32, as its products are accumulated (see `accurate_product`).
    lora: the LoRA update `adapter_in` `adapter_out`, which starts at 0.
    heads: number of heads into which the features are split; 0: none.
  """

  features: int
  axes: tuple[str, str]
  use_bias: bool = False
  dtype: Any = jnp.float32
  kernel_init: Initializer = T5_KERNEL_INIT
  bias_init: Initializer = nn.initializers.zeros
  accurate: bool = False
  lora: Lora = NO_LORA
  heads: int = 0

  def __call__(self, inputs: jax.Array) -> jax.Array:
    outputs, bias = self.project(inputs)
    split = (self.heads, self.features // self.heads) if self.heads else (self.features,)
    outputs = outputs.reshape(*outputs.shape[:-1], *split)
    # After the split: added before, a TPU's compiler would copy the sum into the layout of attention.
    return outputs if bias is None else outputs + bias.reshape(split)

  @nn.compact
  def project(self, inputs: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """The product [..., features], and the bias [features] that is not added yet."""
    shape = (inputs.shape[-1], self.features)
    kernel = parameter("kernel", self.kernel_init, shape, self.axes, self.dtype)
    product = accurate_product if self.accurate else jnp.dot
    outputs = product(inputs.astype(self.dtype), kernel)
    if self.lora.rank:
      sizes = ((shape[0], self.lora.rank), (self.lora.rank, shape[1]))
      inner = parameter(
        "adapter_in", nn.initializers.normal(0.02), sizes[0], (self.axes[0], None), self.dtype
      )
      outer = parameter("adapter_out", nn.initializers.zeros, sizes[1], (None, self.axes[1]), self.dtype)
      outputs += self.lora.scale * jnp.dot(jnp.dot(inputs.astype(self.dtype), inner), outer)
    if not self.use_bias:
      return outputs, None
    return outputs, parameter("bias", self.bias_init, shape[1:], self.axes[1:], self.dtype)


class RMSNorm(nn.Module):
  """T5's norm: x / rms(x) * scale, computed in float32. [..., embed] -> the same."""

  epsilon: float = 1e-6
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, inputs: jax.Array) -> jax.Array:
    scale = parameter("scale", nn.initializers.ones, inputs.shape[-1:], ("embed",))
    x = inputs.astype(jnp.float32)
    x = x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + self.epsilon)
    return (x * scale).astype(self.dtype)


class LayerNorm(nn.Module):
  """Layer norm with scale and bias, computed in float32. [..., embed] -> the same."""

  epsilon: float = 1e-6
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, inputs: jax.Array) -> jax.Array:
    shape = inputs.shape[-1:]
    scale = parameter("scale", nn.initializers.ones, shape, ("embed",))
    bias = parameter("bias", nn.initializers.zeros, shape, ("embed",))
    x = inputs.astype(jnp.float32)
    mean = jnp.mean(x, axis=-1, keepdims=True)
    # As flax's and big_vision's: both means come from one pass over `x`. Float32 loses digits by it only where the
    # mean is many times the deviation.
    variance = jnp.mean(jnp.square(x), axis=-1, keepdims=True) - jnp.square(mean)
    x = (x - mean) * lax.rsqrt(jnp.maximum(variance, 0.0) + self.epsilon)
    return (x * scale + bias).astype(self.dtype)


class Dropout(nn.Module):
  """Dropout with a mask that is shared along `broadcast_dims`, as in T5."""

  rate: float
  broadcast_dims: Sequence[int] = (-2,)

  @nn.compact
  def __call__(self, inputs: jax.Array, deterministic: bool) -> jax.Array:
    if self.rate == 0.0 or deterministic:
      return inputs
    return nn.Dropout(self.rate, broadcast_dims=self.broadcast_dims)(inputs, deterministic=False)
