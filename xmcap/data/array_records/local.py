"""The ArrayRecord files of a split on this machine: any record by its file and its position there."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import array_record.python.array_record_module as array_record_module

from xmcap.errors import XmcapError
from xmcap.terminal import shown

T = TypeVar("T")

READER_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
"""For single records; the fastest for successive ones too."""


class RecordFiles:
  """Files of this machine, read by ArrayRecord's own reader; safe in threads, picklable."""

  def __init__(self, files: Sequence[str], directory: str):
    self._files = list(files)
    self._directory = directory
    self._readers: list[Any] = [None] * len(self._files)

  def __getstate__(self) -> dict[str, Any]:
    return {**self.__dict__, "_readers": [None] * len(self._files)}

  def iterate(
    self, files: Sequence[int], positions: Sequence[int], parse: Callable[[bytes], T]
  ) -> Iterator[T]:
    """The records at positions of files (by number), in their order, each read when asked for."""
    for file, position in zip(files, positions, strict=True):
      try:
        # A range is read safely in threads, as it does not move the reader. For a list of positions, ArrayRecord would
        # go over all that the file holds, and start a thread for each.
        (serialized,) = self._reader(file).read(position, position + 1)
        record = parse(serialized)
      except (RuntimeError, IndexError, ValueError) as error:
        raise damaged(self._files[file], error, self._directory) from None
      yield record

  def _reader(self, file: int) -> Any:
    # Two threads may both open a file at first; one reader is kept and the other closes with its last use.
    if self._readers[file] is None:
      reader = array_record_module.ArrayRecordReader(
        self._files[file], READER_OPTIONS, file_reader_buffer_size=32768
      )
      reader.read([])  # checks the file, which reading a range does not
      self._readers[file] = reader
    return self._readers[file]


def damaged(file: str, error: BaseException, directory: str) -> XmcapError:
  """The error for a file whose bytes are not those that were written."""
  return XmcapError(f"{file} is damaged ({first_line(error)}): build {directory} again")


def first_line(error: BaseException) -> str:
  """The first line of an error's message, or its kind."""
  return shown((str(error).strip().splitlines() or [type(error).__name__])[0])
