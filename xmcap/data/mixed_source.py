"""The records of several corpora as one source."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from xmcap.data.records import RecordSource, parse

T = TypeVar("T")


class MixedSource:
  """The records of several corpora, one corpus after the other; it is read like a `RecordSource`.

  Args:
    sources: the records of each corpus, by a name for messages.
    split: the split of the mixture.

  Attributes:
    directory: the folders, for messages.
    sizes: those of the sources; their names are NAME:SPLIT.
  """

  def __init__(self, sources: dict[str, RecordSource], split: str):
    self.split = split
    self.directory = " + ".join(source.directory for source in sources.values())
    self.sizes = {
      f"{name}:{of}": size for name, source in sources.items() for of, size in source.sizes.items()
    }
    self._sources = list(sources.values())
    self._starts = np.cumsum([0, *map(len, self._sources)])

  def __len__(self) -> int:
    return int(self._starts[-1])

  def iterate(self, indices: Sequence[int] | np.ndarray, parse: Callable[[bytes], T] = parse) -> Iterator[T]:
    """Like `RecordSource.iterate`. In a bucket, each corpus is read ahead."""
    chosen = np.asarray(indices, np.int64).reshape(-1)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= len(self)):
      raise IndexError(f"index outside [0, {len(self)}) in split '{self.split}' of {self.directory}")
    parts = np.searchsorted(self._starts, chosen, side="right") - 1
    local = chosen - self._starts[parts]
    records = [
      source.iterate(local[parts == part], parse) if (parts == part).any() else iter(())
      for part, source in enumerate(self._sources)
    ]
    for part in parts.tolist():
      yield next(records[part])

  def read(self, indices: Sequence[int] | np.ndarray, parse: Callable[[bytes], T] = parse) -> list[T]:
    """Like `iterate`, as a list."""
    return list(self.iterate(indices, parse))
