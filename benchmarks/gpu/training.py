"""BB's training step on one GPU: milliseconds by part, utilisation, memory, seconds to compile; and variants of it.

usage: python benchmarks/gpu/training.py --json=FILE [--cases VARIANT:CAPTIONS:K ...] [--profile] [--tiny]
The program is the one that `xmcap plan --topology=h100` compiles and `xmcap train` runs: of gin's recipe, with
bfloat16, dropout and Adafactor; weights and batches are random. A step of C captions at K captions a picture
encodes C / K pictures. All programs are compiled side by side and then measured one by one, smallest memory first,
since the device tells only its peak so far; each begins with the same state, so that first losses must agree.
--profile tells the time by part, of the same program: XLA leaves out command buffers, which hide what a kernel belongs
to, while it is profiled (its flag xla_enable_command_buffers_during_profiling).

Variants take something from the program, several are joined by "+"; `default` is the program as it is:
  plain_attention    cuDNN's kernel in the ViT
  whole_loss         the parts of the loss: the logits of all tokens at once
  two_passes         the one pass of the loss over the logits
"""

import concurrent.futures
import functools
import math
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
from xmcap.planning import gpus
from xmcap.planning import run as run_lib
from xmcap.planning import step as step_lib
from xmcap.training import compilation_cache, sharding, token_loss
from xmcap.training.reporting import flops

CASES = ("default:512:8", "default:512:1")
# Compilers of more programs slow down each other, and the peer's.
_AT_ONCE = 4
_MOST_BYTES = token_loss.MOST_BYTES


def main() -> None:
  parser = recipe.options(__doc__)
  parser.add_argument("--cases", nargs="+", default=CASES, help="VARIANT:CAPTIONS:K, captions a picture")
  parser.add_argument("--steps", type=int, default=5, help="of which the time is taken together")
  parser.add_argument("--profile", action="store_true", help="the time by part")
  arguments = parser.parse_args()
  with recipe.turn(alone=False), concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
    cases = [Case(case, arguments.tiny) for case in arguments.cases]
    programs = [pool.submit(case.compile, case.lower()) for case in cases]
  steps = [case.names() for case in cases]
  for number, (case, program, step) in enumerate(zip(cases, programs, steps, strict=True)):
    keep = (
      arguments.json.parent / "profiles" / f"{arguments.json.stem}_{number}" if arguments.profile else None
    )
    try:
      with recipe.turn(alone=True):
        # What did not fit the memory beside others may fit alone.
        result = case.compile(case.lower()) if program.exception() else program.result()
        compiled, step["compile_seconds"] = result
        for figures in case.measure(compiled, arguments.steps, keep):
          step |= figures
          recipe.write(arguments.json, steps[: number + 1])
    except jax.errors.JaxRuntimeError as error:
      step["error"] = str(error).partition("\n")[0][:300]
      recipe.write(arguments.json, steps[: number + 1])
    print({name: value for name, value in step.items() if not isinstance(value, dict)}, flush=True)


class Case:
  """One step to measure.

  Attributes:
    run: the run as gin configures it.
  """

  def __init__(self, case: str, tiny: bool):
    self.variant, captions, captions_per_image = case.split(":")
    given = recipe.bindings(int(captions), int(captions_per_image), tiny)
    if "plain_attention" in self.variant or jax.default_backend() == "cpu":
      given.append("ViTConfig.attention=plain")
    if "two_passes" in self.variant:
      given.append("CaptionObjective.one_pass=False")
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

  def lower(self) -> Any:
    """The step as it is traced, of the variant."""
    with mock.patch.object(
      token_loss, "MOST_BYTES", math.inf if "whole_loss" in self.variant else _MOST_BYTES
    ):
      self.plan, lowered = step_lib.lower(self.run, [self.device])
    return lowered

  def compile(self, lowered: Any) -> tuple[Any, float | None]:
    """The program, and the seconds in which it was compiled, beside others; None: it came out of jax's cache."""
    began, programs = time.perf_counter(), compilation_cache.programs()
    compiled = lowered.compile()
    is_cached = compilation_cache.programs().found > programs.found
    return compiled, None if is_cached else time.perf_counter() - began

  def measure(self, compiled: Any, steps: int, keep: pathlib.Path | None) -> Iterator[dict[str, Any]]:
    """Times the step, from a fresh state; then profiles it, and keeps that and the program at KEEP.*."""
    run, device = self.run, self.device
    batch = jax.device_put(self._batch(), sharding.batch_sharding(self.plan.mesh))
    before = _peak(device)
    state, metrics = compiled(_state(self.plan.target), batch)
    found = {"loss": float(metrics["loss"]), "grad_norm": float(metrics["grad_norm"])}

    def several(count):
      nonlocal state
      for _ in range(count):
        state, metrics = compiled(state, batch)
      return metrics

    times = []
    for _ in range(5):
      began = time.perf_counter()
      jax.block_until_ready(several(steps))
      times.append((time.perf_counter() - began) / steps)
    seconds = statistics.median(times)
    work = flops.step_flops(run.objective, run.optimizer, self.plan.target.params, batch)
    peak = _peak(device)
    yield found | {
      "step_ms": seconds * 1e3, "spread_ms": (max(times) - min(times)) * 1e3,
      "captions_per_second": run.batch_size / seconds, "model_tflop": work / 1e12, "tflops": work / seconds / 1e12,
      "peak_bytes": peak, "peak_is_own": bool(peak and before and peak > before),
      "memory": _memory(compiled.memory_analysis()), **_counted(compiled),
    }  # fmt: skip
    if keep:
      yield parts.measure(lambda: several(2), compiled.as_text(), 2, keep)

  def _batch(self) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = self.run.objective.module.t5.vocab_size

    def draw(name, shape, dtype):
      if name == "target_weights":
        return np.ones(shape, dtype)
      return rng.integers(*((0, 256) if name == "image" else (2, rows)), shape).astype(dtype)

    return {name: draw(name, *given) for name, given in self.run.shapes.items()}


def _state(target: Any) -> Any:
  """A state of small random numbers, always the same; leaf by leaf, since one function of all compiles for minutes."""
  make = {}

  def fresh(leaf):
    kind = leaf.shape, leaf.dtype, leaf.sharding
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
      return jax.device_put(np.zeros(leaf.shape, leaf.dtype), leaf.sharding)
    if kind not in make:
      draw = functools.partial(jax.random.normal, shape=leaf.shape, dtype=leaf.dtype)
      make[kind] = jax.jit(lambda key: 0.02 * draw(key), out_shardings=leaf.sharding)
    return make[kind](jax.random.key(0))

  return jax.tree.map(fresh, target)


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
