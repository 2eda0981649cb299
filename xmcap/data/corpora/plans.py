"""What a build is of (options, and a fingerprint of its inputs), so that two are not mixed."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xmcap.data.corpora import lines, pictures
from xmcap.data.corpora.problems import ON_BAD, Problems
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import files, outputs

_PLAN = "plan.json"


@dataclasses.dataclass(frozen=True)
class Options:
  """Options of a build.

  Attributes:
    on_bad: `skip` or `stop`, as of `Problems`.
    image_size, quality: as of `pictures.examine`; None: pictures stay as published.
    shard_pictures: in a file of records.
    chunk_bytes: of text that is parsed at once.
  """

  on_bad: str = "skip"
  image_size: int | None = None
  quality: int = pictures.DEFAULT_QUALITY
  shard_pictures: int = 2_048
  chunk_bytes: int = lines.CHUNK_BYTES

  def check(self) -> None:
    """Raises UsageError if an option is out of range."""
    if self.on_bad not in ON_BAD:
      raise UsageError(f"--on_bad={self.on_bad}: choose {' or '.join(ON_BAD)}")
    if self.image_size is not None and not pictures.MIN_SIDE <= self.image_size <= 8192:
      raise UsageError(f"--image_size={self.image_size}: give a number from {pictures.MIN_SIDE} to 8192")
    if not 1 <= self.quality <= 95:
      raise UsageError(f"--quality={self.quality}: give a number from 1 to 95")


def plan(name: str, version: str, inputs: Mapping[str, pathlib.Path], options: Options) -> dict[str, Any]:
  """What says that two builds are the same one; UsageError if an input is absent."""
  given = {}
  for role, path in inputs.items():
    try:
      status = os.stat(path)
    except OSError as error:
      raise UsageError(f"{path} ({role}): {error.strerror}; see docs/corpora.md for what is needed") from None
    given[role] = {"name": path.name}
    if not path.is_dir():
      given[role] |= {"bytes": status.st_size, "modified": status.st_mtime_ns}
  return {"corpus": name, "version": version, "options": dataclasses.asdict(options), "inputs": given}


def compare(held: Mapping[str, Any], wanted: Mapping[str, Any], out: pathlib.Path, verb: str) -> None:
  """Raises UsageError if what a folder holds (or began) is another build than the one wanted."""
  for part in ("version", "options", "inputs"):
    if held.get(part) == wanted[part]:
      continue
    name, has, wants = part, held.get(part), wanted[part]
    if isinstance(wants, Mapping) and isinstance(has, Mapping):
      # What is whole does not say when its inputs were last changed.
      different = [
        name
        for name, value in wants.items()
        if value != has.get(name)
        and not (verb == "holds" and _same_file(value, has.get(name)))
        # What is made until a build stops, or when it need not, is what one that skips would make.
        and not (name == "on_bad" and has.get(name) == "stop")
      ]
      different += [name for name in has if name not in wants]
      if not different:
        continue
      name = different[0]
      has, wants = has.get(name), wants.get(name)
    raise UsageError(
      f"{out} {verb} {wanted['corpus']} with another {name} ({_words(has)}, not {_words(wants)}): remove it, or "
      "choose another folder"
    )


def _same_file(wants: Any, has: Any) -> bool:
  return (
    isinstance(wants, Mapping)
    and isinstance(has, Mapping)
    and all(wants.get(name) == has.get(name) for name in ("name", "bytes"))
  )


def _words(value: Any) -> str:
  if isinstance(value, Mapping):
    return ", ".join(f"{part:,} bytes" if name == "bytes" else str(part) for name, part in value.items())
  return str(value)


def begin(out: pathlib.Path, work_dir: pathlib.Path, name: str, wanted: Mapping[str, Any]) -> None:
  """Makes the folders, or goes on with a build that was begun there.

  Raises:
    UsageError: another build was begun there, or the folder holds files that are not of this corpus.
  """
  if out.exists() and not out.is_dir():
    raise UsageError(f"{out} is a file: choose a folder to build in")
  path = work_dir / _PLAN
  if path.exists():
    try:
      held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
      raise XmcapError(f"cannot read {path}: {one_line(error)}; remove {out} and build again") from None
    compare(held, wanted, out, "has begun")
  elif out.exists():
    ours = (work_dir.name, outputs.FOLDER_LOCK)
    others = sorted(path.name for path in out.iterdir() if path.name not in ours)
    if others:
      raise UsageError(f"{out} holds {others[0]}, which is not of {name}: choose a new or empty folder")
  files.make_folder(work_dir)
  for folder in (out, work_dir):
    files.remove_incomplete(folder)
  files.write_text(path, json.dumps(wanted, indent=1))


def write_list(path: pathlib.Path, lists: Iterable[Callable[[], Problems]]) -> None:
  """Writes problems one by one, JSON lines, a part of them in memory at a time."""
  with files.whole(path) as file:
    for read in lists:
      file.write(read().take_listed().encode())
