"""Batches concurrent requests into calls of the model.

A call captions a limited number of pictures, each in a limited number of languages, with one search. Requests for the
same search share calls, whatever their languages. A request with a seed has calls of its own, because samples depend
on a picture's position in the call. A picture with many languages takes part in several calls, so that its first
captions arrive early and other requests need not wait for the rest; it is encoded by the first.

The model is compiled for each search and shape of a call, one picture first (`Batching.shapes`).
"""

import asyncio
import contextlib
import dataclasses
import logging
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xmcap.errors import one_line
from xmcap.serving.limits import Refused

if TYPE_CHECKING:  # which imports jax
  from xmcap.evaluation.captioning import Candidate


class ServedCaptioner(Protocol):
  """The part of `ImageCaptioner` that a server uses."""

  @property
  def vocabulary(self) -> Any:
    """Its `decode` makes a text of tokens."""
    ...

  def encode(self, pictures: Sequence[Any]) -> Sequence[Any]:
    """Encodes pictures, uint8 [size, size, 3], as `best` takes them."""
    ...

  def best(
    self, pictures: Sequence[Any], languages: Sequence[Sequence[str]], *, search: Any, seed: int, pad_to: int
  ) -> Sequence[Mapping[str, "Candidate"]]:
    """Captions encoded pictures, each in its languages, as {language: caption}.

    A call whose pictures have fewer languages than `pad_to` runs the program for so many.
    """
    ...


@dataclasses.dataclass(frozen=True)
class Batching:
  """How requests are batched.

  Attributes:
    seconds: how long the first request waits for others that are being received.
    pictures: the largest number of pictures per call.
    languages: the largest number of languages per picture in a call.
  """

  seconds: float = 0.02
  pictures: int = 16
  languages: int = 4

  def shapes(self) -> list[tuple[int, int]]:
    """The possible shapes (pictures, languages) of calls; few, because the model is compiled for each."""
    return [(images, languages) for images in self._sizes() for languages in self._widths()]

  def _sizes(self) -> list[int]:
    return [4**power for power in range(32) if 4**power < self.pictures] + [self.pictures]

  def _widths(self) -> list[int]:
    return sorted({1, min(2, self.languages), self.languages})

  def width(self, languages: int) -> int:
    """The number of languages per picture of a call in which no picture has more than these."""
    return next(width for width in self._widths() if width >= languages)

  def filled(self, rows: Sequence[Any]) -> list[Any]:
    """The rows of a call for so many pictures, of which the last is repeated up to one of the sizes."""
    size = next(size for size in self._sizes() if size >= len(rows))
    return [*rows, *[rows[-1]] * (size - len(rows))]


@dataclasses.dataclass(eq=False)
class _Job:
  picture: np.ndarray
  languages: list[str]  # not yet in a call
  search: Any
  seed: int | None
  arrived: float
  decoded: Callable[[], None]
  results: asyncio.Queue = dataclasses.field(default_factory=asyncio.Queue)
  encoded: Any = None  # the picture, from its first call on


class Batcher:
  """Passes pictures to a captioner, one call at a time, in a thread of `device`.

  `under_way()` returns the number of requests that are not yet answered; `observe(pictures, captions, seconds)` is
  called after each call.

  Attributes:
    captioner: set before the first request.
    most: the largest number of pictures per call for which programs are compiled.
  """

  captioner: ServedCaptioner

  def __init__(
    self,
    device: Executor,
    batching: Batching,
    under_way: Callable[[], int],
    observe: Callable[[int, int, float], Any],
  ):
    self._device, self._batching, self.most = device, batching, batching.pictures
    self._under_way, self._observe = under_way, observe
    self._jobs: list[_Job] = []
    self._changed = asyncio.Event()

  async def captions(
    self,
    image: np.ndarray,
    languages: Sequence[str],
    search: Any,
    seconds: float,
    seed: int | None = None,
    decoded: Callable[[], None] = lambda: None,
  ) -> AsyncGenerator[tuple[str, "Candidate"], None]:
    """Yields (language, caption) as they are decoded; Refused if that takes longer than `seconds` or fails.

    `decoded` is called when there is nothing left to decode, even if nobody takes the captions.
    """
    clock = asyncio.get_running_loop().time
    job = _Job(image, list(languages), search, seed, clock(), decoded)
    self._jobs.append(job)
    self._changed.set()
    left = len(languages)
    try:
      while left:
        try:
          answer = await asyncio.wait_for(job.results.get(), job.arrived + seconds - clock())
        except TimeoutError:
          raise Refused(504, f"timed out after {seconds:g} s with {left} captions missing") from None
        if isinstance(answer, Refused):
          raise answer
        for pair in answer:
          yield pair
        left -= len(answer)
    finally:
      with contextlib.suppress(ValueError):
        self._jobs.remove(job)

  async def run(self) -> None:
    """Calls the model until cancelled."""
    while True:
      await self._call(await self._next())

  async def _next(self) -> list[_Job]:
    """Waits for a first request, then for others that are being received, but no longer than `Batching.seconds`."""
    clock = asyncio.get_running_loop().time
    while True:
      self._changed.clear()
      left = None
      if together := self._together():
        first, full = together[0], len(together) == self.most
        left = first.arrived + self._batching.seconds - clock()
        if full or left <= 0 or first.seed is not None or self._under_way() <= len(self._jobs):
          return together
      with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(self._changed.wait(), left)

  def _together(self) -> list[_Job]:
    """The requests for the next call."""
    first = self._jobs[:1]
    if first and first[0].seed is None:
      same = [job for job in self._jobs if job.seed is None and job.search == first[0].search]
      return same[: self.most]
    return first

  async def _call(self, batch: Sequence[_Job]) -> None:
    """Captions some languages of each request, with the search and seed of the first."""
    languages = []
    for job in batch:
      languages.append(job.languages[: self._batching.languages])
      del job.languages[: self._batching.languages]
      # A job that needs another call goes to the end of the queue.
      self._jobs.remove(job)
      if job.languages:
        self._jobs.append(job)
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
      captioned = await loop.run_in_executor(self._device, self._captioned, batch, languages)
    except Exception as error:  # a failed call must not end the server
      logging.error("a call of %d pictures failed: %s", len(batch), one_line(error), exc_info=error)
      for job in batch:
        job.decoded()
        job.results.put_nowait(Refused(500, f"captioning failed ({one_line(error)}); see the server's log"))
      return
    self._observe(len(batch), sum(map(len, languages)), loop.time() - began)
    # A filled call has more rows than jobs, and more captions than requested.
    for job, codes, captions in zip(batch, languages, captioned, strict=False):
      job.results.put_nowait([(language, captions[language]) for language in codes])
      if not job.languages:
        job.decoded()

  def _captioned(
    self, batch: Sequence[_Job], languages: Sequence[Sequence[str]]
  ) -> Sequence[Mapping[str, "Candidate"]]:
    """The captions of a call, in the thread of the device. A picture is encoded by its first call alone."""
    filled = self._batching.filled
    if unseen := [job for job in batch if job.encoded is None]:
      encoded = self.captioner.encode(filled([job.picture for job in unseen]))
      for job, picture in zip(unseen, encoded, strict=False):
        job.encoded = picture
    search, seed = batch[0].search, batch[0].seed
    return self.captioner.best(
      filled([job.encoded for job in batch]),
      filled(languages),
      search=search,
      seed=random.getrandbits(31) if seed is None else seed,
      pad_to=self._batching.width(max(map(len, languages))),
    )
