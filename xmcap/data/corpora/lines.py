"""Lines of large text files, compressed or not, cut into chunks that any process can read by themselves.

A chunk is some 32 MB of text. It owns the lines that begin in it, so that each line has one owner wherever the cuts
fall. A compressed file is read through once by `open_lines`, on all cores, and an index of it is kept in the working
folder: with that, rapidgzip starts to read anywhere in it.
"""

import bz2
import dataclasses
import io
import os
import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import rapidgzip

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import files

SUFFIXES = (".jsonl", ".jsonl.bz2", ".jsonl.gz")
CHUNK_BYTES = 32 << 20
MAX_LINE_BYTES = 16 << 20
MAX_CHUNK_TEXT = 512 << 20
"""Bytes of text in a chunk; one of bzip2 can unpack to 40 times what it should."""

MAX_RATIO, MAX_SMALL = 100, 1 << 30
"""A packed file may hold this many times its bytes, and a GiB more; JSON packs to a tenth, pictures not at all."""

_PIECE = 1 << 20
_BLOCK_BYTES = 900_000  # of bzip2's largest blocks


@dataclasses.dataclass(frozen=True)
class LineFile:
  """A file of lines in chunks. Picklable; opens the file when a chunk is read.

  Attributes:
    path: of the file.
    index: the file's index, if it is compressed.
    chunks: how many.
    size: bytes of the file as it lies there.
    step: bytes of text in a chunk; of bzip2 blocks, which are decompressed as a whole.
  """

  path: pathlib.Path
  index: pathlib.Path | None
  chunks: int
  size: int
  step: int

  def batches(self, chunk: int) -> Iterator[bytes]:
    """The lines of a chunk, in batches of about 1 MB; each batch is whole lines with their ends.

    The last line of the file may have no end.

    Raises:
      XmcapError: the file is damaged or cannot be read, a line is longer than 16 MB, or the chunk holds far more text
        than text packs to.
    """
    begin, end = self._begin(chunk), self._begin(chunk + 1)
    size = 0
    try:
      for batch in _whole_lines(self._read(begin, end), self._read(end, None), chunk == 0, self.path):
        size += len(batch)
        if size > MAX_CHUNK_TEXT:
          raise too_large(self.path, self.size)
        yield batch
    except (OSError, ValueError, EOFError, RuntimeError) as error:
      raise _damaged(self.path, error) from None

  def _begin(self, chunk: int) -> int:
    """The byte of the text at which a chunk begins."""
    if self.path.suffix != ".bz2":
      return chunk * self.step
    blocks = _blocks(self.index)
    return int(blocks[min(chunk * self.step, len(blocks) - 1)])

  def _read(self, begin: int, end: int | None) -> Iterator[bytes]:
    with _opened(self.path, self.index) as file:
      file.seek(begin)
      left = end - begin if end is not None else None
      while piece := file.read(_PIECE if left is None else min(_PIECE, left)):
        yield piece
        if left is not None:
          left -= len(piece)


def open_lines(
  path: str | os.PathLike,
  work_dir: pathlib.Path,
  *,
  chunk_bytes: int = CHUNK_BYTES,
  progress: Callable[[str], None] | None = None,
) -> LineFile:
  """Cuts a file into chunks.

  Args:
    path: .jsonl, .jsonl.bz2 or .jsonl.gz.
    work_dir: where the table of a compressed file is kept; one that is there is used.
    chunk_bytes: of text in a chunk, about.
    progress: called with a line of text now and then.

  Raises:
    UsageError: there is no such file, or its name has another suffix.
    XmcapError: it is damaged, or breaks off.
  """
  path = pathlib.Path(path)
  if not path.name.endswith(SUFFIXES):
    raise UsageError(f"{path}: give a file {', '.join(SUFFIXES)}")
  if not path.is_file():
    raise UsageError(f"{path} is absent, or no file: give the captions as they were published")
  say = progress or (lambda line: None)
  size = path.stat().st_size
  try:
    if path.suffix == ".jsonl":
      return LineFile(path, None, -(-size // chunk_bytes), size, chunk_bytes)
    index = work_dir / f"{path.name}.index"
    if not index.exists():
      say(f"{path.name}: indexed, so that it can be read from any place")
      (_index_bzip2 if path.suffix == ".bz2" else _index_gzip)(path, index)
    if path.suffix == ".bz2":
      count = max(0, len(_blocks(index)) - 1)  # the last is the end
      step = max(1, round(chunk_bytes / _BLOCK_BYTES))
      return LineFile(path, index, -(-count // step), size, step)
    with _opened(path, index) as file:
      text = file.seek(0, os.SEEK_END)
    return LineFile(path, index, -(-text // chunk_bytes), size, chunk_bytes)
  except (OSError, ValueError, EOFError, RuntimeError) as error:
    raise _damaged(path, error) from None


def most_unpacked(size: int) -> int:
  """Bytes that a packed file of `size` bytes may unpack to."""
  return MAX_RATIO * size + MAX_SMALL


def too_large(path: str | os.PathLike, size: int) -> XmcapError:
  """What is said of a packed file of `size` bytes that holds more."""
  return XmcapError(
    f"{path}: unpacks to far more than its {size:,} bytes can hold of captions or pictures (at most {MAX_RATIO} times "
    "as much, and 1 GiB): give the files as they were published"
  )


def _whole_lines(
  own: Iterator[bytes], after: Iterator[bytes], first: bool, path: pathlib.Path
) -> Iterator[bytes]:
  """The lines that begin in `own`, or where it ends; not its first line, unless it is the `first` chunk.

  So a chunk need not know whether the byte before it ended a line: the chunk before reads on through the first end
  of a line in this one.
  """
  rest = b""
  skipping = not first
  for piece in own:
    if skipping:
      cut = piece.find(b"\n") + 1
      if not cut:
        continue
      piece, skipping = piece[cut:], False
    cut = piece.rfind(b"\n") + 1
    if not cut:
      rest = _joined(rest, piece, path)
      continue
    yield rest + piece[:cut] if rest else piece[:cut]
    rest = piece[cut:]
  if skipping:
    return
  for piece in after:
    cut = piece.find(b"\n") + 1
    rest = _joined(rest, piece[:cut] if cut else piece, path)
    if cut:
      break
  if rest:
    yield rest


def _joined(rest: bytes, piece: bytes, path: pathlib.Path) -> bytes:
  if len(rest) + len(piece) > MAX_LINE_BYTES:
    raise XmcapError(
      f"{path}: a line of over {MAX_LINE_BYTES >> 20} MB: give the captions as they were published"
    )
  return rest + piece


def _damaged(path: pathlib.Path, error: Exception) -> XmcapError:
  said = one_line(error).replace("std::exception", "breaks off")
  return XmcapError(f"{path}: damaged, or cannot be read ({said}): download it again")


def _opened(path: pathlib.Path, index: pathlib.Path | None):
  # One thread: the processes that read chunks share the cores.
  if index is None:
    return open(path, "rb")
  if path.suffix == ".bz2":
    file = rapidgzip.IndexedBzip2File(str(path), parallelization=1)
    file.set_block_offsets(dict(np.load(index, allow_pickle=False).tolist()))
    return file
  file = rapidgzip.open(str(path), parallelization=1)
  file.import_index(str(index))
  return file


def _blocks(index: pathlib.Path) -> np.ndarray:
  """The bytes of the text of a bzip2 file at which its blocks begin, and its end: int64 [blocks + 1]."""
  return np.unique(np.load(index, allow_pickle=False)[:, 1])


def _index_bzip2(path: pathlib.Path, index: pathlib.Path) -> None:
  size = path.stat().st_size
  # With one thread the checksums of streams are compared too, but it is the blocks' that tell of damage.
  with rapidgzip.IndexedBzip2File(str(path), parallelization=files.available_cores()) as file:
    while file.read(16 << 20):
      if file.tell() > most_unpacked(size):
        raise too_large(path, size)
    offsets = np.array(sorted(file.block_offsets().items()), np.int64).reshape(-1, 2)
  read = -(-int(offsets[-1, 0]) // 8) if len(offsets) else 0
  if not size or not _holds_nothing(path, read):
    raise XmcapError(
      f"{path}: no bzip2 file from byte {read:,} on, of {size:,}: give the file as it was published"
    )
  files.write_array(index, offsets)


def _holds_nothing(path: pathlib.Path, begin: int) -> bool:
  """Whether nothing but empty streams of bzip2 lies from a byte on: rapidgzip passes over what it does not know."""
  with open(path, "rb") as file:
    file.seek(begin)
    rest = file.read(_PIECE)
  try:
    while rest:
      stream = bz2.BZ2Decompressor()
      if stream.decompress(rest, 1) or not stream.eof:
        return False
      rest = stream.unused_data
  except OSError:
    return False
  return True


class _IndexFile(io.FileIO):
  """A file for rapidgzip, which would abort the process where a write fails: it is told nothing, and the error comes
  when the file is closed.
  """

  def __init__(self, path: pathlib.Path, index: pathlib.Path):
    self._index, self._error = index, None
    try:
      super().__init__(path, "wb")
    except OSError as error:
      raise files.cannot_write(index, error) from None

  def write(self, data) -> int:
    left = memoryview(data).cast("B")
    try:
      while left and self._error is None:
        left = left[super().write(left) :]
    except OSError as error:
      self._error = error
    return len(data)

  def __exit__(self, *error) -> None:
    super().__exit__(*error)
    if self._error is not None:
      raise files.cannot_write(self._index, self._error) from None


def _index_gzip(path: pathlib.Path, index: pathlib.Path) -> None:
  size = path.stat().st_size
  with rapidgzip.open(str(path), parallelization=files.available_cores()) as opened:
    while opened.read(16 << 20):
      if opened.tell() > most_unpacked(size):
        raise too_large(path, size)
    with files.replacing(index) as temporary, _IndexFile(temporary, index) as file:
      opened.export_index(file)
