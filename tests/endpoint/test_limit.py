"""The limit follows inspect-ai's constants (util/_concurrency.py), on a faked clock."""

import asyncio
import contextlib

import pytest

from xmcap.endpoint.limit import Limit


class _Clock:
  def __init__(self):
    self.seconds = 0.0

  def __call__(self) -> float:
    return self.seconds


def _round(limit: Limit) -> None:
  """A round of answers, with as many requests under way as the limit allows."""

  async def answered():
    async with contextlib.AsyncExitStack() as requests:
      number = limit.requests
      for _ in range(number):
        await requests.enter_async_context(limit.request())
      for _ in range(max(number, 4)):
        limit.answered()

  asyncio.run(answered())


def test_doubles_until_the_first_429_then_grows_by_a_twentieth():
  limit = Limit(most=1000, start=20)
  _round(limit)
  assert limit.requests == 40
  _round(limit)
  assert limit.requests == 80
  limit.refused()
  assert limit.requests == 64
  _round(limit)
  assert limit.requests == 67


def test_never_above_the_most_nor_below_one():
  limit = Limit(most=30, start=20)
  _round(limit)
  assert limit.requests == 30
  clock = _Clock()
  limit = Limit(most=8, clock=clock)
  for _ in range(30):
    limit.refused()
    clock.seconds += 20
  assert limit.requests == 1


def test_one_cut_an_episode():
  clock = _Clock()
  limit = Limit(most=100, start=100, clock=clock)
  for _ in range(50):
    limit.refused()
  assert (limit.requests, limit.cuts) == (80, 1)
  clock.seconds = 16
  limit.refused(retry_after=100)
  clock.seconds = 50  # within Retry-After
  limit.refused()
  assert (limit.requests, limit.cuts) == (64, 2)


def test_unused_limit_does_not_grow():
  limit = Limit(most=100, start=20)
  for _ in range(100):
    limit.answered()
  assert limit.requests == 20


def test_failures_pause_growth_without_a_cut():
  limit = Limit(most=100, start=4)

  async def run():
    async with limit.request(), limit.request(), limit.request(), limit.request():
      for _ in range(3):
        limit.answered()
      limit.failed()
      limit.answered()

  asyncio.run(run())
  assert (limit.requests, limit.cuts) == (4, 0)


def test_lowest_turn_first():
  limit = Limit(most=1)
  order = []

  async def ask(turn):
    async with limit.request(turn):
      order.append(turn)
      await asyncio.sleep(0)

  async def run():
    await asyncio.gather(*map(ask, (5, 3, 4, 3)))

  asyncio.run(run())
  assert order == [5, 3, 3, 4]  # the first began before the others came


def test_cancelled_requests_leave_their_places():
  limit = Limit(most=1)

  async def run():
    async with limit.request():
      waiting = asyncio.create_task(limit.request().__aenter__())
      await asyncio.sleep(0)
      waiting.cancel()
      with pytest.raises(asyncio.CancelledError):
        await waiting
    async with limit.request():
      assert limit.under_way == 1
    assert limit.under_way == 0

  asyncio.run(run())
