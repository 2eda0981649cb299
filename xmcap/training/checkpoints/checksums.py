"""Sizes and CRC-32 sums of the files of a checkpoint, to find damage when it is read.

Each process sums the files that it wrote into `crc32-PROCESS.json`; process 0 sums the few files that join the shares,
and those of the sums, into `crc32.json`. So no process reads during a save what another wrote. TensorStore checks only
its indexes: a flipped bit in an array would go unnoticed. CRC-32 does not protect against malice.
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
from orbax.checkpoint import future as orbax_future

from xmcap.training.checkpoints import settings, small_json

NAME = "crc32.json"
_OF_PROCESS = re.compile(r"crc32-\d+\.json")
_CHUNK = 16 << 20
_READERS = 8

Sums = dict[str, tuple[int, int]]
"""Name of a file -> (size, CRC-32)."""


def write_share(folder: epath.Path, process: int) -> None:
  """Writes `crc32-PROCESS.json` for the files that this process alone wrote into a folder."""
  _write(
    folder, f"crc32-{process}.json", _names(folder / f"ocdbt.process_{process}", f"ocdbt.process_{process}/")
  )


def write(folder: epath.Path) -> None:
  """Writes `crc32.json` for all files of a folder that no process has summed."""
  names = set(_names(folder))
  for name in [name for name in names if _OF_PROCESS.fullmatch(name)]:
    names -= set(_read(folder / name))
  _write(folder, NAME, names)


def difference(folder: epath.Path, index: int = 0, count: int = 1) -> str | None:
  """Says which file of a folder with a `crc32.json` is not what was written; None if all are.

  Compares share `index` of `count` of the files, so that hosts divide the work. OSError means that a file exists but
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
    return f"{file} cannot be read as what was written"
  share = sorted(sums.items())[index::count]
  with futures.ThreadPoolExecutor(_READERS) as readers:
    problems = readers.map(lambda item: _compare(folder / item[0], *item[1]), share)
    return next(filter(None, problems), None)


def _read(file: epath.Path) -> Sums:
  """Reads a file of sums; ValueError if it is none, or names a file outside its folder."""
  sums = {}
  for name, pair in small_json.read(file).items():
    is_pair = isinstance(pair, list) and [type(number) for number in pair] == [int, int]
    if not is_pair or name.startswith("/") or ".." in name.split("/"):
      raise ValueError(f"{file}: no sum of a file: {name!r}")
    sums[name] = tuple(pair)
  return sums


def _write(folder: epath.Path, name: str, names: Iterable[str]) -> None:
  names = sorted(names)
  with futures.ThreadPoolExecutor(_READERS) as readers:
    sums = readers.map(lambda each: _sum(folder / each), names)
    (folder / name).write_text(json.dumps(dict(zip(names, sums, strict=True)), indent=0))


def _compare(file: epath.Path, size: int, crc: int) -> str | None:
  try:
    length = file.stat().length
    if length != size:
      return f"{file} has {length:,} bytes, and had {size:,} when it was written"
    found = _sum(file)[1]
  except (FileNotFoundError, NotADirectoryError):
    return f"{file} is missing"
  same = found == crc
  return None if same else f"{file} has changed since it was written (CRC-32 {found:08x}, was {crc:08x})"


def _names(folder: epath.Path, prefix: str = "") -> Iterator[str]:
  """The files in a folder and below it, except for `crc32.json`."""
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
    """Orbax's background thread waits for the returned future before process 0 finalizes the checkpoint."""
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
  """Orbax chooses the handler by this type; `settings` is the text of `settings.json`, if there is to be one."""

  settings: str | None = None


@ocp.args.register_with_handler(SummedHandler, for_restore=True)
@dataclasses.dataclass
class SummedRestore(ocp.args.StandardRestore):
  """Orbax accepts no handler without a type for restoring."""
