"""How many requests may be under way: as many as the server takes without complaint."""

import asyncio
import contextlib
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable

_FIRST_ROUND = 4  # answers that the smallest limit waits for
_USED = 0.8  # of the limit has to be under way in a round, or more would not be used
_CUT, _STEP = 0.8, 1.05
_COOL_DOWN = 15.0  # seconds


class Limit:
  """A number of requests that grows with answers, and is cut when the server has too many.

  It doubles with each round of answers until the server first says 429, then grows by a twentieth. A 429 cuts it to
  0.8, once in 15 seconds or in the time of `Retry-After`; other failures only end the round. These are inspect-ai's
  constants, but that a small server may get one request at a time.

  Args:
    most: the largest number of requests.
    start: the number to start with.
    clock: seconds.

  Attributes:
    requests: the present limit.
    under_way: requests that have begun and not ended.
    most_under_way: the largest number so far.
    cuts: how often the limit was cut.
  """

  def __init__(self, most: int, start: int = 20, clock: Callable[[], float] = time.monotonic):
    self.most = most
    self.requests = min(start, most)
    self.under_way = self.most_under_way = self.cuts = 0
    self._clock = clock
    self._cool_until = self._resume_at = float("-inf")
    self._answers, self._used = 0, 0
    self._waiting: list[tuple[int, int, asyncio.Future]] = []  # a heap
    self._numbers = itertools.count()

  @contextlib.asynccontextmanager
  async def request(self, turn: int = 0) -> AsyncIterator[None]:
    """Waits until another request may begin; it is under way within the context.

    Of those that wait, the lowest turn begins first, and of a turn who came first.
    """
    may_begin = asyncio.get_running_loop().create_future()
    heapq.heappush(self._waiting, (turn, next(self._numbers), may_begin))
    self._begin()
    try:
      await may_begin
    except asyncio.CancelledError:
      if may_begin.done() and not may_begin.cancelled():
        self._end()
      raise
    try:
      if (seconds := self._resume_at - self._clock()) > 0:
        await asyncio.sleep(seconds)
      yield
    finally:
      self._end()

  def answered(self) -> None:
    """Counts an answer that came at the first attempt."""
    self._answers += 1
    if self._answers < max(self.requests, _FIRST_ROUND):
      return
    if self._used >= _USED * self.requests:
      grown = max(self.requests + 1, int(self.requests * _STEP)) if self.cuts else self.requests * 2
      self.requests = min(grown, self.most)
    self._new_round()
    self._begin()

  def failed(self) -> None:
    """Ends the round: growth waits for as many answers again."""
    self._new_round()

  def refused(self, retry_after: float = 0.0) -> None:
    """Cuts the limit, once in a cool-down, and pauses all requests for `retry_after` seconds."""
    now = self._clock()
    self._resume_at = max(self._resume_at, now + retry_after)
    self._new_round()
    if now < self._cool_until:
      return
    self._cool_until = now + max(_COOL_DOWN, retry_after)
    self.requests = max(1, int(self.requests * _CUT))
    self.cuts += 1

  def _begin(self) -> None:
    while self._waiting and self.under_way < self.requests:
      may_begin = heapq.heappop(self._waiting)[-1]
      if not may_begin.done():  # cancelled
        may_begin.set_result(None)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self._used = max(self._used, self.under_way)

  def _end(self) -> None:
    self.under_way -= 1
    self._begin()

  def _new_round(self) -> None:
    self._answers, self._used = 0, self.under_way
