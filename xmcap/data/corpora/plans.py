"""What a build is of (options, and a fingerprint of its inputs), so that two are not mixed in a folder."""

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

from xmcap.data.corpora import lines, picture_check
from xmcap.data.corpora.problems import ON_BAD
from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.storage import files, outputs

_LAYOUT = 2  # of the working folder; what an older version began is begun anew

Plan = Mapping[str, Any]
"""`corpus`, `version`, `options` and `inputs`."""


@dataclasses.dataclass(frozen=True)
class Options:
  """Options of a build; see `Problems` and `picture_check.examine`.

  Attributes:
    shard_pictures: in a file of records.
    chunk_bytes: of captions that are parsed at once.
  """

  on_bad: str = "skip"
  image_size: int | None = None
  quality: int = picture_check.DEFAULT_QUALITY
  shard_pictures: int = 2_048
  chunk_bytes: int = lines.CHUNK_BYTES

  def check(self) -> None:
    """Raises UsageError if an option is out of range."""
    if self.on_bad not in ON_BAD:
      raise UsageError(f"--on_bad={self.on_bad}: choose {' or '.join(ON_BAD)}")
    least = picture_check.MIN_SIDE
    if self.image_size is not None and not least <= self.image_size <= 8192:
      raise UsageError(f"--image_size={self.image_size}: give a number from {least} to 8192")
    if not 1 <= self.quality <= 95:
      raise UsageError(f"--quality={self.quality}: give a number from 1 to 95")


def plan(name: str, version: str, inputs: Mapping[str, pathlib.Path], options: Options) -> Plan:
  """The plan of a build from files; UsageError if an input is absent or an option is out of range."""
  options.check()
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


def carry_out(
  out: pathlib.Path, plan: Plan, make: Callable[[pathlib.Path], Mapping[str, Any]]
) -> tuple[dict[str, Any], bool]:
  """Builds a corpus in a folder, unless it is whole there; goes on with what was begun, and clears up at the end.

  Args:
    out: the folder; NAME.json there holds the plan and what `make` returned, and says that the corpus is whole.
    make: writes the corpus; given the working folder. What is whole in that need not be made again.

  Returns:
    What NAME.json holds, and whether it was there already.

  Raises:
    UsageError: `out` holds something else, or another build was begun there.
  """
  path, work_dir = out / f"{plan['corpus']}.json", out / ".build"
  about = _read(path, out)
  held = about is not None
  if held:
    _compare(about, plan, out, "holds")
  else:
    begin(out, work_dir, plan)
    about = plan | make(work_dir)
    # The time of a file is of this machine, not of the release.
    about["inputs"] = {role: _without_time(given) for role, given in plan["inputs"].items()}
    # A worker of a killed build may have begun a file after `begin`, before it noticed.
    files.remove_incomplete(out)
    files.write_text(path, json.dumps(about, ensure_ascii=False, indent=1) + "\n")
  shutil.rmtree(work_dir, ignore_errors=True)
  return about, held


def begin(out: pathlib.Path, work_dir: pathlib.Path, plan: Plan) -> None:
  """Makes the folders, or goes on with a build that was begun there.

  Raises:
    UsageError: another build was begun there, or the folder holds files that are not of this corpus.
  """
  if out.exists() and not out.is_dir():
    raise UsageError(f"{out} is a file: choose a folder to build in")
  path = work_dir / "plan.json"
  held = _read(path, out)
  if held is not None and held.pop("layout", 1) != _LAYOUT:
    shutil.rmtree(work_dir)
  elif held is not None:
    _compare(held, plan, out, "has begun")
  elif out.exists():
    others = sorted({path.name for path in out.iterdir()} - {work_dir.name, outputs.FOLDER_LOCK})
    if others:
      raise UsageError(
        f"{out} holds {others[0]}, which is not of {plan['corpus']}: choose a new or empty folder"
      )
  files.make_folder(work_dir)
  for folder in (out, work_dir):
    files.remove_incomplete(folder)
  files.write_text(path, json.dumps({**plan, "layout": _LAYOUT}, indent=1))


def _read(path: pathlib.Path, out: pathlib.Path) -> dict[str, Any] | None:
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except (FileNotFoundError, NotADirectoryError):
    return None
  except (OSError, ValueError) as error:
    raise XmcapError(f"cannot read {path}: {one_line(error)}; remove {out} and build again") from None


def _without_time(given: Mapping[str, Any]) -> dict[str, Any]:
  return {name: value for name, value in given.items() if name != "modified"}


def _compare(held: Mapping[str, Any], wanted: Plan, out: pathlib.Path, verb: str) -> None:
  """Raises UsageError if what a folder holds (or began) is another build than the one wanted."""
  for name, has, wants in _differences(held, wanted):
    if verb == "holds" and isinstance(wants, Mapping) and has == _without_time(wants):
      continue  # NAME.json does not say when inputs were last changed
    if name == "on_bad" and has == "stop":
      continue  # what is made until a build stops, or when it need not, is what one that skips would make
    raise UsageError(
      f"{out} {verb} {wanted['corpus']} with another {name} ({_words(has)}, not {_words(wants)}): remove it, or "
      "choose another folder"
    )


def _differences(held: Mapping[str, Any], wanted: Plan) -> list[tuple[str, Any, Any]]:
  found = [("version", held.get("version"), wanted["version"])]
  for part in ("options", "inputs"):
    has, wants = held.get(part, {}), wanted[part]
    found += [(name, has.get(name), wants.get(name)) for name in {**wants, **has}]
  return [(name, has, wants) for name, has, wants in found if has != wants]


def _words(value: Any) -> str:
  if isinstance(value, Mapping):
    return ", ".join(f"{part:,} bytes" if name == "bytes" else str(part) for name, part in value.items())
  return str(value)
