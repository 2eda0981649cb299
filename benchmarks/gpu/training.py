"""BB's training step on one GPU: milliseconds by part, utilisation, memory, seconds to compile; and variants of it.

usage: python benchmarks/gpu/training.py --json=FILE [--captions 128 512] [--ks 8 1] [--variants plain ...] [--tiny]
The program is the one that `xmcap plan --topology=h100` compiles and `xmcap train` runs: of gin's recipe, with
bfloat16, dropout and Adafactor; weights and batches are random. A step of C captions at K captions a picture
encodes C / K pictures. All run in one process, smallest memory first, since the device tells only its peak so far; on
one state, or if variants are compared, each on a fresh one, so that their first losses must agree.

Variants are in this file, not in the model, until a GPU has shown what they gain:
  cudnn_attention    attention without a bias (all of the ViT's layers) by cuDNN's kernel
  bfloat16_logits    logits accumulated in float32 and kept in bfloat16
  microbatches       four times the captions, in four microbatches
"""

import contextlib
import functools
import pathlib
import statistics
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import parts
import recipe

from xmcap import configuration
from xmcap.models import attention, t5
from xmcap.planning import gpus
from xmcap.planning import run as run_lib
from xmcap.planning import step as step_lib
from xmcap.training import sharding
from xmcap.training.reporting import flops

VARIANTS = ("plain", "cudnn_attention", "bfloat16_logits", "microbatches")
_PARTS = 4
# CUDA graphs hide which operation a kernel belongs to.
_NO_GRAPHS = {"xla_gpu_enable_command_buffer": ""}
_NAMED_ENOUGH = 0.8


def main() -> None:
  parser = recipe.options(__doc__)
  parser.add_argument("--captions", type=int, nargs="+", default=[128, 512], help="of a step")
  parser.add_argument("--ks", type=int, nargs="+", default=[8, 1], help="captions a picture")
  parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["plain"])
  parser.add_argument("--steps", type=int, default=10, help="of which the time is taken together")
  parser.add_argument("--device", type=pathlib.Path, help="device.py's figures, for the utilisation")
  arguments = parser.parse_args()
  product = recipe.read(arguments.device).get("product_tflops") if arguments.device else None
  state, found = None, []
  for captions in arguments.captions:
    for captions_per_image in arguments.ks:
      for variant in arguments.variants:
        case = Case(variant, captions, captions_per_image, arguments.tiny)
        if len(arguments.variants) > 1:
          state = None  # their losses are comparable from the same state alone
        try:
          state, measured = case.measure(state, arguments.steps)
          measured["utilisation"] = product and measured["tflops"] / product
        except jax.errors.JaxRuntimeError as error:
          # The state was given to the step that failed.
          state, measured = None, {"error": str(error).partition("\n")[0][:300]}
        measured["compiled_first"] = not found
        found.append({**case.names(), **measured})
        recipe.write(arguments.json, found)
        print({name: value for name, value in found[-1].items() if not isinstance(value, dict)}, flush=True)


class Case:
  """One step to measure.

  Attributes:
    run: the run as gin configures it.
  """

  def __init__(self, variant: str, captions: int, captions_per_image: int, tiny: bool):
    self.variant = variant
    many = _PARTS if variant == "microbatches" else 1
    given = recipe.bindings(captions * many, captions_per_image, many, tiny)
    configuration.parse(recipe.FILES, given)
    self.device = jax.devices()[0]
    self.topology = recipe.topology(self.device.device_kind)
    topology = gpus.parse(self.topology)
    assert topology is not None
    self.run = run_lib.of_gin(topology)

  def names(self) -> dict[str, Any]:
    """What the step is."""
    return {
      "topology": self.topology, "model": "bb", "variant": self.variant,
      "microbatches": self.run.variant.microbatches, "captions_per_image": self.run.variant.captions_per_image,
      "captions": self.run.batch_size, "tokens": self.run.target_length, "prompt": self.run.prompt_length,
      "dtype": "bfloat16",
    }  # fmt: skip

  def measure(self, state: Any, steps: int) -> tuple[Any, dict[str, Any]]:
    """Compiles and times the step, from `state` or, if it is None, a fresh one; returns the state after it, too."""
    run, device = self.run, self.device
    with _changed(self.variant):
      plan, lowered = step_lib.lower(run, [device])
      began = time.perf_counter()
      compiled = lowered.compile()
    found: dict[str, Any] = {"compile_seconds": time.perf_counter() - began}
    batch = jax.device_put(self._batch(), sharding.batch_sharding(plan.mesh))
    state = plan.create() if state is None else state
    before = _peak(device)
    state, metrics = compiled(state, batch)
    found |= {"loss": float(metrics["loss"]), "grad_norm": float(metrics["grad_norm"])}

    def several(program, count):
      nonlocal state
      for _ in range(count):
        state, metrics = program(state, batch)
      return metrics

    times = []
    for _ in range(5):
      began = time.perf_counter()
      jax.block_until_ready(several(compiled, steps))
      times.append((time.perf_counter() - began) / steps)
    seconds = statistics.median(times)
    work = flops.step_flops(run.objective, run.optimizer, plan.target.params, batch)
    peak = _peak(device)
    found |= {
      "step_ms": seconds * 1e3, "spread_ms": (max(times) - min(times)) * 1e3,
      "captions_per_second": run.batch_size / seconds, "model_tflop": work / 1e12, "tflops": work / seconds / 1e12,
      "peak_bytes": peak, "peak_is_own": bool(peak and before and peak > before),
      "memory": _memory(compiled.memory_analysis()), **_counted(compiled),
    }  # fmt: skip
    found |= parts.measure(lambda: several(compiled, 2), compiled.as_text(), 2)
    found["graphs_in_profile"] = True
    if device.platform == "gpu" and found["parts_share"] < _NAMED_ENOUGH and self.variant == "plain":
      apart = lowered.compile(compiler_options=_NO_GRAPHS)
      several(apart, 1)
      found |= parts.measure(lambda: several(apart, 2), apart.as_text(), 2)
      found["graphs_in_profile"] = False
    return state, found

  def _batch(self) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = self.run.objective.module.t5.vocab_size

    def draw(name, shape, dtype):
      if name == "target_weights":
        return np.ones(shape, dtype)
      return rng.integers(*((0, 256) if name == "image" else (2, rows)), shape).astype(dtype)

    return {name: draw(name, *given) for name, given in self.run.shapes.items()}


@contextlib.contextmanager
def _changed(variant: str) -> Iterator[None]:
  """The model as the variant has it, while it is traced."""
  if variant == "cudnn_attention":
    with mock.patch.object(attention, "attend", functools.partial(attend, attention.attend)):
      yield
  elif variant == "bfloat16_logits":
    with mock.patch.object(t5, "Dense", _dense):
      yield
  else:
    yield


def attend(plain, query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None) -> jax.Array:
  """`attention.attend` by cuDNN where it can: several queries and no bias. Elsewhere than on a GPU, by XLA."""
  if bias is not None or query.shape[1] == 1 or query.dtype == jnp.float32:
    return plain(query, key, value, bias)
  with_cudnn = jax.default_backend() == "gpu"
  return jax.nn.dot_product_attention(
    query,
    key.swapaxes(1, 2),
    value.swapaxes(1, 2),
    scale=1.0,
    implementation="cudnn" if with_cudnn else "xla",
  )


def _dense(*arguments, out_dtype=None, **options):
  """`layers.Dense` whose output has the dtype of the computation; products are accumulated in float32 anyway."""
  del out_dtype
  return _DENSE(*arguments, **options)


_DENSE = t5.Dense


def _peak(device: Any) -> int | None:
  return (device.memory_stats() or {}).get("peak_bytes_in_use")


def _memory(analysis: Any) -> dict[str, int]:
  """Bytes that the compiled program allocates, added up as by `xmcap plan`."""
  kinds = {
    "arguments": analysis.argument_size_in_bytes, "temporaries": analysis.temp_size_in_bytes,
    "outputs": analysis.output_size_in_bytes, "aliased": analysis.alias_size_in_bytes,
    "code": analysis.generated_code_size_in_bytes,
  }  # fmt: skip
  results = max(0, kinds["outputs"] - kinds["aliased"])
  return {**kinds, "total": kinds["arguments"] + kinds["temporaries"] + results + kinds["code"]}


def _counted(compiled: Any) -> dict[str, float | None]:
  """What XLA says of the program: operations and bytes accessed; the body of a loop counts once."""
  analysis = compiled.cost_analysis() or {}
  operations, accessed = analysis.get("flops"), analysis.get("bytes accessed")
  return {"xla_tflop": operations and operations / 1e12, "xla_gb": accessed and accessed / 1e9}


if __name__ == "__main__":
  main()
