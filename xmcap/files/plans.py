"""The plan of a build, which keeps two different builds from mixing in a folder."""

import json
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

from xmcap.errors import UsageError, XmcapError, one_line
from xmcap.files import files, outputs

_LAYOUT = 6  # version of the working folder; a build begun by an older version is restarted
_PLAN = "plan.json"
WORK = ".build"
"""The working folder of a build, inside its output folder."""
_LAXER = (("on_bad", "stop", "skip"), ("duplicates", "refuse", "keep"))
"""Setting, earlier and new value: until the earlier one ends the build, both make the same files."""
_BESIDE_RECORDS = ("problems.jsonl", "languages.txt", "features.json", "dataset_info.json")

Plan = Mapping[str, Any]
"""`corpus`, `version`, `options` and `inputs`."""


def carry_out(
  out: pathlib.Path, plan: Plan, make: Callable[[pathlib.Path], Mapping[str, Any]], anew: bool = False
) -> tuple[dict[str, Any], bool]:
  """Builds a corpus in a folder, unless it is complete; resumes an interrupted build, and removes its working folder.

  Args:
    out: the folder; NAME.json in it has the plan and the result of `make`, and marks a complete corpus.
    plan: what is built, and from what.
    make: writes the corpus, given the working folder, whose finished parts need not be made again.
    anew: whether to restart a build that was begun with another plan, rather than refuse.

  Returns:
    The contents of NAME.json, and whether it existed before; UsageError as `begin`. What `make` raises leaves no
    working folder if nothing was made.
  """
  path, work_dir = out / f"{plan['corpus']}.json", out / WORK
  # NAME.json has no modification times of inputs: they belong to this machine, not to the release.
  inputs = {role: {**entry} for role, entry in plan["inputs"].items()}
  for entry in inputs.values():
    entry.pop("modified", None)
  lasting = {**plan, "inputs": inputs}
  about = _read(path, out)
  existed = about is not None
  if about is not None:
    if differs := _difference(about, lasting):
      raise UsageError(f"{out} contains {differs}: remove it, or choose another folder")
  else:
    begin(out, work_dir, plan, anew)
    try:
      about = {**lasting, **make(work_dir)}
    except XmcapError:
      # An input that is refused at once leaves nothing that another build would have to agree with.
      if [path.name for path in work_dir.iterdir()] == [_PLAN] and not _others(out, work_dir):
        shutil.rmtree(work_dir, ignore_errors=True)
      raise
    # A worker of a killed build may have begun a file after `begin`, before it noticed the kill.
    files.remove_incomplete(out)
    files.write_text(path, json.dumps(about, ensure_ascii=False, indent=1) + "\n")
  shutil.rmtree(work_dir, ignore_errors=True)
  return about, existed


def begin(out: pathlib.Path, work_dir: pathlib.Path, plan: Plan, anew: bool = False) -> None:
  """Makes the folders, or resumes a build that was begun there; with `anew`, removes a different build first.

  UsageError if another build was begun there, or the folder has files that do not belong to this corpus.
  """
  if out.exists() and not out.is_dir():
    raise UsageError(f"{out} is a file: choose a folder to build in")
  path = work_dir / _PLAN
  earlier = _read(path, out)
  if earlier is None and out.exists() and (others := _others(out, work_dir)):
    foreign = f"{others[0]}, which does not belong to {plan['corpus']}"
    raise UsageError(f"{out} contains {foreign}: choose a new or empty folder")
  begun = earlier if earlier is not None and earlier.get("layout") == _LAYOUT else None
  differs = "" if begun is None else _difference(begun, plan)
  if differs and not anew:
    raise UsageError(f"{out} has an unfinished {differs}: remove it, or choose another folder")
  if differs:
    for written in out.iterdir():  # before the working folder, whose plan says that they are ours
      if written.name.startswith(f"{plan['corpus']}-") or written.name in _BESIDE_RECORDS:
        written.unlink()
  if differs or begun is None:
    shutil.rmtree(work_dir, ignore_errors=True)
  files.make_folder(work_dir)
  for folder in (out, work_dir):
    files.remove_incomplete(folder)
  files.write_text(path, json.dumps({**plan, "layout": _LAYOUT}, indent=1))


def clear(work_dir: pathlib.Path) -> None:
  """Removes what a build has made in its working folder, which may be gigabytes; its plan stays, to begin again."""
  for path in work_dir.iterdir():
    if path.is_dir():
      shutil.rmtree(path, ignore_errors=True)
    elif path.name != _PLAN:
      path.unlink()


def _others(out: pathlib.Path, work_dir: pathlib.Path) -> list[str]:
  """Returns the names in a folder beside its working folder and its lock."""
  return sorted({path.name for path in out.iterdir()} - {work_dir.name, outputs.FOLDER_LOCK})


def _read(path: pathlib.Path, out: pathlib.Path) -> dict[str, Any] | None:
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except (FileNotFoundError, NotADirectoryError):
    return None
  except (OSError, ValueError) as error:
    raise XmcapError(f"cannot read {path}: {one_line(error)}; remove {out} and build again") from None


def _difference(old: Plan, new: Plan) -> str:
  """Returns `CORPUS with SETTING=OLD, not NEW` for the first setting that differs; "" if none does."""
  has, wants = _settings(old), _settings(new)
  for name in {**wants, **has}:
    if (name, has.get(name), wants.get(name)) in _LAXER:
      continue
    if has.get(name) != wants.get(name):
      return f"{new['corpus']} with {name}={_as_text(has.get(name))}, not {_as_text(wants.get(name))}"
  return ""


def _settings(plan: Plan) -> dict[str, Any]:
  settings = {"version": plan.get("version"), **plan.get("options", {}), **plan.get("inputs", {})}
  columns = settings.pop("columns", None) or {}
  return {**settings, **{f"columns.{name}": value for name, value in columns.items()}}


def _as_text(value: Any) -> str:
  """Returns a setting as an option is written; `default` for an empty one."""
  if value in ("", [], None):
    return "default"
  return ",".join(map(str, value)) if isinstance(value, list) else str(value)
