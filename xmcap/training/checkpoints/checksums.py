"""Sizes and CRC-32 sums of the files of a checkpoint, to find damage when it is read.

Each process writes the sums of its own files to `crc32-PROCESS.json`. Process 0 writes those of the few shared files,
and of the files of sums, to `crc32.json`. So no process reads another's files during a save. TensorStore checks only
its indexes: a flipped bit in an array would go unnoticed. CRC-32 does not protect against tampering.
"""

import dataclasses
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from concurrent import futures

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import future as orbax_future

from xmcap.files.bucket_paths import epath
from xmcap.training.checkpoints import settings, small_json

NAME = "crc32.json"
_OF_PROCESS = re.compile(r"crc32-\d+\.json")
_CHUNK = 16 << 20
_READERS = 8

Sums = dict[str, tuple[int, int]]
"""Name of a file -> (size, CRC-32)."""


def write_share(folder: epath.Path, process: int) -> None:
  """Writes `crc32-PROCESS.json` for the files in a folder that only this process wrote."""
  own = f"ocdbt.process_{process}"
  _write(folder, f"crc32-{process}.json", _names(folder / own, f"{own}/"))


def write(folder: epath.Path) -> None:
  """Writes `crc32.json` for all files of a folder that are in no `crc32-PROCESS.json`."""
  names = set(_names(folder))
  for name in [name for name in names if _OF_PROCESS.fullmatch(name)]:
    names -= set(_read(folder / name))
  _write(folder, NAME, names)


def difference(folder: epath.Path, index: int = 0, count: int = 1) -> str | None:
  """Compares the files of a folder with its `crc32.json`; returns what is wrong with the first bad file, or None.

  Checks only share `index` of `count` of the files, so that hosts divide the work. OSError means that a file exists but
  cannot be read now.
  """
  file = folder / NAME
  try:
    sums = _read(file)
    for name in sorted(name for name in sums if _OF_PROCESS.fullmatch(name)):
      file = folder / name
      if problem := _compare(file, *sums.pop(name)):
        return problem
      sums |= _read(file)
  except ValueError:
    return f"{file} is damaged"
  share = sorted(sums.items())[index::count]
  with futures.ThreadPoolExecutor(_READERS) as readers:
    problems = readers.map(lambda item: _compare(folder / item[0], *item[1]), share)
    return next(filter(None, problems), None)


def _read(file: epath.Path) -> Sums:
  """Reads a file of sums; ValueError if it is malformed or names a file outside its folder."""
  sums = {}
  for name, pair in small_json.read(file).items():
    is_pair = isinstance(pair, list) and [type(number) for number in pair] == [int, int]
    if not is_pair or name.startswith("/") or ".." in name.split("/"):
      raise ValueError(f"{file}: not a checksum of a file: {name!r}")
    sums[name] = tuple(pair)
  return sums


def _write(folder: epath.Path, name: str, names: Iterable[str]) -> None:
  names = sorted(names)
  with futures.ThreadPoolExecutor(_READERS) as readers:
    sums = readers.map(lambda file: _sum(folder / file), names)
    (folder / name).write_text(json.dumps(dict(zip(names, sums, strict=True)), indent=0))


def _compare(file: epath.Path, size: int, crc: int) -> str | None:
  try:
    length = file.stat().length
    if length != size:
      return f"{file} has {length:,} bytes, but had {size:,} when it was written"
    actual = _sum(file)[1]
  except (FileNotFoundError, NotADirectoryError):
    return f"{file} is missing"
  if actual != crc:
    return f"{file} has changed since it was written (CRC-32 {actual:08x}, was {crc:08x})"
  return None


def _names(folder: epath.Path, prefix: str = "") -> Iterator[str]:
  """The files in a folder and its subfolders, except for `crc32.json`."""
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


class SummedHandler(ocp.StandardCheckpointHandler):
  """Writes the sums of an item's files before Orbax moves the checkpoint into place."""

  async def async_save(self, directory: epath.Path, *args, **kwargs) -> list[orbax_future.Future]:
    """Orbax waits for the returned future in its background thread before process 0 finalizes the checkpoint."""
    written = await super().async_save(directory, *args, **kwargs) or []
    text = kwargs["args"].settings

    def finish() -> None:
      process = jax.process_index()
      if text is not None and process == 0:
        (directory / settings.NAME).write_text(text)  # `write` sums it
      write_share(directory, process)

    return [orbax_future.ChainedFuture(written, finish)]

  def finalize(self, directory: epath.Path) -> None:
    """Orbax calls this in process 0 when all processes have written their shares."""
    super().finalize(directory)
    write(directory)


@ocp.args.register_with_handler(SummedHandler, for_save=True)
@dataclasses.dataclass
class SummedSave(ocp.args.StandardSave):
  """Selects `SummedHandler` for saving; `settings` is the text of `settings.json`, or None to write none."""

  settings: str | None = None


@ocp.args.register_with_handler(SummedHandler, for_restore=True)
@dataclasses.dataclass
class SummedRestore(ocp.args.StandardRestore):
  """Selects `SummedHandler` for restoring; Orbax requires such a type."""
