"""Batches concurrent requests into calls of the model.

A call captions a limited number of pictures, each in a limited number of languages, with one search. Requests for the
same search share calls, whatever their languages. A request with a seed has calls of its own, because samples depend
on a picture's position in the call. A picture with many languages takes part in several calls, so that its first
captions arrive early and other requests need not wait for the rest.
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Protocol

import numpy as np

from xmcap.errors import one_line
from xmcap.serving.limits import Refused


class Captioner(Protocol):
  """The part of `PictureCaptioner` that a server uses."""

  image_size: int
  languages: tuple[str, ...]

  def caption(
    self, pictures: Sequence[Any], languages: Sequence[Sequence[str]], *, search: Any, seed: int
  ) -> Sequence[Mapping[str, str]]:
    """Captions pictures, uint8 [size, size, 3], each in its languages, as {language: caption}."""
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
    return [(pictures, languages) for pictures in self._sizes() for languages in sorted({1, self.languages})]

  def _sizes(self) -> list[int]:
    return [4**power for power in range(32) if 4**power < self.pictures] + [self.pictures]

  def filled(
    self, pictures: Sequence[np.ndarray], languages: Sequence[Sequence[str]], others: Sequence[str]
  ) -> tuple[list[np.ndarray], list[list[str]]]:
    """Pads pictures and languages to one of the `shapes`, with `others` as far as they reach."""
    most = max(map(len, languages))
    width = most if most == 1 else self.languages
    count = next(size for size in self._sizes() if size >= len(pictures))
    wide = [list(dict.fromkeys((*codes, *others)))[:width] for codes in languages]
    lacking = count - len(pictures)
    return [*pictures, *[pictures[-1]] * lacking], wide + wide[-1:] * lacking


@dataclasses.dataclass(eq=False)
class _Job:
  picture: np.ndarray
  languages: list[str]  # not yet in a call
  search: Any
  seed: int | None
  arrived: float
  decoded: Callable[[], None]
  results: asyncio.Queue = dataclasses.field(default_factory=asyncio.Queue)


def warm_up(
  captioner: Captioner, batching: Batching, searches: Iterable[Any], offered: Sequence[str] = ()
) -> None:
  """Makes a call of every shape and search, so that requests for the languages on offer do not wait for compilation."""
  size = captioner.image_size
  for search in searches:
    for pictures, languages in batching.shapes():
      codes = _known(captioner, offered)[:languages]
      rows = [np.zeros((size, size, 3), np.uint8)] * pictures
      captioner.caption(rows, [codes] * pictures, search=search, seed=0)


def _known(captioner: Captioner, offered: Sequence[str]) -> list[str]:
  """The languages of calls: those on offer, and the model's own, which fill calls up."""
  return list(dict.fromkeys((*offered, *captioner.languages)))


class Batcher:
  """Passes pictures to a captioner, one call at a time, in a thread of `device`.

  `under_way()` returns the number of requests that are not yet answered; `observe(pictures, captions, seconds)` is
  called after each call. `offered` are the codes of the languages that requests may ask for.
  """

  def __init__(
    self,
    captioner: Captioner,
    device: Executor,
    batching: Batching,
    under_way: Callable[[], int],
    observe: Callable[[int, int, float], Any],
    offered: Sequence[str] = (),
  ):
    self._captioner, self._device, self._batching = captioner, device, batching
    self._under_way, self._observe = under_way, observe
    self._languages = _known(captioner, offered)
    self._jobs: list[_Job] = []
    self._changed = asyncio.Event()

  async def captions(
    self,
    picture: np.ndarray,
    languages: Sequence[str],
    search: Any,
    seconds: float,
    seed: int | None = None,
    decoded: Callable[[], None] = lambda: None,
  ) -> AsyncGenerator[tuple[str, str], None]:
    """Yields (language, caption) as they are decoded; Refused if that takes longer than `seconds` or fails.

    `decoded` is called when there is nothing left to decode, even if nobody takes the captions.
    """
    clock = asyncio.get_running_loop().time
    job = _Job(picture, list(languages), search, seed, clock(), decoded)
    self._jobs.append(job)
    self._changed.set()
    left = len(languages)
    try:
      while left:
        try:
          found = await asyncio.wait_for(job.results.get(), job.arrived + seconds - clock())
        except TimeoutError:
          raise Refused(504, f"timed out after {seconds:g} s with {left} captions missing") from None
        if isinstance(found, Refused):
          raise found
        for pair in found:
          yield pair
        left -= len(found)
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
        first, full = together[0], len(together) == self._batching.pictures
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
      return same[: self._batching.pictures]
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
    pictures, filled = self._batching.filled([job.picture for job in batch], languages, self._languages)
    seed = random.getrandbits(31) if batch[0].seed is None else batch[0].seed
    call = functools.partial(self._captioner.caption, pictures, filled, search=batch[0].search, seed=seed)
    try:
      found = await loop.run_in_executor(self._device, call)
    except Exception as error:  # a failed call must not end the server
      logging.error("a call of %d pictures failed: %s", len(batch), one_line(error), exc_info=error)
      for job in batch:
        job.decoded()
        job.results.put_nowait(Refused(500, f"captioning failed ({one_line(error)}); see the server's log"))
      return
    self._observe(len(batch), sum(map(len, languages)), loop.time() - began)
    # A padded call has more rows than jobs, and more captions than requested.
    for job, codes, captions in zip(batch, languages, found, strict=False):
      job.results.put_nowait([(code, captions[code]) for code in codes])
      if not job.languages:
        job.decoded()
