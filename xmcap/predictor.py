"""Pictures in, captions in the languages asked for out."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import gin
import numpy as np

from xmcap.data import tasks
from xmcap.models.captioner import Captioner
from xmcap.models.decoding import Generator, Greedy
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

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
  """

  def __init__(
    self, mixture: str = gin.REQUIRED, search: Any = _GREEDY, max_length: int = 64, batch_size: int = 32
  ):
    self.vocabulary = tasks.registration(mixture).corpus.vocabulary()
    self.captioner = Captioner(ViTConfig(), T5Config())
    self.batch_size = batch_size
    self._generate = Generator(self.captioner, search, max_length, batch_size)

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
      params: the captioner's parameters.
      pictures: (key, uint8 [image_size, image_size, 3]) pairs.
      codes: the languages.
    """
    prompts = self.prompts(codes)
    for number, batch in enumerate(_batched(pictures, self.batch_size)):
      ids = np.arange(len(batch), dtype=np.int32) + number * self.batch_size
      tokens, _ = self._generate(params, np.stack([pixels for _, pixels in batch]), prompts, row_ids=ids)
      for (key, _), rows in zip(batch, np.asarray(tokens), strict=True):
        yield key, {code: self.vocabulary.decode(row) for code, row in zip(codes, rows, strict=True)}


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
  rows: Iterable, total: int, what: str, say: Callable[[str], None], every: float = 10.0
) -> Iterator:
  """Passes rows on and says every few seconds how many, how fast, and how long it will take."""
  began = last = time.monotonic()
  for count, row in enumerate(rows, 1):
    yield row
    now = time.monotonic()
    if now - last >= every:
      rate = count / (now - began)
      say(
        f"{what}: {count:,} of {total:,} pictures, {rate:.1f} a second, {(total - count) / rate:.0f} s left"
      )
      last = now
