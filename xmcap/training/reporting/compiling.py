"""Says when a step is compiled, which takes minutes for a large model, and how long it took."""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax


def announced(step: Callable[[Any, Mapping[str, Any]], Any], say: Callable[[str], None]) -> Callable:
  """The same jitted step `(state, batch)`; before the first batch of each shape and after it, `say` gets a line."""
  seen = set()

  @functools.wraps(step)
  def announcing(state: Any, batch: Mapping[str, Any]) -> Any:
    shapes = tuple((name, batch[name].shape) for name in sorted(batch))
    if shapes in seen:
      return step(state, batch)
    say(f"compiling the step{' for other lengths' if seen else ''}: about a minute, more for a large model")
    seen.add(shapes)
    begun = time.monotonic()
    result = step(state, batch)  # returns when it is compiled and started
    say(f"compiled in {time.monotonic() - begun:.1f} s; the first step runs")
    return result

  return announcing


def placed(mesh: jax.sharding.Mesh) -> str:
  """Where a run computes: `data 4 x fsdp 2 x model 1 (8 TPU v4 devices on 2 hosts)`."""
  axes = " x ".join(f"{axis} {size}" for axis, size in mesh.shape.items())
  kind, hosts = mesh.devices.flat[0].device_kind, jax.process_count()
  devices = f"{mesh.size:,} {kind} device{'' if mesh.size == 1 else 's'}"
  return f"{axes} ({devices} on {hosts:,} host{'' if hosts == 1 else 's'})"
