"""Tells how far a long decoding is."""

import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import jax

Captions = tuple[str, dict[str, str]]
"""(key, {language: caption}) of a picture."""


def with_progress(
  rows: Iterable[Captions], total: int, what: str, say: Callable[[str], None], every: float = 10.0
) -> Iterator[Captions]:
  """Passes the captions of `total` pictures on, and prints a line of progress every so many seconds.

  Each line begins with `what`. The speed leaves out the first batch, which compiles. Nothing is printed if all takes
  less than `every`.
  """
  began = last = first = time.monotonic()
  count = captions = 0
  for key, found in rows:
    now = time.monotonic()
    if not count:
      first = last = now
    elif now - last >= every:
      # Rows come by the batch, so as many were decoded since `first` as were passed on.
      speed = captions / (now - first)
      left = (total - count) * (now - first) / count
      say(
        f"{what}: {count:,} of {total:,} pictures, {speed:,.1f} captions a second, {left:,.0f} s left, "
        f"{peak_memory()}"
      )
      last = now
    count += 1
    captions += len(found)
    yield key, found
  seconds = time.monotonic() - began
  if seconds >= every:
    say(f"{what}: {count:,} pictures, {captions:,} captions in {seconds:,.0f} s, {peak_memory()}")


def peak_memory() -> str:
  """The most memory used so far: of the fullest device, or of the process if devices do not tell (CPU)."""
  stats = [device.memory_stats() for device in jax.local_devices()]
  if all(stats):
    return f"{max(x['peak_bytes_in_use'] for x in stats) / 1e9:.1f} GB of a device's memory at most"
  unit = 1 if sys.platform == "darwin" else 1024
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
  return f"{peak / 1e9:.1f} GB of the process's memory at most"
