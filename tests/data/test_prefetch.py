import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from xmcap.data.workers import Job, prefetch


def threads() -> list[threading.Thread]:
  return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


def jobs(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Job]:
  """An item each, of one part."""
  return (Job([partial(function, item)], lambda parts: parts[0]) for item in items)


@pytest.mark.parametrize("workers, depth", [(1, 1), (1, 4), (3, 2), (4, 20)])
def test_prefetch_yields_results_in_order(workers, depth):
  squares = jobs(lambda item: item * item, range(10))
  assert list(prefetch(squares, workers, depth)) == [i * i for i in range(10)]
  assert not threads()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_prefetch_joins_parts_of_a_job_in_order(workers):
  items = (Job([partial(pow, item, part) for part in range(5)], tuple) for item in range(10))
  assert list(prefetch(items, workers)) == [tuple(item**part for part in range(5)) for item in range(10)]


def test_several_threads_share_one_job():
  # No part ends before the other has begun.
  meet = threading.Barrier(2, timeout=30)
  assert list(prefetch([Job([meet.wait, meet.wait], sorted)], workers=2, depth=1)) == [[0, 1]]


def test_job_run_uses_the_calling_thread():
  assert Job([threading.current_thread] * 2, set).run() == {threading.current_thread()}


def test_prefetch_of_no_items_is_empty():
  assert list(prefetch([])) == []


def test_prefetch_raises_an_error_in_order():
  def divide(item: int) -> float:
    return 12 / (3 - item)

  results = prefetch(jobs(divide, itertools.count()), workers=2)
  assert [next(results), next(results), next(results)] == [4, 6, 12]
  with pytest.raises(ZeroDivisionError):
    next(results)
  assert not threads()


def test_prefetch_raises_the_error_of_the_first_part():
  late = threading.Event()

  def fail(number: int) -> None:
    if number == 1:
      late.wait(timeout=30)  # the later part fails first
    else:
      late.set()
    raise ValueError(f"part {number}")

  with pytest.raises(ValueError, match="part 1"):
    list(prefetch([Job([partial(fail, 1), partial(fail, 2)], tuple)], workers=2))
  assert not threads()


def test_no_part_begins_after_one_has_failed():
  begun: list[int] = []

  def fail(number: int) -> None:
    begun.append(number)
    raise ValueError(f"part {number}")

  # The consumer asks only when all parts would have been tried.
  last = threading.Event()
  parts = [partial(fail, 0), partial(fail, 1)]
  results = prefetch([Job(parts, tuple), Job([last.set], tuple)], depth=2)
  last.wait(timeout=0.5)
  with pytest.raises(ValueError, match="part 0"):
    next(results)
  assert begun == [0]


def test_work_begins_before_the_first_result_is_asked_for():
  begun = threading.Event()
  results = prefetch(jobs(lambda item: begun.set(), [0]))
  assert begun.wait(timeout=30)
  results.close()


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_closing_ends_the_threads(taken):
  results = prefetch(jobs(lambda item: item, itertools.count()), workers=2, depth=3)
  for _ in range(taken):
    next(results)
  assert threads()
  results.close()
  assert not threads()
  assert next(results, "ended") == "ended"


def test_no_more_than_depth_items_are_taken_ahead():
  taken = []
  results = prefetch(jobs(int, (taken.append(item) or item for item in itertools.count())), depth=3)
  assert len(taken) == 3
  next(results)
  assert len(taken) == 4
  results.close()
