"""Random access to the local ArrayRecord files of a split."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import array_record.python.array_record_module as array_record_module

from xmcap.errors import XmcapError, one_line

T = TypeVar("T")

READER_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
"""For reading single records; also the fastest for successive ones."""


class RecordFiles:
  """Local files, read with ArrayRecord's own reader; thread-safe and picklable."""

  def __init__(self, files: Sequence[str], directory: str):
    self._files = list(files)
    self._directory = directory
    self._readers: list[Any] = [None] * len(self._files)

  def __reduce__(self):
    return RecordFiles, (self._files, self._directory)

  def iterate(
    self, files: Sequence[int], positions: Sequence[int], parse: Callable[[bytes], T]
  ) -> Iterator[T]:
    """Yields the records at (file number, position), in order, reading each on demand."""
    for file, position in zip(files, positions, strict=True):
      try:
        # Reading a range is thread-safe, as it does not move the reader. For a list of positions, ArrayRecord would go
        # over all records of the file, and start a thread for each position.
        (serialized,) = self._reader(file).read(position, position + 1)
        record = parse(serialized)
      except (RuntimeError, IndexError, ValueError) as error:
        raise damaged(self._files[file], error, self._directory) from None
      yield record

  def _reader(self, file: int) -> Any:
    # Two threads may open the same file at first; one reader is kept, and the other closes after its last use.
    if self._readers[file] is None:
      reader = array_record_module.ArrayRecordReader(
        self._files[file], READER_OPTIONS, file_reader_buffer_size=32768
      )
      reader.read([])  # checks the file, as reading a range does not
      self._readers[file] = reader
    return self._readers[file]


def damaged(file: str, error: BaseException, directory: str) -> XmcapError:
  """Returns the error for a damaged file."""
  return XmcapError(f"{file} is damaged ({one_line(error)}): build {directory} again")
