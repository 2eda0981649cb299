"""Lines of large text files, compressed or not, cut into chunks that any process can read by themselves.

A chunk is some 32 MB of text. It owns the lines that begin in it, so that each line has one owner wherever the cuts
fall. What of a file must be known for that (where the blocks of a bzip2 file lie, the index of a gzip file) is found
once by `open_lines` and kept in the working folder.
"""

import dataclasses
import io
import os
import pathlib
import sys
from collections.abc import Callable, Iterator

import numpy as np
import rapidgzip

from xmcap.data import files
from xmcap.data.corpora import bzip2_blocks
from xmcap.errors import UsageError, XmcapError, one_line

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
    table: what `open_lines` found out about a compressed file; None where there is none.
    chunks: how many.
    size: bytes of the file as it lies there.
    step: bytes (of text) or blocks (bzip2) in a chunk.
  """

  path: pathlib.Path
  table: pathlib.Path | None
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
    read = _read_bzip2 if self.path.suffix == ".bz2" else _read_gzip if self.table else _read_plain
    begin, end = chunk * self.step, (chunk + 1) * self.step
    size = 0
    try:
      for batch in _whole_lines(read(self, begin, end), read(self, end, None), chunk == 0, self.path):
        size += len(batch)
        if size > MAX_CHUNK_TEXT:
          raise too_large(self.path, self.size)
        yield batch
    except (OSError, ValueError, EOFError, RuntimeError) as error:
      raise XmcapError(
        f"{self.path}: damaged, or cannot be read ({one_line(error)}): download it again"
      ) from None


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
    if path.suffix == ".bz2":
      table = work_dir / f"{path.name}.blocks.npy"
      if not table.exists():
        blocks = bzip2_blocks.find(
          path, lambda done: say(f"{path.name}: {100 * done // size}% searched for blocks")
        )
        files.write_array(table, blocks)
      _load_decoder(say)
      step = max(1, round(chunk_bytes / _BLOCK_BYTES))
      return LineFile(path, table, -(-len(np.load(table, mmap_mode="r")) // step), size, step)
    if path.suffix == ".gz":
      table = work_dir / f"{path.name}.index"
      if not table.exists():
        say(f"{path.name}: indexed, so that it can be read from any place")
        _index_gzip(path, table)
      with _gzip(path, table) as file:
        text = file.seek(0, os.SEEK_END)
      return LineFile(path, table, -(-text // chunk_bytes), size, chunk_bytes)
    return LineFile(path, None, -(-size // chunk_bytes), size, chunk_bytes)
  except (OSError, ValueError, EOFError, RuntimeError) as error:
    raise XmcapError(f"{path}: damaged, or cannot be read ({one_line(error)}): download it again") from None


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


def _read_plain(file: LineFile, begin: int, end: int | None) -> Iterator[bytes]:
  with open(file.path, "rb") as opened:
    yield from _pieces(opened, begin, end)


def _read_gzip(file: LineFile, begin: int, end: int | None) -> Iterator[bytes]:
  with _gzip(file.path, file.table) as opened:
    yield from _pieces(opened, begin, end)


def _pieces(opened, begin: int, end: int | None) -> Iterator[bytes]:
  opened.seek(begin)
  left = end - begin if end is not None else None
  while piece := opened.read(_PIECE if left is None else min(_PIECE, left)):
    yield piece
    if left is not None:
      left -= len(piece)


def _load_decoder(say: Callable[[str], None]) -> None:
  """Before processes are made that need it, so that one compiles it and the others load what it kept."""
  if "xmcap.data.corpora.bzip2_decoder" in sys.modules:
    return
  say("the decoder of bzip2 is loaded; the first time it is compiled, in some 8 s")
  from xmcap.data.corpora import bzip2_decoder, compiled  # noqa: F401 imports numba, which only bzip2 needs

  if compiled.not_kept:
    say(
      f"each process compiles the decoder of bzip2 anew ({compiled.not_kept[0]}): name a folder of yours in "
      "NUMBA_CACHE_DIR"
    )


def _read_bzip2(file: LineFile, begin: int, end: int | None) -> Iterator[bytes]:
  from xmcap.data.corpora import bzip2_decoder  # see `_load_decoder`

  blocks = np.load(file.table, mmap_mode="r")
  with open(file.path, "rb") as opened:
    for block in blocks[begin:end]:
      first, last = map(int, block)
      start = first // 8
      opened.seek(start)
      data = opened.read(-(-last // 8) - start)
      yield bzip2_decoder.decompress(data, first - 8 * start, last - 8 * start)


def _gzip(path: pathlib.Path, table: pathlib.Path):
  # One thread: the processes that read chunks share the cores.
  opened = rapidgzip.open(str(path), parallelization=1)
  opened.import_index(str(table))
  return opened


class _IndexFile(io.FileIO):
  """A file for rapidgzip, which would abort the process where a write fails: it is told nothing, and the error comes
  when the file is closed.
  """

  def __init__(self, path: pathlib.Path, table: pathlib.Path):
    self._table, self._error = table, None
    try:
      super().__init__(path, "wb")
    except OSError as error:
      raise files.cannot_write(table, error) from None

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
      raise files.cannot_write(self._table, self._error) from None


def _index_gzip(path: pathlib.Path, table: pathlib.Path) -> None:
  size = path.stat().st_size
  with rapidgzip.open(str(path), parallelization=files.available_cores()) as opened:
    while opened.read(16 << 20):
      if opened.tell() > most_unpacked(size):
        raise too_large(path, size)
    with files.replacing(table) as temporary, _IndexFile(temporary, table) as file:
      opened.export_index(file)
