"""The start of a server: it loads the model and compiles its programs while the page is open."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from xmcap.progress import Say, duration
from xmcap.serving.batching import Batcher, Batching, ServedCaptioner
from xmcap.serving.limits import Refused
from xmcap.serving.model import ServedModel

Load = Callable[[], ServedCaptioner]


class Startup:
  """Loads a captioner and compiles it for every search and shape of a call; says how far that is.

  Programs for one picture come first, and among them those of greedy search, which are compiled soonest. From then on
  requests are answered, between the other programs and at first one picture a call.
  """

  def __init__(self, model: ServedModel, batching: Batching, batcher: Batcher, device: Executor, say: Say):
    self._model, self._batcher, self._device, self._say = model, batcher, device, say
    self._sizes = sorted({images for images, _ in batching.shapes()})
    self._widths = sorted({languages for _, languages in batching.shapes()})
    names = sorted(model.searches, key=lambda name: name != "greedy")
    self._programs = [
      (name, images, languages) for images in self._sizes for name in names for languages in self._widths
    ]
    self._done, self._began = 0, 0.0
    batcher.most = self._sizes[0]

  @property
  def is_over(self) -> bool:
    """Whether every program is compiled."""
    return self._done == len(self._programs)

  @property
  def searches(self) -> list[str]:
    """The searches for which programs are compiled, at least for one picture."""
    left = {name for name, images, _ in self._programs[self._done :] if images == self._sizes[0]}
    return [name for name in self._model.searches if name not in left]

  def check(self, search: str) -> None:
    """Refused while the search has no programs."""
    if search not in self.searches:
      reason = f"search {search} is being compiled" if self._began else "the model is being loaded"
      raise Refused(503, f"{reason}: try again soon")

  def state(self) -> Mapping[str, Any]:
    """How far the start is, for the page."""
    return {
      "stage": "ready" if self.is_over else "compiling" if self._began else "loading",
      "compiled": self._done,
      "programs": len(self._programs),
      "seconds": time.monotonic() - self._began if self._began else 0.0,
      "searches": self.searches,
    }

  async def load(self, load: Load) -> None:
    """Loads the captioner, in the thread that will call it."""
    began = time.monotonic()
    self._batcher.captioner = await asyncio.get_running_loop().run_in_executor(self._device, load)
    self._began = time.monotonic()
    self._say(
      f"model loaded in {self._began - began:.0f} s; compiling {len(self._programs)} programs:"
      f" {', '.join(self._model.searches)}, each for {_either(self._sizes)} pictures and {_either(self._widths)}"
      " languages a call"
    )

  async def compile(self) -> None:
    """Makes a call of every search and shape."""
    size = self._model.image_size
    for name, images, languages in self._programs:
      rows = [np.zeros((size, size, 3), np.uint8)] * images
      search = self._model.searches[name]
      await asyncio.get_running_loop().run_in_executor(self._device, self._call, rows, search, languages)
      self._done += 1
      left = self._programs[self._done :]
      complete = [images for images in self._sizes if not left or images < left[0][1]]
      self._batcher.most = max(complete, default=self._sizes[0])
      # Later programs are larger, so that no rate tells how long they take.
      took = duration(time.monotonic() - self._began)
      self._say(f"programs compiled: {self._done} of {len(self._programs)} in {took}")

  def _call(self, pictures: Sequence[np.ndarray], search: Any, languages: int) -> None:
    captioner = self._batcher.captioner
    codes = [self._model.offered[:1]] * len(pictures)
    captioner.best(captioner.encode(pictures), codes, search=search, seed=0, pad_to=languages)


def _either(numbers: list[int]) -> str:
  return " or ".join(map(str, numbers))
