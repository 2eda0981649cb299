"""tiny, BB and Bg on a GPU or TPU: captions a second and model-flops utilisation of training, and decoding.

usage: python benchmarks/accelerator.py [--models tiny bb bg] [--captions=128] [--pictures=32]

tiny is the quickstart's model, with as many rows as its vocabulary has; decoding is for 36 languages.

In bfloat16 as the gin files say, one device, random weights and pictures; medians of 5. A training step is the real
one (loss, z-loss, dropout, Adafactor) on as many captions at K = 1 as at K = 8, so it encodes captions / K pictures.
Where that does not fit the memory, the number is halved until it does, and that is said.

Utilisation is flops of the model / flops that a large product of matrices of the same dtype reached in the same run.
Flops of the model are counted by formula (`model_flops`), so what rematerialisation computes again does not count.

On a CPU everything is made small, and the last line says what could not be measured.
"""

import argparse
import dataclasses
import functools
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from xmcap import configuration
from xmcap.models.captioner import Captioner
from xmcap.models.decoding.beam_search import Beam
from xmcap.models.decoding.generator import Generator, Greedy
from xmcap.models.layers import resolve_dtype
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training import step as step_lib
from xmcap.training.objectives import CaptionObjective
from xmcap.training.optimizer import Optimizer

_LANGUAGES, _PROMPT, _TARGETS = 36, 4, 32
# Of the vocabulary that quickstart.sh trains.
_ROWS_OF_TINY = 4_500
_CPU = jax.default_backend() == "cpu"
_SMALL = {
  "vit": {"depth": 2},
  "t5": {"num_encoder_layers": 1, "num_decoder_layers": 1, "vocab_size": 8_192},
}


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
  parser.add_argument(
    "--models", nargs="+", default=["tiny", "bb"] if _CPU else ["tiny", "bb", "bg"], help="of gin/models"
  )
  parser.add_argument("--captions", type=int, default=8 if _CPU else 128, help="of a training step")
  parser.add_argument(
    "--pictures", type=int, default=2 if _CPU else 32, help="decoded at once, in 36 languages"
  )
  parser.add_argument(
    "--max_length", type=int, default=8 if _CPU else _TARGETS, help="tokens of a decoded caption"
  )
  parser.add_argument(
    "--remat", nargs="*", default=["bg", "lg"], help="models whose ViT recomputes activations"
  )
  parser.add_argument("--scan", action="store_true", help="over the layers: compiles sooner")
  parser.add_argument(
    "--steps", type=int, default=2 if _CPU else 10, help="of which the time is taken together"
  )
  arguments = parser.parse_args()
  device = jax.devices()[0]
  print(f"{device.device_kind} ({jax.default_backend()}), jax {jax.__version__}, one device")
  dtype = resolve_dtype("auto")
  peak = product_flops(dtype)
  print(f"a product of large {dtype.name} matrices: {peak / 1e12:.2f} Tflop/s")
  for model in arguments.models:
    vit, t5 = configured(model, model in arguments.remat, arguments.scan)
    for captions_per_image in (1, 8):
      train(model, vit, t5, arguments.captions, captions_per_image, arguments.steps, peak)
    for search in (Greedy(), Beam()):
      decode(model, vit, t5, search, arguments.pictures, arguments.max_length)
  if _CPU:
    print(
      "not measured, for want of a GPU or TPU: bfloat16, full depth and vocabulary, and Bg; the figures above are of "
      f"2 + 1 + 1 layers, {_SMALL['t5']['vocab_size']:,} rows and {dtype.name}, and say only that the script runs"
    )


def configured(model: str, remat: bool, scan: bool) -> tuple[ViTConfig, T5Config]:
  """The configurations of a gin file of `models/`; made small on a CPU."""
  rows = [f"T5Config.vocab_size={_ROWS_OF_TINY}"] if model == "tiny" else []
  configuration.parse([f"models/{model}.gin"], [*rows, f"ViTConfig.remat={remat}"])
  # As `scan` is asked for here.
  vit, t5 = dataclasses.replace(ViTConfig(), scan=scan), dataclasses.replace(T5Config(), scan=scan)
  if _CPU and model != "tiny":
    vit, t5 = dataclasses.replace(vit, **_SMALL["vit"]), dataclasses.replace(t5, **_SMALL["t5"])
  return vit, t5


# ---- flops ----------------------------------------------------------------------------------------


def model_flops(
  vit: ViTConfig, t5: T5Config, pictures: int, captions: int, prompt: int, targets: int
) -> float:
  """Flops of a training step, multiplications and additions counted apart.

  Forward: 2 x kernel x tokens for each product with a kernel, 4 x queries x keys x width for each attention (logits
  and weighted sum, causal ones counted whole); norms, softmax, activations and look-ups count nothing. The ViT is
  counted for each picture, the T5 for each caption. Backward is twice the forward. So it is 6 x parameters x tokens
  of the dense parts, plus attention, plus logits.
  """
  n = vit.num_patches + (vit.pool == "tok")
  kernels = 4 * vit.width**2 + 2 * vit.width * vit.mlp_dim
  picture = 2 * vit.num_patches * vit.patch_size**2 * 3 * vit.width
  picture += vit.depth * (2 * n * kernels + 4 * n * n * vit.width)
  if vit.pool == "map":
    # Keys and values of all tokens; query, output and MLP of one.
    picture += 2 * (2 * n * vit.width**2 + 2 * vit.width**2 + 2 * vit.width * vit.mlp_dim) + 4 * n * vit.width
  picture += 2 * vit.num_tokens * vit.width * t5.emb_dim

  joined, inputs = t5.num_heads * t5.head_dim, vit.num_tokens + prompt
  project, mlp = t5.emb_dim * joined, 3 * t5.emb_dim * t5.mlp_dim
  caption = t5.num_encoder_layers * (2 * inputs * (4 * project + mlp) + 4 * inputs**2 * joined)
  caption += t5.num_decoder_layers * (
    2 * targets * (4 * project + 2 * project + mlp)
    + 2 * inputs * 2 * project
    + 4 * targets * (targets + inputs) * joined
  )
  caption += 2 * targets * t5.emb_dim * t5.vocab_size
  return 3.0 * (pictures * picture + captions * caption)


def product_flops(dtype: jnp.dtype) -> float:
  """Flops a second of a chain of products of square matrices, the best of three sizes."""
  sizes = (1_024, 2_048) if _CPU else (4_096, 8_192, 16_384)
  chain = 2 if _CPU else 20

  @functools.partial(jax.jit, static_argnums=2)
  def run(x, y, count):
    return jax.lax.fori_loop(0, count, lambda _, x: jnp.dot(x, y), x)

  best = 0.0
  for size in sizes:
    x = jax.random.normal(jax.random.key(0), (size, size), dtype)
    y = jax.random.normal(jax.random.key(1), (size, size), dtype) * size**-0.5
    seconds = median(lambda x=x, y=y: run(x, y.astype(dtype), chain))
    best = max(best, 2.0 * size**3 * chain / seconds)
  return best


# ---- what is measured -----------------------------------------------------------------------------


def train(model: str, vit, t5, captions: int, captions_per_image: int, steps: int, peak: float) -> None:
  """Prints captions a second of the training step and its utilisation."""
  while True:
    try:
      seconds, memory = step_seconds(vit, t5, captions, captions_per_image, steps)
      break
    except jax.errors.JaxRuntimeError as error:
      if "RESOURCE_EXHAUSTED" not in str(error) or captions <= captions_per_image:
        raise
    captions //= 2
    print(f"{model}: twice as many captions do not fit the memory; on with {captions} a step")
  flops = model_flops(vit, t5, captions // captions_per_image, captions, _PROMPT, _TARGETS)
  print(
    f"{model}, training, K={captions_per_image}: {captions / seconds:,.1f} captions/s ({captions} a step, "
    f"{seconds * 1e3:,.0f} ms), {flops / seconds / 1e12:.2f} Tflop/s, utilisation {flops / seconds / peak:.0%}{memory}"
  )


def step_seconds(vit, t5, captions: int, captions_per_image: int, steps: int) -> tuple[float, str]:
  """The median time of a step, and what it says of the memory."""
  pictures = captions // captions_per_image
  rng = np.random.default_rng(0)
  targets = rng.integers(2, t5.vocab_size, (pictures, captions_per_image, _TARGETS)).astype(np.int32)
  batch = {
    "image": rng.integers(0, 256, (pictures, vit.image_size, vit.image_size, 3), np.uint8),
    "prompt_tokens": rng.integers(2, t5.vocab_size, (pictures, captions_per_image, _PROMPT)).astype(np.int32),
    "target_tokens": targets,
    "target_weights": np.ones(targets.shape, np.float32),
  }
  batch = jax.device_put(batch)
  objective, optimizer = CaptionObjective(vit, t5), Optimizer()
  params = fresh(lambda key: objective.init(key, jax.tree.map(lambda x: x[:1], batch))["params"])
  state = step_lib.create_state(params, optimizer)
  del params
  # On accelerators jax's default keys cost more than the masks that are drawn with them.
  step = step_lib.make_train_step(objective, optimizer, total_steps=1_000, rng_impl=None if _CPU else "rbg")
  compiled = jax.jit(step, donate_argnums=0).lower(state, batch).compile()

  def run():
    nonlocal state
    for _ in range(steps):
      state, metrics = compiled(state, batch)
    return metrics

  seconds = median(run) / steps
  peak_bytes = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
  return seconds, f", {peak_bytes / 2**30:.1f} GiB at most so far" if peak_bytes else ""


def decode(model: str, vit, t5, search, pictures: int, max_length: int) -> None:
  """Prints captions a second for pictures x 36 languages; random weights end no caption early."""
  vit, t5 = (dataclasses.replace(config, scan=False, remat=False) for config in (vit, t5))
  captioner = Captioner(vit, t5)
  rng = np.random.default_rng(0)
  images = rng.integers(0, 256, (pictures, vit.image_size, vit.image_size, 3), np.uint8)
  prompts = rng.integers(2, t5.vocab_size, (_LANGUAGES, _PROMPT)).astype(np.int32)
  targets = np.ones((1, 1, 4), np.int32)
  params = fresh(lambda key: captioner.init(key, images[:1], prompts[None, :1], targets)["params"])
  generate = Generator(captioner, search, max_length)
  seconds = median(lambda: generate(params, images, prompts))
  print(
    f"{model}, {type(search).__name__.lower()} decoding of {max_length} tokens: "
    f"{pictures * _LANGUAGES / seconds:,.0f} captions/s ({pictures} pictures x {_LANGUAGES} languages)"
  )


def fresh(init: Callable) -> dict:
  """Parameters as `init(key)` makes them, made on the device."""
  return jax.jit(init)(jax.random.key(0))


def median(run: Callable[[], object], repeats: int = 5) -> float:
  """Seconds, after one call that does not count."""
  jax.block_until_ready(run())
  times = []
  for _ in range(repeats):
    began = time.perf_counter()
    jax.block_until_ready(run())
    times.append(time.perf_counter() - began)
  return statistics.median(times)


if __name__ == "__main__":
  main()
