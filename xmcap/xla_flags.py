"""XLA's flags: sets of them by chip, as data, and setting them before jax starts.

A process reads its flags once, when jax starts: from LIBTPU_INIT_ARGS on a TPU, else from XLA_FLAGS. An unknown one
ends it: libtpu in a line, jaxlib with a core dump. So a process of its own tries them first.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from xmcap import platforms
from xmcap.errors import UsageError
from xmcap.terminal import shown

NONE = "none"
VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_FLAG = re.compile(r"--([a-z]\w*)(?:=(.*))?", re.DOTALL)
# What a test with simulated devices sets; it changes no number of a run.
_SIMULATED = "xla_force_host_platform_device_count"
# libtpu of a host without a TPU; on one with a TPU, it neither takes nor waits for it.
NO_TPU = {
  "JAX_PLATFORMS": "cpu",
  "TPU_SKIP_MDS_QUERY": "1",
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
  "TPU_ACCELERATOR_TYPE": "v4-8",
  "TPU_WORKER_HOSTNAMES": "localhost",
}
_STARTS = {
  "XLA_FLAGS": "import jax; jax.devices()",
  "LIBTPU_INIT_ARGS": "from jax.experimental import topologies as t; t.get_topology_desc('v4:2x2x1', 'tpu')",
}
_TRY_SECONDS = 300
_REFUSALS = (
  (r"Unknown command line flag '(\w+)'|Unknown flags? in XLA_FLAGS: (?:--)?(\w+)", "there is no flag {}"),
  (r"Illegal (value '.*?') specified for (flag '\w+')|interpret (value .*?) for (flag \w+)", "no {}"),
)


def sets(chip: str) -> dict[str, dict[str, str]]:
  """Name -> flag -> value, of the sets for a chip: `v4`, `v5e`, `v5p`, `v6e`, `tpu7x`, `gpu` or `cpu`."""
  table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
  return {name: entry["flags"] for name, entry in table.items() if chip in entry["chips"]}


def use(text: str, chip: str) -> None:
  """Sets flags for jax in this process, before it starts; those of the environment win.

  `text` is `none`, the name of a set, or flags as XLA takes them, each --NAME=VALUE.

  Raises:
    UsageError: there is no such set for the chip, or the compiler in this install does not take them.
  """
  variable = "XLA_FLAGS" if chip in ("gpu", "cpu") else "LIBTPU_INIT_ARGS"
  own = os.environ.get(variable, "")
  flags = {name: value for name, value in parsed(text, chip).items() if name not in _names(own)}
  if not flags:
    return
  words = " ".join(f"--{name}" if value is None else f"--{name}={value}" for name, value in flags.items())
  joined = f"{words} {own}".strip()
  _try(variable, joined, text)
  os.environ[variable] = joined


def in_use() -> dict[str, str]:
  """Variable -> flags of this process, whoever set them; not the number of simulated devices."""
  texts = {name: _without_simulated(os.environ.get(name, "")) for name in VARIABLES}
  return {name: text for name, text in texts.items() if text}


def chip_here() -> str:
  """The chip of this host, as for `sets`; call it after `platforms.choose`. UsageError if that is not known."""
  platform = (os.environ.get("JAX_PLATFORMS") or "tpu").split(",")[0]
  chip = platforms.tpu_kind() if platform == "tpu" else {"cuda": "gpu", "cpu": "cpu"}.get(platform)
  if chip:
    return chip
  raise UsageError(
    "--xla_flags: the chip of this host is not known: set XLA_FLAGS or LIBTPU_INIT_ARGS instead"
  )


def parsed(text: str, chip: str) -> Mapping[str, str | None]:
  """Flag -> value of what `use` takes, which raises; None: a flag without one. The compiler is not asked."""
  if text == NONE:
    return {}
  if not text.startswith("-"):
    by_name = sets(chip)
    if text in by_name:
      return by_name[text]
    names = ", ".join((NONE, *by_name))
    raise UsageError(f"--xla_flags={text}: of a {chip} there are {names}; or give flags, each --NAME=VALUE")
  matches = [_FLAG.fullmatch(word) for word in text.split()]
  if None in matches:
    raise UsageError(f"--xla_flags={text}: give flags as --NAME=VALUE, with spaces between them")
  return {match[1]: match[2] for match in matches if match}


def _names(text: str) -> set[str]:
  return {match[1] for word in text.split() if (match := _FLAG.fullmatch(word))}


def _without_simulated(text: str) -> str:
  return " ".join(word for word in text.split() if _SIMULATED not in word)


def _try(variable: str, flags: str, text: str) -> None:
  """Raises UsageError if the compiler refuses the flags."""
  # jaxlib says what is wrong in its log of errors, which `quiet` turns off.
  environment = {**os.environ, **NO_TPU, "TF_CPP_MIN_LOG_LEVEL": "2", variable: flags}
  # -P: not the folder of the user, who may have a jax.py there.
  command = [sys.executable, "-P", "-c", _STARTS[variable]]
  try:
    ended = subprocess.run(command, capture_output=True, env=environment, timeout=_TRY_SECONDS, check=False)
  except subprocess.TimeoutExpired:
    return  # a busy host; jax itself will say it
  said = ended.stderr.decode("utf-8", "replace")
  for pattern, why in _REFUSALS:
    if match := re.search(pattern, said):
      raise UsageError(f"--xla_flags={text}: {why.format(' of '.join(filter(None, match.groups())))}")
  if ended.returncode:
    last = next(reversed(said.strip().splitlines()), f"exit code {ended.returncode}")
    raise UsageError(f"--xla_flags={text}: the compiler does not start with them ({shown(last)})")
