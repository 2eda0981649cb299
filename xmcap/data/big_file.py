"""BigFile: a folder of vectors with ids, the format in which the features of COCO-CN are published.

  feature.bin   float32 rows, little-endian, one after the other
  id.txt        the ids of the rows, separated by whitespace
  shape.txt     "rows width"

The reference is `simpleknn/bigfile.py` in the code of COCO-CN (Li et al., 2019), which writes ids on one line.
"""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from xmcap.errors import UsageError, one_line
from xmcap.files import files, outputs
from xmcap.terminal import shown
from xmcap.wording import count, first_few

VECTORS, IDS, SHAPE = "feature.bin", "id.txt", "shape.txt"
_FLOAT = np.dtype("<f4")
_LARGEST_SHAPE = 100  # bytes of shape.txt
_PICKLES = tuple(bytes([0x80, version]) for version in range(2, 6))


def is_folder(path: pathlib.Path) -> bool:
  """Whether a folder holds one of the files of a BigFile."""
  return any((path / name).exists() for name in (VECTORS, IDS, SHAPE))


def read(path: pathlib.Path) -> tuple[tuple[str, ...], np.ndarray]:
  """Returns the ids and the vectors, float32 [N, D], memory-mapped.

  Raises:
    UsageError: a file is absent or no text, or the files contradict each other.
  """
  outputs.settle(path)
  rows, width = _shape(path / SHAPE)
  with _reading(path / IDS):
    ids = tuple((path / IDS).read_text("utf-8").split())
  if len(ids) != rows:
    raise UsageError(
      f"{path}: {IDS} has {count(len(ids), 'id')}, but {SHAPE} says {count(rows, 'row')}: copy the folder again"
    )
  file = path / VECTORS
  with _reading(file), file.open("rb") as opened:
    start, size = opened.read(2), file.stat().st_size
  if size != rows * width * _FLOAT.itemsize:
    # Judged only now, because the first numbers may look like a pickle by chance.
    if start in _PICKLES:
      raise UsageError(
        f"{file}: a pickle, which can run code when it is read, so xmcap refuses it: write float32 rows"
        " (array.astype('<f4').tofile)"
      )
    raise UsageError(
      f"{file} has {size:,} bytes, but {rows:,} x {width:,} float32 numbers of {SHAPE} take"
      f" {rows * width * _FLOAT.itemsize:,}: copy the folder again"
    )
  with _reading(file):
    return ids, np.memmap(file, _FLOAT, "r", shape=(rows, width))


def write(path: pathlib.Path, ids: Sequence[str], vectors: np.ndarray) -> None:
  """Writes vectors [N, D] into a folder.

  Raises:
    UsageError: an id is empty or has whitespace, which the format cannot hold.
    XmcapError: a file cannot be written.
  """
  wrong = [name for name in ids if name.split() != [name]]
  if wrong:
    raise UsageError(
      f"{path}: {count(len(wrong), 'key')} with whitespace ({first_few(wrong)}), which {IDS}"
      " cannot hold: write .safetensors instead"
    )
  files.make_folder(path)
  with outputs.together(path):  # ids of other vectors would fit if there are as many
    with files.whole(path / VECTORS) as file:
      file.write(np.ascontiguousarray(vectors, _FLOAT).data)
    files.write_text(path / IDS, " ".join(ids))
    files.write_text(path / SHAPE, f"{len(vectors)} {vectors.shape[1]}")


def _shape(path: pathlib.Path) -> tuple[int, int]:
  with _reading(path), path.open("rb") as file:
    numbers = file.read(_LARGEST_SHAPE).decode().split()
  if len(numbers) != 2 or not all(number.isdecimal() and number.isascii() for number in numbers):
    raise UsageError(f'{path}: {shown(" ".join(numbers)) or "empty"}: it must hold two numbers, "rows width"')
  rows, width = map(int, numbers)
  if not rows or not width:
    raise UsageError(f"{path}: {rows} x {width} is empty: give vectors")
  return rows, width


@contextlib.contextmanager
def _reading(path: pathlib.Path) -> Iterator[None]:
  """Turns errors of reading a file into UsageErrors."""
  try:
    yield
  except FileNotFoundError:
    raise UsageError(f"{path} is missing: a BigFile has {VECTORS}, {IDS} and {SHAPE}") from None
  except (OSError, UnicodeDecodeError) as error:
    raise UsageError(f"{path}: cannot be read ({one_line(error)}): copy the folder again") from None
