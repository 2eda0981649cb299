"""`xmcap doctor`: what is installed and what this machine has, on one screen, for a user and for an issue."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from xmcap import __version__, extras, platforms, terminal
from xmcap.commands import base
from xmcap.errors import UsageError, XmcapError, one_line

_WIDTH = 80  # columns of the screen
_LABEL = 10  # of them for the name of a line
_PACKAGES = (
  "numpy", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "array-record", "tensorstore", "libtpu",
  "jax-cuda12-plugin", "tensorflow", "seqio",
)  # fmt: skip
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# What changes where and how a model runs, and can be pasted into an issue.
_SETTINGS = ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "XLA_FLAGS", "JAX_ENABLE_X64")
# A process of its own asks jax, which may wait for other hosts or a lock, or die in a driver.
_ASK_JAX = """
import json
from xmcap import platforms
platforms.choose()
import jax
kinds = [device.device_kind for device in jax.local_devices()]
print(json.dumps({"platform": jax.default_backend(), "kinds": kinds}))
"""
_JAX_SECONDS, _PROGRAM_SECONDS = 300, 20


def add(commands) -> None:
  """Declares the command."""
  command = base.add_command(
    commands, "doctor", _doctor, "say what is installed, and what this machine and a bucket offer",
    "Works in every size of install. Its output belongs into a report of a fault: it has no secrets.",
  )  # fmt: skip
  bucket = "also check that a run can write to gs://BUCKET/FOLDER, by one small object that is deleted again"
  base.text(command, "--bucket", "ADDRESS", bucket, "", type=base.address)
  base.flag(command, "--json", "print JSON")


def _doctor(arguments) -> None:
  with base.saying("looking around; jax and a bucket may take a minute"):
    findings = examine(arguments.bucket)
  if arguments.json:
    print(json.dumps(findings, ensure_ascii=False, indent=2))
  else:
    print("\n".join(lines(findings)))
  if findings.get("bucket", {}).get("refused"):
    raise UsageError(f"{arguments.bucket}: a run cannot write there, see above")


def examine(bucket: str = "") -> dict[str, Any]:
  """Returns all findings, as JSON can hold them; what is not there is None. Sizes are in bytes.

  `bucket` is an address to check as a run does (`buckets.check_writable`); "": none.
  """
  import locale
  import platform
  import tempfile

  from xmcap import processes

  findings: dict[str, Any] = {
    "xmcap": {"version": __version__, "folder": os.path.dirname(os.path.dirname(os.path.abspath(__file__)))},
    "python": {"version": platform.python_version(), "executable": sys.executable},
    "system": f"{platform.platform()}",
    "encoding": locale.getpreferredencoding(False),
    "packages": {name: version for name in _PACKAGES if (version := _version(name))},
    "extras": {name: missing(name) for name in (*extras.MODULES, *extras.OPTIONS)},
    "device": device(),
    "nvidia": _first_lines(
      ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    ),
    "settings": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
    "cores": processes.available_cores(),
    "free_memory": platforms.free_memory(),
    "free_disk": {
      folder: _free_disk(folder) for folder in dict.fromkeys((os.getcwd(), tempfile.gettempdir()))
    },
    "java": (_first_lines(["java", "-version"]) or [None])[0],
    "chromium": _chromium(),
  }
  if bucket:
    findings["bucket"] = {"address": bucket, "refused": _refused(bucket)}
  return findings


def missing(extra: str) -> list[str]:
  """Returns the modules of an extra that are not installed."""
  names = extras.absent((extras.MODULES | extras.OPTIONS)[extra])
  # CUDA 13 has a plugin of another name.
  return [name for name in names if name != "jax_cuda12_plugin" or not platforms.cuda_installed()]


def device() -> dict[str, Any]:
  """Returns jax's platform and the kind of each device of this host, or `problem`: why that is not known."""
  if extras.absent(["jax"]):
    return {"problem": "unknown without jax"}
  environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
  try:
    # -P: not the folder of the user, who may have a jax.py there.
    asked = subprocess.run(
      [sys.executable, "-P", "-c", _ASK_JAX], capture_output=True, text=True, errors="replace", env=environment,
      timeout=_JAX_SECONDS, check=False,
    )  # fmt: skip
  except subprocess.TimeoutExpired:
    why = "does another process hold the device, must a slice's other hosts ask too, or is this machine very busy?"
    return {"problem": f"jax does not answer within {_JAX_SECONDS} s: {why}"}
  try:
    return json.loads(asked.stdout.splitlines()[-1])
  except (IndexError, ValueError):
    said = asked.stderr.strip().splitlines() or [f"it ended with status {asked.returncode}"]
    return {"problem": f"jax does not start: {terminal.shown(said[-1])}"}


def lines(findings: dict[str, Any]) -> Iterator[str]:
  """Yields the findings as lines of at most 80 columns."""
  for label, text in _texts(findings):
    for number, part in enumerate(terminal.broken(terminal.shown(text, limit=None), _WIDTH - _LABEL)):
      yield f"{'' if number else label:<{_LABEL}}{part}"


def _texts(findings: dict[str, Any]) -> Iterator[tuple[str, str]]:
  yield "xmcap", f"{findings['xmcap']['version']} in {findings['xmcap']['folder']}"
  yield "Python", f"{findings['python']['version']}, {findings['python']['executable']}"
  yield "system", f"{findings['system']}, text is {findings['encoding']}"
  yield "packages", _listed(findings["packages"])
  installed = [name for name, absent in findings["extras"].items() if not absent]
  yield "extras", ", ".join(installed) or "none"
  lacking = {name: absent for name, absent in findings["extras"].items() if absent}
  if lacking:
    yield (
      "  without",
      ", ".join(
        f"{name} ({absent[0]}{f' and {len(absent) - 1} more' if absent[1:] else ''})"
        for name, absent in lacking.items()
      ),
    )
  asked = findings["device"]
  counts = {kind: asked["kinds"].count(kind) for kind in asked.get("kinds", ())}
  kinds = ", ".join(f"{count} x {kind}" for kind, count in counts.items())
  yield "device", asked.get("problem") or f"{asked['platform']}: {kinds}"
  for line in findings["nvidia"] or ():
    yield "NVIDIA", line
  if findings["settings"]:
    yield "settings", ", ".join(f"{name}={value}" for name, value in findings["settings"].items())
  free = findings["free_memory"]
  yield "machine", f"{findings['cores']} cores, {_size(free)} of memory free"
  yield "disk", ", ".join(f"{_size(free)} free in {folder}" for folder, free in findings["free_disk"].items())
  yield "Java", findings["java"] or "none: --tokenizer=ptb, METEOR and SPICE need it"
  yield "Chromium", findings["chromium"] or "none: only tests and pictures of pages need it"
  if bucket := findings.get("bucket"):
    yield (
      "bucket",
      f"{bucket['address']}: {bucket['refused'] or 'a run can write, read, list and delete here'}",
    )


def _listed(versions: dict[str, str]) -> str:
  return ", ".join(f"{name} {version}" for name, version in versions.items()) or "none"


def _size(count: int | None) -> str:
  return "unknown" if count is None else f"{count / 1e9:.1f} GB"


def _version(package: str) -> str | None:
  import importlib.metadata

  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return None


def _first_lines(words: Sequence[str], most: int = 8) -> list[str] | None:
  """Returns what a program says, up to so many lines; None if it is not there or fails."""
  try:
    done = subprocess.run(
      words, capture_output=True, text=True, errors="replace", timeout=_PROGRAM_SECONDS, check=True
    )
  except (OSError, subprocess.SubprocessError):
    return None
  return [terminal.shown(line) for line in (done.stdout or done.stderr).splitlines() if line.strip()][:most]


def _chromium() -> str | None:
  path = next(filter(None, map(shutil.which, _CHROMIUM)), None)
  said = _first_lines([path, "--version"]) if path else None
  return f"{said[0].strip()}, {path}" if said else path


def _free_disk(folder: str) -> int | None:
  try:
    return shutil.disk_usage(folder).free
  except OSError:
    return None


def _refused(address: str) -> str | None:
  """Returns why a run cannot write to a bucket; None if it can."""
  from xmcap.files import buckets

  try:
    buckets.check_writable(address)
  except Exception as error:  # which the report is about
    explanation = error if isinstance(error, XmcapError) else extras.explained(error)
    return str(explanation) if explanation else one_line(error)
  return None
