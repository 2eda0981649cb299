"""What the files of a checkpoint were when it was written: a size and a CRC-32 each, to be compared when it is read.

TensorStore checks its own indexes and nothing else; a bit that flips in an array would go unnoticed. CRC-32 finds every
burst of up to 32 bits, and reads several GB a second; it is no protection from somebody who means harm.
"""

import dataclasses
import json
import zlib
from collections.abc import Iterator
from concurrent import futures

import orbax.checkpoint as ocp
from etils import epath

NAME = "crc32.json"
_CHUNK = 16 << 20
_READERS = 8


def write(folder: epath.Path) -> None:
  """Writes `crc32.json` into a folder, for all files that lie in it and below."""
  names = sorted(_names(folder))
  with futures.ThreadPoolExecutor(_READERS) as readers:
    sums = list(readers.map(lambda name: _sum(folder / name), names))
  (folder / NAME).write_text(json.dumps(dict(zip(names, sums, strict=True)), indent=0))


def difference(folder: epath.Path, index: int = 0, count: int = 1) -> str | None:
  """The first file of a folder that is not what was written, and how; None where all are.

  Args:
    folder: with a `crc32.json`.
    index, count: only this part of the files, so that many hosts share the work.

  Raises:
    OSError: a file is there but cannot be read now.
  """
  try:
    sums = json.loads((folder / NAME).read_text())
    items = sorted((str(name), (int(size), int(crc))) for name, (size, crc) in sums.items())
  except (ValueError, TypeError, AttributeError):
    return f"{folder / NAME} cannot be read as what was written"
  share = items[index::count]
  with futures.ThreadPoolExecutor(_READERS) as readers:
    for problem in readers.map(lambda item: _compare(folder / item[0], *item[1]), share):
      if problem:
        return problem
  return None


def _compare(file: epath.Path, size: int, crc: int) -> str | None:
  try:
    length = file.stat().length
    if length != size:
      return f"{file} has {length:,} bytes, and had {size:,} when it was written"
    found = _sum(file)[1]
  except (FileNotFoundError, NotADirectoryError):
    return f"{file} is missing"
  return (
    None if found == crc else f"{file} has changed since it was written (CRC-32 {found:08x}, was {crc:08x})"
  )


def _names(folder: epath.Path, prefix: str = "") -> Iterator[str]:
  for path in folder.iterdir():
    if path.is_dir():
      yield from _names(path, f"{prefix}{path.name}/")
    elif path.name != NAME:
      yield prefix + path.name


def _sum(file: epath.Path) -> tuple[int, int]:
  size = crc = 0
  with file.open("rb") as stream:
    while chunk := stream.read(_CHUNK):
      size, crc = size + len(chunk), zlib.crc32(chunk, crc)
  return size, crc


# ---- within Orbax ---------------------------------------------------------------------------------------------


class SummedHandler(ocp.StandardCheckpointHandler):
  """Writes the sums of an item's files before Orbax moves the whole into place; process 0 alone is called."""

  def finalize(self, directory: epath.Path) -> None:
    super().finalize(directory)
    write(directory)


@ocp.args.register_with_handler(SummedHandler, for_save=True)
@dataclasses.dataclass
class SummedSave(ocp.args.StandardSave):
  """Orbax finds the handler by the type of what it is given."""


@ocp.args.register_with_handler(SummedHandler, for_restore=True)
@dataclasses.dataclass
class SummedRestore(ocp.args.StandardRestore):
  """Orbax takes no handler without it."""
