"""Makes the items of a sequence on threads, several at one item, while the present one is used."""

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
  """The making of an item: `parts` run on any threads at the same time, `join` makes the item of their results."""

  parts: Sequence[Callable[[], Part]]
  join: Callable[[list[Part]], Out]

  def run(self) -> Out:
    """The item, made on the calling thread."""
    return self.join([part() for part in self.parts])


def prefetch(jobs: Iterable[Job[Part, Out]], workers: int = 1, depth: int = 4) -> Generator[Out, None, None]:
  """Yields the item of each job in order, up to `depth` of them made ahead, the first begun at once.

  An error in a part is raised when its item's turn comes. Closing the iterator (`close()`, or the end of its last
  reference) cancels what has not begun and waits for what has.

  Args:
    jobs: read, and joined, on the calling thread; may be endless.
    workers: threads; more than one only helps where the parts release the interpreter lock.
    depth: items held or under way at most.
  """
  executor = futures.ThreadPoolExecutor(workers, thread_name_prefix="prefetch")
  submitted = ((job, [executor.submit(part) for part in job.parts]) for job in jobs)
  pending = collections.deque(itertools.islice(submitted, depth))

  def items() -> Generator[Any, None, None]:
    try:
      yield  # entered at once, so that closing before the first item also ends the threads
      while pending:
        job, parts = pending.popleft()
        item = job.join([part.result() for part in parts])
        del job, parts  # an item may be large: only the caller holds it
        pending.extend(itertools.islice(submitted, 1))
        yield item
    finally:
      executor.shutdown(wait=True, cancel_futures=True)

  generator = items()
  next(generator)
  return generator
