"""Counts the floating-point operations of a model's matrix products in its jaxpr, before compilation."""

import copy
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from flax import linen as nn
from jax.extend import core as jax_core

from xmcap.models.stacking import merge
from xmcap.training.reporting.chips import PEAK_FLOPS


def step_flops(
  objective: Any, optimizer: Any, params: Any, batch: Mapping[str, Any], remat: bool = False
) -> int:
  """Operations of all matrix products in the loss and its gradient; nothing is computed.

  `optimizer` is an `Optimizer`; `params` and `batch` hold arrays or their shapes. With `remat`, products that
  rematerialization repeats count twice.
  Otherwise each counts once, as model-flops utilisation is defined (Chowdhery et al. 2022, "PaLM", appendix B).
  """
  objective = _countable(objective, remat)
  learning, frozen = optimizer.split(params)

  def gradients(learning, frozen, batch, rng):
    return jax.grad(lambda learning: objective.loss(merge(learning, frozen), batch, rng, False)[0])(learning)

  rng = jax.eval_shape(lambda: jax.random.key(0))
  with nn.logical_axis_rules(()):  # the count does not depend on the mesh
    return matmul_flops(gradients, learning, frozen, dict(batch), rng)


def ideal_seconds(
  objective: Any, optimizer: Any, params: Any, devices: Sequence[Any], batch: Mapping[str, Any]
) -> float | None:
  """Seconds of a step whose matrix products run at the devices' peak; None if the peak is unknown.

  Divided by the seconds of a real step, this is the model-flops utilisation. See `step_flops`.
  """
  peak = PEAK_FLOPS.get(devices[0].device_kind)
  return None if peak is None else step_flops(objective, optimizer, params, batch) / (peak * len(devices))


def _countable(objective: Any, remat: bool) -> Any:
  """The objective with all products in its jaxpr, and without those of `remat` unless they count."""
  module: Any = getattr(objective, "module", None)
  if not isinstance(module, nn.Module):
    return objective
  # cuDNN's attention is one operation, whose products are not seen.
  settings = {"attention": "plain"} if remat else {"attention": "plain", "remat": "no"}
  changed = {}
  for field in dataclasses.fields(module):
    config = getattr(module, field.name)
    if changes := {name: value for name, value in settings.items() if hasattr(config, name)}:
      changed[field.name] = dataclasses.replace(config, **changes)
  objective = copy.copy(objective)
  objective.module = module.clone(**changed)
  return objective


def matmul_flops(function: Callable, *arguments: Any) -> int:
  """Operations of all matrix products and convolutions of a jax function: two for each multiplication.

  The body of a loop counts once per iteration; of several branches the largest counts. The arguments are arrays or
  their shapes.
  """
  return _of_jaxpr(jax.make_jaxpr(function)(*arguments).jaxpr)


def _of_jaxpr(jaxpr: jax_core.Jaxpr) -> int:
  total = 0
  for equation in jaxpr.eqns:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
      contracted = params["dimension_numbers"][0][0]
      left = _shape(equation.invars[0])
      total += 2 * math.prod(_shape(equation.outvars[0])) * math.prod(left[dim] for dim in contracted)
    elif name == "conv_general_dilated":
      kernel, numbers = _shape(equation.invars[1]), params["dimension_numbers"]
      inputs = math.prod(kernel) // kernel[numbers.rhs_spec[0]]
      total += 2 * math.prod(_shape(equation.outvars[0])) * inputs
    elif name == "cond":
      total += max(_of_jaxpr(branch.jaxpr) for branch in params["branches"])
    else:
      times = params["length"] if name == "scan" else 1
      total += times * sum(map(_of_jaxpr, jax_core.jaxprs_in_params(params)))
  return total


def _shape(operand: Any) -> tuple[int, ...]:
  return operand.aval.shape
