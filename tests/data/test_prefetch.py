import itertools
import threading

import pytest

from xmcap.data.prefetch import prefetch
from xmcap.errors import UsageError


def threads() -> list[threading.Thread]:
  return [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.mark.parametrize("workers, depth", [(1, 1), (1, 4), (3, 2), (4, 20)])
def test_results_come_in_order(workers, depth):
  assert list(prefetch(lambda item: item * item, range(10), workers, depth)) == [i * i for i in range(10)]
  assert not threads()


def test_no_items():
  assert list(prefetch(str, [])) == []


def test_an_error_is_raised_when_its_turn_comes():
  def divide(item: int) -> float:
    return 12 / (3 - item)

  results = prefetch(divide, itertools.count(), workers=2)
  assert [next(results), next(results), next(results)] == [4, 6, 12]
  with pytest.raises(ZeroDivisionError):
    next(results)
  assert not threads()


def test_work_begins_before_the_first_result_is_asked_for():
  begun = threading.Event()
  results = prefetch(lambda item: begun.set(), [0])
  assert begun.wait(timeout=30)
  results.close()


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_closing_ends_the_threads(taken):
  results = prefetch(lambda item: item, itertools.count(), workers=2, depth=3)
  for _ in range(taken):
    next(results)
  assert threads()
  results.close()
  assert not threads()
  assert next(results, "ended") == "ended"


def test_no_more_than_depth_items_are_taken_ahead():
  taken = []
  results = prefetch(lambda item: item, (taken.append(item) or item for item in itertools.count()), depth=3)
  assert len(taken) == 3
  next(results)
  assert len(taken) == 4
  results.close()


@pytest.mark.parametrize("workers, depth", [(0, 1), (1, 0)])
def test_sizes_below_one_are_refused(workers, depth):
  with pytest.raises(UsageError, match="at least one worker"):
    prefetch(str, [], workers, depth)
