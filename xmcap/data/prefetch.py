"""Computes the next items of a sequence on threads while the present one is used."""

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import TypeVar

from xmcap.errors import UsageError

In = TypeVar("In")
Out = TypeVar("Out")


def prefetch(
  function: Callable[[In], Out], items: Iterable[In], workers: int = 1, depth: int = 4
) -> Iterator[Out]:
  """Yields `function(item)` for each item in order, up to `depth` of them computed ahead.

  The first results are begun at once, before the first is asked for. An error in `function` is raised
  when its item's turn comes. Closing the iterator (`close()`, or the end of its last reference) cancels
  what has not begun and waits for what has.

  Args:
    function: called from several threads; must be pure.
    items: any iterable, endless ones too; read on the calling thread.
    workers: threads; more than one only helps where `function` leaves the interpreter lock.
    depth: results held or under way at most.

  Raises:
    UsageError: `workers` or `depth` is below one.
  """
  if workers < 1 or depth < 1:
    raise UsageError(f"prefetching needs at least one worker and a depth of one, not {workers} and {depth}")
  executor = futures.ThreadPoolExecutor(min(workers, depth), thread_name_prefix="prefetch")
  iterator = iter(items)
  pending = collections.deque(executor.submit(function, item) for item in itertools.islice(iterator, depth))

  def results() -> Iterator[Out]:
    try:
      yield  # entered at once, so that closing before the first result also ends the threads
      while pending:
        result = pending.popleft().result()
        for item in itertools.islice(iterator, 1):
          pending.append(executor.submit(function, item))
        yield result
    finally:
      executor.shutdown(wait=True, cancel_futures=True)

  generator = results()
  next(generator)
  return generator
