"""What the files of a checkpoint were when it was written: a size and a CRC-32 each, to be compared when it is read.

Each process sums the files that it wrote itself, straight after it wrote them, into `crc32-PROCESS.json`. Process 0
adds `crc32.json` for the few small files that come with the merge of all shares, and for those of the sums. So no
process reads what another wrote while a checkpoint is saved.

TensorStore checks its own indexes and nothing else; a bit that flips in an array would go unnoticed. CRC-32 finds every
burst of up to 32 bits, and reads several GB a second; it is no protection from somebody who means harm.
"""

import dataclasses
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from concurrent import futures

import jax
import orbax.checkpoint as ocp
from etils import epath

from xmcap.training.checkpoints import settings, small_json

NAME = "crc32.json"
_OF_PROCESS = re.compile(r"crc32-\d+\.json")
_CHUNK = 16 << 20
_READERS = 8

Sums = dict[str, tuple[int, int]]


def write_share(folder: epath.Path, process: int) -> None:
  """Writes `crc32-PROCESS.json` into a folder, for the files that this process wrote there and no other changes."""
  names = list(_names(folder / f"ocdbt.process_{process}", f"ocdbt.process_{process}/"))
  (folder / f"crc32-{process}.json").write_text(_as_text(_sums(folder, names)))


def write(folder: epath.Path) -> None:
  """Writes `crc32.json` into a folder, for all files in it and below that no process has summed."""
  names = set(_names(folder))
  for name in [name for name in names if _OF_PROCESS.fullmatch(name)]:
    names -= set(_read(folder / name))
  (folder / NAME).write_text(_as_text(_sums(folder, names)))


def difference(folder: epath.Path, index: int = 0, count: int = 1) -> str | None:
  """The first file of a folder that is not what was written, and how; None where all are.

  Args:
    folder: with a `crc32.json`.
    index, count: only this part of the files, so that many hosts share the work.

  Raises:
    OSError: a file is there but cannot be read now.
  """
  file = folder / NAME
  try:
    sums = _read(file)
    for name in sorted(name for name in sums if _OF_PROCESS.fullmatch(name)):
      # What the other sums are compared with must be whole itself.
      file = folder / name
      if problem := _compare(file, *sums.pop(name)):
        return problem
      sums |= _read(file)
  except ValueError:
    return f"{file} cannot be read as what was written"
  share = sorted(sums.items())[index::count]
  with futures.ThreadPoolExecutor(_READERS) as readers:
    for problem in readers.map(lambda item: _compare(folder / item[0], *item[1]), share):
      if problem:
        return problem
  return None


def _read(file: epath.Path) -> Sums:
  """The sums in a file.

  Raises:
    ValueError: it holds none, or of a file outside its folder.
  """
  sums = {}
  for name, pair in small_json.read(file).items():
    whole = isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair)
    if not whole or name.startswith("/") or ".." in name.split("/"):
      raise ValueError(f"{file}: no sum of a file: {name!r}")
    sums[name] = tuple(pair)
  return sums


def _as_text(sums: Sums) -> str:
  return json.dumps(sums, indent=0)


def _sums(folder: epath.Path, names: Iterable[str]) -> Sums:
  names = sorted(names)
  with futures.ThreadPoolExecutor(_READERS) as readers:
    return dict(zip(names, readers.map(lambda name: _sum(folder / name), names), strict=True))


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
  """The files in a folder that is there, and below."""
  for path in folder.iterdir() if folder.exists() else ():
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
  """Writes the sums of an item's files before Orbax moves the whole into place."""

  async def async_save(self, directory: epath.Path, *args, **kwargs) -> list[ocp.future.Future]:
    """Orbax waits for what this returns, in its thread, before it lets process 0 finalize."""
    written = await super().async_save(directory, *args, **kwargs) or []
    text = kwargs["args"].settings

    def finish() -> None:
      process = jax.process_index()
      if text is not None and process == 0:
        (directory / settings.NAME).write_text(text)  # `write` sums it
      write_share(directory, process)

    return [ocp.future.ChainedFuture(written, finish)]

  def finalize(self, directory: epath.Path) -> None:
    """Called in process 0 alone, when all processes have written their share."""
    super().finalize(directory)
    write(directory)


@ocp.args.register_with_handler(SummedHandler, for_save=True)
@dataclasses.dataclass
class SummedSave(ocp.args.StandardSave):
  """Orbax finds the handler by the type of what it is given.

  Attributes:
    settings: of the run as text, to be written beside the item; None: nothing is.
  """

  settings: str | None = None


@ocp.args.register_with_handler(SummedHandler, for_restore=True)
@dataclasses.dataclass
class SummedRestore(ocp.args.StandardRestore):
  """Orbax takes no handler without it."""
