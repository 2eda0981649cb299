"""Pictures in, captions in the languages asked for out."""

import functools
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import gin
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import PartitionSpec

from xmcap.data import tasks
from xmcap.models import stacking
from xmcap.models.captioner import Captioner
from xmcap.models.decoding import Generator
from xmcap.models.search import Greedy
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training import placement, stopping

_GREEDY = Greedy()


@gin.configurable
class Predictor:
  """Captions pictures; each is encoded once for all languages asked for.

  The model is what gin says of `ViTConfig` and `T5Config`.

  Args:
    mixture: name of the seqio mixture whose vocabulary the model was trained with.
    search: `Greedy()`, `Beam(...)` or `Sample(...)`.
    max_length: the most pieces of a caption, its end counted.
    batch_size: pictures decoded at once, times the number of languages.
    cache_dtype: of the decoder's keys and values; see `Generator`.
  """

  def __init__(
    self, mixture: str = gin.REQUIRED, search: Any = _GREEDY, max_length: int = 64, batch_size: int = 32,
    cache_dtype: str = "auto",
  ):  # fmt: skip
    self.vocabulary = tasks.registration(mixture).corpus.vocabulary()
    self.captioner = Captioner(ViTConfig(), T5Config()).unrolled()
    self.batch_size = batch_size
    self._generate = Generator(self.captioner, search, max_length, batch_size, cache_dtype)

  @property
  def image_size(self) -> int:
    """Side of the pictures that the model sees, in pixels."""
    return self.captioner.vit.image_size

  def prompts(self, codes: Sequence[str]) -> np.ndarray:
    """The LangId prompts, int32 [L, P], padded with 0."""
    ids = [self.vocabulary.prompt(code) for code in codes]
    prompts = np.zeros((len(ids), max(map(len, ids))), np.int32)
    for row, prompt in zip(prompts, ids, strict=True):
      row[: len(prompt)] = prompt
    return prompts

  def __call__(
    self, params: Any, pictures: Iterable[tuple[str, np.ndarray]], codes: Sequence[str]
  ) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (key, {language: caption}) for each picture, in order.

    Args:
      params: the captioner's parameters, its layers stacked or one by one.
      pictures: (key, uint8 [image_size, image_size, 3]) pairs.
      codes: the languages.
    """
    prompts = self.prompts(codes)
    # Once for all pictures; a loop over the layers inside of the loop over the tokens would only be slower.
    params = stacking.unstack(params) if stacking.is_stacked(params) else params
    placed = placement.place(params, jax.local_devices())
    for number, batch in enumerate(_batched(pictures, self.batch_size)):
      stopping.evaluation_batch(f"batch {number + 1} of the pictures to decode")
      ids = np.arange(len(batch), dtype=np.int32) + number * self.batch_size
      tokens = self._tokens(placed, np.stack([pixels for _, pixels in batch]), prompts, ids)
      for (key, _), rows in zip(batch, tokens, strict=True):
        yield key, {code: self.vocabulary.decode(row) for code, row in zip(codes, rows, strict=True)}

  def _tokens(
    self, placed: placement.Placed, pixels: np.ndarray, prompts: np.ndarray, ids: np.ndarray
  ) -> np.ndarray:
    # Always a full batch: each device has its share, and nothing is compiled for the last one.
    count = len(pixels)
    rows = np.minimum(np.arange(self.batch_size), count - 1)
    pixels, ids, rng = pixels[rows], ids[rows], None
    gather = np.asarray
    if placed.mesh.is_multi_process:
      # Every process decodes the same pictures, a part of the work each, and gets all of what came out.
      key = multihost_utils.host_local_array_to_global_array(
        np.asarray(jax.random.key_data(jax.random.key(0))), placed.mesh, PartitionSpec()
      )
      rng = jax.jit(jax.random.wrap_key_data)(key)
      gather = functools.partial(multihost_utils.process_allgather, tiled=True)
    else:
      pixels = jax.device_put(pixels, placed.rows(self.batch_size))
    with placed.computing():
      tokens, _ = self._generate(placed.params, pixels, prompts, rng, row_ids=ids)
    return np.asarray(gather(tokens))[:count]


def _batched(items: Iterable, size: int) -> Iterator[list]:
  batch = []
  for item in items:
    batch.append(item)
    if len(batch) == size:
      yield batch
      batch = []
  if batch:
    yield batch


def with_progress(
  rows: Iterable[tuple[str, dict[str, str]]], total: int, what: str, say: Callable[[str], None],
  every: float = 10.0,
) -> Iterator[tuple[str, dict[str, str]]]:  # fmt: skip
  """Passes (key, {language: caption}) on, and says every few seconds how far, how fast, how long yet, how much memory.

  The speed is that after the first batch, which is compiled for; what takes no longer than `every` says nothing.

  Args:
    rows: from a `Predictor`.
    total: how many there will be.
    what: begins each line.
    say: prints a line.
    every: seconds between two lines.
  """
  began = last = first = time.monotonic()
  count = captions = 0
  for key, found in rows:
    now = time.monotonic()
    if not count:
      first = last = now
    elif now - last >= every:
      # Rows come by the batch and this is the first of one: since `first` as many were decoded as were passed on.
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
  """The most memory so far, in words: of the fullest device, or of the process where devices do not tell (CPU)."""
  stats = [device.memory_stats() for device in jax.local_devices()]
  if all(stats):
    return f"{max(x['peak_bytes_in_use'] for x in stats) / 1e9:.1f} GB of a device's memory at most"
  unit = 1 if sys.platform == "darwin" else 1024
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
  return f"{peak / 1e9:.1f} GB of the process's memory at most"
