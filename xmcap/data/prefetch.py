"""Prefetches the items of a sequence on threads; several threads may work on one item."""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent import futures
from typing import Any, Generic, TypeVar

Part = TypeVar("Part")
Out = TypeVar("Out")


@dataclasses.dataclass(frozen=True)
class Job(Generic[Part, Out]):
  """Makes an item: `parts` run concurrently on any threads, and `join` makes the item from their results."""

  parts: Sequence[Callable[[], Part]]
  join: Callable[[list[Part]], Out]

  def run(self) -> Out:
    """Makes the item on the calling thread."""
    return self.join([part() for part in self.parts])


def prefetch(jobs: Iterable[Job[Part, Out]], workers: int = 1, depth: int = 4) -> Generator[Out, None, None]:
  """Yields the item of each job in order, with up to `depth` of them prefetched; starts at once.

  An error in a part is raised when its item is due. Closing the iterator (`close()`, or dropping its last reference)
  cancels parts that have not begun, and waits for the others.

  Args:
    jobs: iterated, and joined, on the calling thread; may be endless.
    workers: number of threads; more than one only helps if the parts release the interpreter lock.
    depth: largest number of items held or in progress.
  """
  executor = futures.ThreadPoolExecutor(workers, thread_name_prefix="prefetch")
  submitted = ((job, [executor.submit(part) for part in job.parts]) for job in jobs)
  pending = collections.deque(itertools.islice(submitted, depth))

  def items() -> Generator[Any, None, None]:
    try:
      yield  # the generator is started below, so that closing it before the first item also ends the threads
      while pending:
        job, parts = pending.popleft()
        item = job.join([part.result() for part in parts])
        del job, parts  # an item may be large, so only the caller keeps it
        pending.extend(itertools.islice(submitted, 1))
        yield item
    finally:
      executor.shutdown(wait=True, cancel_futures=True)

  generator = items()
  next(generator)
  return generator
