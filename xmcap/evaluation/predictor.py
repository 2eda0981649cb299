"""Pictures in, captions in the languages asked for out."""

import contextlib
import dataclasses
import functools
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import gin
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from xmcap.data import tasks
from xmcap.data.checking import preflight as checks
from xmcap.data.prefetch import Job, prefetch
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.evaluation import placement
from xmcap.models.captioner import Captioner
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Greedy
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.storage import files
from xmcap.training import sharding
from xmcap.training.checkpoints import read as saved
from xmcap.training.hosts import stopping

_GREEDY = Greedy()


@gin.configurable
class Predictor:
  """Captions pictures; each is encoded once for all languages asked for.

  The model is what gin says of `ViTConfig` and `T5Config`.

  Args:
    mixture: name of the seqio mixture whose vocabulary the model was trained with.
    vocabulary: the file of that vocabulary, where a model folder holds it: the mixture is not asked then.
    search: `Greedy()`, `Beam(...)` or `Sample(...)`.
    max_length: the most pieces of a caption, its end counted.
    batch_size: pictures decoded at once, times the number of languages; the next multiple of it that the devices
      share evenly.
    cache_dtype: of the decoder's keys and values; see `Generator`.

  Raises:
    UsageError: for a length or batch size below 1, an unknown dtype, neither mixture nor vocabulary, a vocabulary of
      another size than the model's, or no configuration of a captioner.
  """

  def __init__(
    self, mixture: str = "", search: Any = _GREEDY, max_length: int = 64, batch_size: int = 32,
    cache_dtype: str = "auto", vocabulary: str = "",
  ):  # fmt: skip
    if batch_size < 1:
      raise UsageError(f"Predictor.batch_size is {batch_size}: it must be at least 1")
    self.captioner = _captioner()
    self.vocabulary = _vocabulary(mixture, vocabulary)
    if vocabulary:
      checks.check_rows(self.vocabulary, self.captioner.t5.vocab_size)
    self.batch_size = batch_size
    self._generate = Generator(self.captioner, search, max_length, None, cache_dtype)

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
    self,
    params: Any,
    keys: Sequence[str],
    load: Callable[[str], np.ndarray],
    codes: Sequence[str],
    numbers: Sequence[int] | None = None,
  ) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (key, {language: caption}) for each picture, in order.

    Parameters that are cut over several processes, as a training run's are, make these decode each batch together: all
    call this with the same arguments, each loads the pictures of its own devices, and all get all captions.

    Args:
      params: the captioner's parameters.
      keys: of the pictures.
      load: key -> uint8 [image_size, image_size, 3]; called on threads, while a batch before is decoded.
      codes: the languages.
      numbers: of the pictures in their split, for `Sample`: the same picture gets the same caption in any share of it;
        None: 0, 1, ...

    Raises:
      XmcapError: parameters of another model; names the first that differs.
      XmcapError, UsageError: what `load` raises.
    """
    self._check(params)
    numbers = np.arange(len(keys)) if numbers is None else np.asarray(numbers)
    for start, tokens in self._decoded(params, keys, load, self.prompts(codes), numbers.astype(np.int32)):
      for key, rows in zip(keys[start : start + len(tokens)], tokens, strict=False):
        yield key, {code: self.vocabulary.decode(row) for code, row in zip(codes, rows, strict=True)}

  def _check(self, params: Any) -> None:
    found = saved.flat(params)
    for path, leaf in found.items():
      if not jnp.issubdtype(getattr(leaf, "dtype", None), jnp.floating):
        raise XmcapError(f"the parameters: {path} is no array of floats: fetch or copy the model again")
    saved.check_same(self._shapes, found, "the parameters", allow_extra=True)

  @functools.cached_property
  def _shapes(self) -> dict[str, "_Shaped"]:
    """{path: shape} of the model's parameters."""
    # One layer is traced for all.
    vit, t5 = (dataclasses.replace(config, scan=True) for config in (self.captioner.vit, self.captioner.t5))
    image = jax.ShapeDtypeStruct((1, vit.image_size, vit.image_size, 3), np.uint8)
    tokens = jax.ShapeDtypeStruct((1, 1, 1), np.int32)
    made = jax.eval_shape(Captioner(vit, t5).init, jax.random.key(0), image, tokens, tokens)
    return saved.flat(made["params"])

  def _decoded(
    self, params: Any, keys: Sequence[str], load: Callable, prompts: np.ndarray, numbers: np.ndarray
  ) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (number of the first key, tokens [B, L, T]) of batches; the rows of the last go on beyond the last key."""
    placed = placement.place_for_decoding(params, jax.local_devices(), self._generate.cast)
    size = -(-self.batch_size // placed.groups) * placed.groups
    fed = sharding.process_rows(placed.mesh, size)
    rng = jax.jit(functools.partial(jax.random.key, 0), out_shardings=placed.whole)()
    # Rows beyond the last key repeat it: each device has its share, and nothing is compiled for the last batch.
    batches = [
      (start, np.minimum(np.arange(start, start + size), len(keys) - 1))
      for start in range(0, len(keys), size)
    ]

    def loading(places: np.ndarray) -> Job[np.ndarray, np.ndarray]:
      unique, rows = np.unique(places[fed], return_inverse=True)
      return Job(
        [functools.partial(load, keys[place]) for place in unique], lambda found: np.stack(found)[rows]
      )

    images = prefetch((loading(places) for _, places in batches), files.available_cores(), depth=2)
    begun = None
    with contextlib.closing(images):
      for number, (start, places) in enumerate(batches, 1):
        stopping.evaluation_batch(f"batch {number} of the pictures to decode")
        image = sharding.put_batch({"image": next(images)}, placed.mesh, size, fed)["image"]
        # One program at a time: two would hold two caches. The next is begun before anything is made of the tokens.
        done = None if begun is None else (begun[0], np.asarray(begun[1]))
        with placed.computing():
          tokens, _ = self._generate(placed.params, image, prompts, rng, row_ids=numbers[places])
          begun = start, _replicated(placed.whole)(tokens)
        if done is not None:
          yield done
      if begun is not None:
        yield begun[0], np.asarray(begun[1])


class _Shaped(NamedTuple):
  shape: tuple[int, ...]


def _captioner() -> Captioner:
  """The model that gin's bindings describe."""
  try:
    return Captioner(ViTConfig(), T5Config())
  except (TypeError, RuntimeError) as error:
    # Gin says so of parameters that nothing gives.
    raise UsageError(
      f"no captioner is configured ({one_line(error)}): give the folder of a captioner, or a gin file of its model"
    ) from None


def _vocabulary(mixture: str, path: str) -> Vocabulary:
  if path:
    return Vocabulary(path)
  if not mixture:
    raise UsageError("Predictor has neither mixture nor vocabulary: set one of them")
  return tasks.registration(mixture).corpus.vocabulary()


@functools.lru_cache(maxsize=8)
def _replicated(whole: NamedSharding) -> Callable[[jax.Array], jax.Array]:
  """Brings an array together on every device."""
  return jax.jit(lambda x: x, out_shardings=whole)


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
