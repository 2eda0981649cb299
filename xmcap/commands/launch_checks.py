"""Resolves the configuration of a launched run on this machine, before anything is paid for.

The hosts have xmcap's own gin files, and the files of the folder in which their command runs. What cannot be seen from
here (a disk of the hosts, an image, in a dry run a bucket) is named and not checked.
"""

import dataclasses
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from xmcap import extras, xla_flags
from xmcap.commands import base
from xmcap.errors import UsageError, XmcapError
from xmcap.files import addresses, buckets, paths

_MACROS = ("DATA_DIR", "VOCABULARY", "REFERENCES", "FEATURES", "INITIAL_CHECKPOINT")


@dataclasses.dataclass(frozen=True)
class LaunchPlace:
  """Where a command will run.

  Attributes:
    name: of the machines, for messages, such as `v4-128`.
    hosts, devices, slices: numbers of all hosts, of all devices (0: unknown) and of slices or nodes with GPUs.
    folder: where the command runs, as an address that can be read here; "": it is empty; None: it cannot be seen.
    same_disks: whether the hosts see the disks of this machine.
    ask: whether buckets may be asked.
    slice_type: of TPUs, such as `v4-128`.
  """

  name: str
  hosts: int
  devices: int
  slices: int = 1
  folder: str | None = None
  same_disks: bool = False
  ask: bool = True
  slice_type: str = ""

  def locate(self, path: str) -> str | None:
    """The address at which a path of the hosts can be read here; None: it cannot."""
    path = os.path.expanduser(path) if self.same_disks else path
    if not addresses.is_remote(path):
      if os.path.isabs(path) or path.startswith("~"):
        return path if self.same_disks else None
      if not self.folder:
        return None
      path = addresses.join(self.folder, path)
    return path if self.ask or not addresses.is_remote(path) else None


def check(parsers, words: Sequence[str], place: LaunchPlace) -> str:
  """Checks a command for many hosts and its configuration; returns the folder that it writes to, "" if unknown.

  Args:
    parsers: command -> its parser.
    words: the command, `train`, `eval` or `embed`, and its arguments.
    place: where it will run.

  Raises:
    UsageError: the command would fail on the hosts.
  """
  # Children of this process (sbatch passes its variables on to the job) must not inherit what is set here.
  before = dict(os.environ)
  os.environ["JAX_PLATFORMS"] = "cpu"
  unseen: list[str] = []
  try:
    if place.folder and addresses.is_remote(place.folder) and not place.ask:
      unseen.append(f"--files={place.folder}")
    chip = None
    if place.slice_type:
      from xmcap.planning import topologies

      topologies.check_offered(place.slice_type)
      chip = topologies.chip_of(place.slice_type)
    with tempfile.TemporaryDirectory(prefix="xmcap-") as folder:
      arguments, rest = parsers[words[0]].parse_known_args(words[1:])
      arguments.overrides = base.overrides(arguments, rest)
      if chip is not None:
        for text in getattr(arguments, "xla_flags", ()):
          xla_flags.parsed(text, chip.name)
      extras.check(arguments.prog, arguments.extra or "train")
      for word in words:
        paths.check_scheme(word.partition("=")[2])
      checks = {"train": _train, "eval": _eval}.get(words[0])
      written = checks(arguments, place, folder, unseen) if checks else ""
  except XmcapError as error:
    raise UsageError(f"{error} (nothing was started; --unchecked starts it without this check)") from None
  finally:
    if gin := sys.modules.get("gin"):
      gin.clear_config()
    os.environ.clear()
    os.environ.update(before)
  if unseen:
    why = (
      "it cannot be seen from here" if place.ask else "a dry run looks into no bucket, and not onto the hosts"
    )
    base.say(f"not checked, since {why}: {', '.join(dict.fromkeys(unseen))}")
  return written


def _eval(arguments, place: LaunchPlace, folder: str, unseen: list[str]) -> str:
  from xmcap import configuration
  from xmcap.models import model_json

  base.require(arguments, ["model_dir"])
  files, search = base.gin_files(arguments, ["runs/eval.gin"], _gin_folder(arguments, place, folder))
  configuration.parse([*files, configuration.stand_in_for_model], arguments.overrides, search)
  _check_evaluators(place, unseen)
  _check_inputs(place, unseen, has_vocabulary=True)
  if address := _located("--model_dir", arguments.model_dir, place, unseen):
    _must_exist("--model_dir", arguments.model_dir, addresses.join(address, model_json.NAME))
  return arguments.model_dir


def _check_evaluators(place: LaunchPlace, unseen: list[str]) -> None:
  """Raises UsageError if an evaluator lacks its references, or would write to the disk of one of several hosts."""
  import gin

  from xmcap import configuration

  evaluators = gin.get_bindings("evaluate", resolve_references=False)["evaluators"]
  for evaluator in configuration.unresolved(evaluators):
    bound = gin.get_bindings(evaluator.scoped_selector, resolve_references=False)
    for parameter in ("out_dir", "references"):
      path = configuration.resolve(bound.get(parameter))
      if not path:
        continue
      name = getattr(bound[parameter], "scoped_selector", f"{evaluator.scoped_selector}.{parameter}")
      name = name.removesuffix("/gin.macro")
      if parameter == "out_dir":
        _check_output(name, path, place, unseen)
      elif address := _located(name, path, place, unseen):
        _must_exist(name, path, address)


def _train(arguments, place: LaunchPlace, folder: str, unseen: list[str]) -> str:
  if not arguments.gin_file:
    raise UsageError("xmcap train needs gin files, such as --gin_file=models/bb.gin")
  from xmcap import configuration

  files, search = base.gin_files(arguments, folder=_gin_folder(arguments, place, folder))
  base.parse_run(arguments, files, search, place.locate)
  if arguments.measure:  # which reads no data, and writes nothing
    _check_mesh(place)
    return ""
  model_dir = configuration.macro("MODEL_DIR")
  _check_output("MODEL_DIR", model_dir, place, unseen)
  # Not `given`: @epochs() would read the corpus.
  steps = configuration.macro("TOTAL_STEPS") if configuration.has_macro("TOTAL_STEPS") else None
  if isinstance(steps, int) and steps < 1:
    raise UsageError(f"TOTAL_STEPS is {steps}: it must be at least 1")
  _check_mesh(place)
  seen = _check_inputs(place, unseen)
  _check_weights(seen)
  return model_dir


def _gin_folder(arguments, place: LaunchPlace, copies: str) -> str:
  """The folder in which the gin files of the hosts' working folder are found here.

  Those of a bucket are copied into `copies`, an empty folder. A `model.json` in `arguments.gin_file` becomes a path.
  """
  from xmcap import gin_files

  paths = ["", *arguments.gin_search_paths.split(",")]
  for position, name in enumerate(arguments.gin_file):
    address = place.locate(name)
    if place.folder == "" and not (os.path.isabs(name) or (gin_files.gin_folder() / name).is_file()):
      raise UsageError(
        f"--gin_file={name}: none of xmcap's own, and the hosts have no other: copy it into the folder of --files"
      )
    if address and addresses.is_remote(address):
      for path in paths:
        _copy(addresses.join(path, name) if path else name, place.folder or "", copies)
    if address and name.endswith(".json"):
      arguments.gin_file[position] = os.path.join(copies, name) if addresses.is_remote(address) else address
  if place.folder is None or (addresses.is_remote(place.folder) and not place.ask):
    return ""  # it cannot be seen: they may be here too
  return copies if addresses.is_remote(place.folder) else place.folder or copies


def _copy(name: str, address: str, folder: str) -> None:
  """Copies a file in a bucket's folder, if there is one, and the gin files that it includes from there."""
  from gin import config_parser

  from xmcap import gin_files

  copy, address_of = pathlib.Path(folder, name), addresses.join(address, name)
  if ".." in name.split("/"):
    raise UsageError(f"{address_of}: '..' leads out of the folder that is copied to the hosts")
  if copy.exists() or not addresses.is_file(address_of):
    return
  text = addresses.read_text(address_of)
  copy.parent.mkdir(parents=True, exist_ok=True)
  copy.write_text(text, encoding="utf-8")
  if name.endswith(".json"):
    return
  for statement in gin_files.statements(text, address_of):
    if isinstance(statement, config_parser.IncludeStatement) and not os.path.isabs(statement.filename):
      _copy(os.path.join(os.path.dirname(name), statement.filename), address, folder)


def _check_output(name: str, folder: str, place: LaunchPlace, unseen: list[str]) -> None:
  if not addresses.is_remote(folder):
    if place.hosts > 1 and not place.same_disks:
      raise UsageError(
        f"{name}={folder}: the {place.hosts} hosts of {place.name} cannot share a local folder: give one in a bucket,"
        f" --gin.{name}=gs://BUCKET/FOLDER"
      )
    return
  if place.ask:
    buckets.check_writable(folder)
  else:
    buckets.check_address(folder)
    unseen.append(f"{name}={folder}")


def _check_mesh(place: LaunchPlace) -> None:
  """Raises UsageError if the mesh does not fit the devices, or the batch cannot be divided over it."""
  if not place.devices:
    return
  from xmcap.data.stream import CaptionStream
  from xmcap.planning import run as run_lib
  from xmcap.training import run_arguments

  run = run_arguments.Arguments()
  try:
    data, fsdp, _ = run["partitioning"]().sizes(place.devices, place.slices)
    if run_lib.selected("stream") == "CaptionStream":
      sizes = (run_lib.option(CaptionStream, name) for name in ("batch_size", "captions_per_image"))
      run_arguments.check_batch(run_lib.images_of(*sizes), data * fsdp, run["microbatches"]())
  except UsageError as error:
    raise UsageError(f"{place.name}: {error}") from None


def _check_inputs(place: LaunchPlace, unseen: list[str], has_vocabulary: bool = False) -> dict[str, str]:
  """Raises UsageError if an input is missing; returns {macro or folder: its address here} of those that are seen.

  `has_vocabulary`: the model folder has one, so that none is taken from the data.
  """
  from xmcap import configuration
  from xmcap.training.checkpoints import start

  macros = {name: configuration.macro(name) for name in _MACROS if configuration.has_macro(name)}
  if macros.get("DATA_DIR") and macros.get("VOCABULARY") == "" and not has_vocabulary:
    macros["VOCABULARY"] = addresses.join(macros["DATA_DIR"], "vocabulary.model")
  named = [(name, value) for name, value in macros.items() if isinstance(value, str) and value]
  pretrained = configuration.given("train", "pretrained") or ()
  named += [("PRETRAINED", path) for path, _ in start.folders_and_prefixes(pretrained)]
  seen = {}
  for name, path in named:
    if address := _located(name, path, place, unseen):
      _must_exist(name, path, address)
      seen[path if name == "PRETRAINED" else name] = address
  return seen


def _located(name: str, path: str, place: LaunchPlace, unseen: list[str]) -> str | None:
  address = place.locate(path)
  if address is None:
    if place.folder == "" and not (addresses.is_remote(path) or os.path.isabs(path) or path.startswith("~")):
      raise UsageError(
        f"{name}={path}: a relative path, but the hosts run the command in an empty folder: give an address such as"
        " gs://BUCKET/FOLDER, or the folder of --files that has it"
      )
    unseen.append(f"{name}={path}")
  return address


def _must_exist(name: str, path: str, address: str) -> None:
  if not (addresses.is_file(address) or addresses.names(address) or addresses.folders(address)):
    raise UsageError(f"{name}={path}: {address} does not exist: copy it there, or give another")


def _check_weights(seen: dict[str, str]) -> None:
  """Raises UsageError or XmcapError if the weights of a captioner do not fit it: reads names and shapes alone."""
  from xmcap import configuration
  from xmcap.planning import run as run_lib
  from xmcap.training.checkpoints import start

  pairs = start.folders_and_prefixes(configuration.given("train", "pretrained") or ())
  if not (pairs or configuration.given("train", "initial_checkpoint")):
    base.say("a new run starts from random weights: give others with --gin.PRETRAINED")
  is_captioner = run_lib.selected("objective") == "CaptionObjective"
  if not is_captioner or any(path not in seen for path, _ in pairs) or not pairs:
    return
  import gin

  from xmcap.models.captioner import variable_shapes
  from xmcap.training import run_arguments

  rows = gin.get_bindings("T5Config", resolve_references=False).get("vocab_size")
  if not isinstance(rows, int) and "VOCABULARY" not in seen:
    return
  for name in ("DATA_DIR", "VOCABULARY"):
    if name in seen:
      gin.bind_parameter((name, "gin.macro", "value"), seen[name])
  captioner = run_arguments.Arguments()["objective"]().module
  shapes = variable_shapes(captioner.vit, captioner.t5)["params"]
  here = [(seen[path], prefix) for path, prefix in pairs]
  start.pretrained_parts(shapes, [path if prefix is None else (path, prefix) for path, prefix in here])
