"""What the GPU can do: the rate of large bfloat16 products, and of a large copy; and which machine this is.

usage: python benchmarks/gpu/device.py --json=FILE [--tiny]
"""

import datetime
import functools
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import recipe
import torch


def main() -> None:
  arguments = recipe.options(__doc__).parse_args()
  device = jax.devices()[0]
  pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
  found = {
    "date": datetime.date.today().isoformat(),
    "topology": recipe.topology(device.device_kind),
    "gpu": device.device_kind,
    "memory_bytes": (device.memory_stats() or {}).get("bytes_limit"),
    "cores": len(os.sched_getaffinity(0)),
    "memory_gib": round(pages * size / 2**30),
    "python": platform.python_version(),
    **{name: importlib.metadata.version(name) for name in ("jax", "torch", "transformers")},
  }
  sizes = (256,) if arguments.tiny else (4_096, 8_192, 16_384)
  found["products"] = {
    f"{name} {size}": measure(size, 2 if arguments.tiny else 20) / 1e12
    for name, measure in (("jax", product), ("torch", torch_product))
    for size in sizes
  }
  found["product_tflops"] = max(found["products"].values())
  found["copy_gb_per_second"] = copy(2**20 if arguments.tiny else 2**30) / 1e9
  recipe.write(arguments.json, found)
  print(
    f"{device.device_kind}: products {found['product_tflops']:.1f} Tflop/s, copies "
    f"{found['copy_gb_per_second']:,.0f} GB/s"
  )


def product(size: int, count: int) -> float:
  """Flops a second of `count` products of square bfloat16 matrices, one after the other."""

  @functools.partial(jax.jit, static_argnums=2)
  def run(x, y, count):
    return jax.lax.fori_loop(0, count, lambda _, x: jnp.dot(x, y), x)

  x = jax.random.normal(jax.random.key(0), (size, size), jnp.bfloat16)
  # So scaled that the results neither grow nor vanish: zeros would be multiplied faster.
  y = jax.random.normal(jax.random.key(1), (size, size), jnp.bfloat16) * jnp.bfloat16(size**-0.5)
  return 2.0 * size**3 * count / median(lambda: run(x, y, count))


def torch_product(size: int, count: int) -> float:
  """The same by torch, which leaves the choice of the kernel to cuBLAS."""
  device = "cuda" if torch.cuda.is_available() else "cpu"
  x, y = (torch.randn(size, size, dtype=torch.bfloat16, device=device) for _ in range(2))

  def run():
    for _ in range(count):
      torch.matmul(x, y)
    if device == "cuda":
      torch.cuda.synchronize()

  return 2.0 * size**3 * count / median(run)


def copy(numbers: int) -> float:
  """Bytes a second, read and written counted, of negating so many float32."""
  negate = jax.jit(jnp.negative)
  x = jax.random.normal(jax.random.key(0), (numbers,))
  count = 10
  seconds = median(lambda: [negate(x) for _ in range(count)]) / count
  return 2.0 * x.nbytes / seconds


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
