"""BB's training step on one GPU: milliseconds by part, utilisation, memory, seconds to compile; and variants of it.

usage: python benchmarks/gpu/training.py --json=FILE [--cases VARIANT:CAPTIONS:K ...] [--compile] [--tiny]
The program is the one that `xmcap plan --topology=h100` compiles and `xmcap train` runs: of gin's recipe, with
bfloat16, dropout and Adafactor; weights and batches are random. A step of C captions at K captions a picture
encodes C / K pictures. All programs are compiled side by side and then measured one by one, smallest memory first,
since the device tells only its peak so far; each begins with the same state, so that first losses must agree.
With --compile nothing is measured: the programs are in jax's cache for a process that begins with all of the memory.

Variants are in this file, not in the model, until a GPU has shown what they gain; several are joined by "+":
  no_graphs          without command buffers, which hide what a kernel belongs to; a profile tells the time by part
  cudnn_attention    attention without a bias (all of the ViT's layers) by cuDNN's kernel
  bfloat16_logits    logits accumulated in float32 and kept in bfloat16
  chunked_loss       the loss of a quarter of the tokens at a time, with its gradient, so that logits are never kept
"""

import concurrent.futures
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
from xmcap.training import objectives, sharding
from xmcap.training.reporting import flops

_BEST = "cudnn_attention+chunked_loss"
CASES = (
  "plain:128:8", "plain:128:1", "plain:512:8", "plain:512:1", "no_graphs:512:1",
  "cudnn_attention:512:1", "chunked_loss:512:1", "bfloat16_logits:512:1", f"{_BEST}:512:1", f"{_BEST}:512:8",
  f"{_BEST}+no_graphs:512:1",
)  # fmt: skip
_CHUNKS = 4
_NO_GRAPHS = {"xla_gpu_enable_command_buffer": ""}


def main() -> None:
  parser = recipe.options(__doc__)
  parser.add_argument("--cases", nargs="+", default=CASES, help="VARIANT:CAPTIONS:K, captions a picture")
  parser.add_argument("--steps", type=int, default=10, help="of which the time is taken together")
  parser.add_argument("--device", type=pathlib.Path, help="device.py's figures, for the utilisation")
  parser.add_argument("--compile", action="store_true", help="compile, and measure nothing else")
  arguments = parser.parse_args()
  product = recipe.read(arguments.device).get("product_tflops") if arguments.device else None
  found = []
  with recipe.turn(alone=False), concurrent.futures.ThreadPoolExecutor(len(arguments.cases)) as pool:
    cases = [Case(case, arguments.tiny) for case in arguments.cases]
    programs = [pool.submit(case.compile, case.lower()) for case in cases]
  for case, program in zip(cases, programs, strict=True):
    try:
      compiled, compile_seconds = program.result()
      measured = {"compile_seconds": compile_seconds}
      if not arguments.compile:
        with recipe.turn(alone=True):
          measured |= case.measure(compiled, arguments.steps, arguments.json.with_name(f"step_{len(found)}"))
        measured["utilisation"] = product and measured["tflops"] / product
    except jax.errors.JaxRuntimeError as error:
      measured = {"error": str(error).partition("\n")[0][:300]}
    found.append({**case.names(), **measured})
    recipe.write(arguments.json, found)
    print({name: value for name, value in found[-1].items() if not isinstance(value, dict)}, flush=True)


class Case:
  """One step to measure.

  Attributes:
    run: the run as gin configures it.
  """

  def __init__(self, case: str, tiny: bool):
    self.variant, captions, captions_per_image = case.split(":")
    self.profiled = "no_graphs" in self.variant
    configuration.parse(recipe.FILES, recipe.bindings(int(captions), int(captions_per_image), tiny))
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
    with _changed(self.variant):
      self.plan, lowered = step_lib.lower(self.run, [self.device])
    return lowered

  def compile(self, lowered: Any) -> tuple[Any, float]:
    """The program, and the seconds in which it was compiled, beside others."""
    began = time.perf_counter()
    on_gpu = self.device.platform == "gpu"
    compiled = lowered.compile(compiler_options=_NO_GRAPHS if self.profiled and on_gpu else None)
    return compiled, time.perf_counter() - began

  def measure(self, compiled: Any, steps: int, keep: pathlib.Path) -> dict[str, Any]:
    """Times the step, from a fresh state; if it is profiled, that and the program are kept at KEEP.*."""
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
    found |= {
      "step_ms": seconds * 1e3, "spread_ms": (max(times) - min(times)) * 1e3,
      "captions_per_second": run.batch_size / seconds, "model_tflop": work / 1e12, "tflops": work / seconds / 1e12,
      "peak_bytes": peak, "peak_is_own": bool(peak and before and peak > before),
      "memory": _memory(compiled.memory_analysis()), **_counted(compiled),
    }  # fmt: skip
    if self.profiled:
      found |= parts.measure(lambda: several(2), compiled.as_text(), 2, keep)
    return found

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


@contextlib.contextmanager
def _changed(variant: str) -> Iterator[None]:
  """The model as the variant has it, while it is traced."""
  with contextlib.ExitStack() as changes:
    for name in variant.split("+"):
      for change in _CHANGES[name]():
        changes.enter_context(change)
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
_LOGITS = t5.Decoder.logits


def _hidden(decoder, hidden: jax.Array) -> jax.Array:
  """`Decoder.logits` that leaves the product to the loss."""
  return _LOGITS(decoder, hidden) if decoder.is_initializing() else hidden


def chunked_loss(objective, params, batch, rng, deterministic):
  """`CaptionObjective.loss` of a model whose output is the input of the logits."""
  inputs = batch["image"], batch["prompt_tokens"], batch["target_tokens"]
  hidden = objective.module.apply({"params": params}, *inputs, deterministic, rngs={"dropout": rng})
  kernel = params["decoder"]["logits_dense"]["kernel"]
  targets, weights = batch["target_tokens"].ravel(), batch["target_weights"].ravel()
  loss, metrics = _losses(hidden.reshape(-1, hidden.shape[-1]), kernel, targets, weights, objective.z_loss)
  return loss, metrics | {"weight": jnp.sum(weights)}


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _losses(hidden, kernel, targets, weights, z_loss):
  """The mean loss of tokens [N] whose logits are `hidden` [N, E] times `kernel` [E, V], and the metrics."""
  return _losses_and_gradients(hidden, kernel, targets, weights, z_loss)[0]


def _losses_and_gradients(hidden, kernel, targets, weights, z_loss):
  kernel = kernel.astype(hidden.dtype)
  shares = weights / jnp.maximum(jnp.sum(weights), 1e-9)

  def chunk(gradient, tokens):
    hidden, targets, shares = tokens
    logits = jnp.dot(hidden, kernel, preferred_element_type=jnp.float32)
    log_z = jax.nn.logsumexp(logits, axis=-1)
    right = jax.lax.broadcasted_iota(targets.dtype, logits.shape, 1) == targets[:, None]
    of_targets = jnp.sum(jnp.where(right, logits, 0.0), axis=-1)
    cross_entropy = log_z - of_targets
    scale = (shares * (1 + 2 * z_loss * log_z))[:, None]
    change = jnp.exp(logits - log_z[:, None]) * scale - jnp.where(right, shares[:, None], 0.0)
    change = change.astype(hidden.dtype)
    gradient += jnp.dot(hidden.T, change, preferred_element_type=jnp.float32)
    found = {
      "cross_entropy": cross_entropy,
      "accuracy": of_targets >= jnp.max(logits, -1),
      "loss": cross_entropy + z_loss * jnp.square(log_z),
    }
    return gradient, ({name: jnp.sum(values * shares) for name, values in found.items()}, change @ kernel.T)

  chunks = jax.tree.map(lambda x: x.reshape(_CHUNKS, -1, *x.shape[1:]), (hidden, targets, shares))
  gradient, (found, of_hidden) = jax.lax.scan(chunk, jnp.zeros(kernel.shape, jnp.float32), chunks)
  metrics = {name: jnp.sum(values) for name, values in found.items()}
  loss = metrics.pop("loss")
  return (loss, metrics), (of_hidden.reshape(hidden.shape), gradient)


def _backward(z_loss, gradients, given):
  del z_loss
  return *(x * given[0].astype(x.dtype) for x in gradients), None, None


_losses.defvjp(_losses_and_gradients, _backward)
_CHANGES = {
  "plain": lambda: (),
  "no_graphs": lambda: (),
  "cudnn_attention": lambda: (
    mock.patch.object(attention, "attend", functools.partial(attend, attention.attend)),
  ),
  "bfloat16_logits": lambda: (mock.patch.object(t5, "Dense", _dense),),
  "chunked_loss": lambda: (
    mock.patch.object(t5.Decoder, "logits", _hidden),
    mock.patch.object(objectives.CaptionObjective, "loss", chunked_loss),
  ),
}
"""Variant -> what is replaced while its step is traced."""


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
