"""The settings of a run: stored in each checkpoint, and compared when a run resumes from it.

`checkpoints/STEP/training/settings.json` is written and checksummed with the checkpoint. It holds `bindings`, all gin
bindings, and `data`, the settings that decide which example is at which position (the stream's `signature()`).
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from xmcap import configuration, terminal
from xmcap.errors import UsageError
from xmcap.files.bucket_paths import epath
from xmcap.training.checkpoints import small_json
from xmcap.training.hosts import join as hosts

NAME = "settings.json"
_NOT_SET = "not set"
_LONGEST_VALUE = 100  # characters in a message


@dataclasses.dataclass(frozen=True)
class Settings:
  """Gin bindings (name -> value as text), and the settings that decide the data (name -> JSON value)."""

  bindings: Mapping[str, str]
  data: Mapping[str, Any]

  def encode(self) -> str:
    """The contents of the file."""
    return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False) + "\n"


def of_run(stream: Any) -> Settings:
  """The settings of the current run; all its processes must call this.

  A stream without `signature()` is identified by its type and its images per batch. Raises UsageError if a process
  has different data from process 0.
  """
  signature = {"stream": type(stream).__name__, "pictures": stream.num_images}
  data = json.dumps(stream.signature() if hasattr(stream, "signature") else signature, sort_keys=True)
  digests = hosts.agree("data of the run", hashlib.sha256(data.encode()).hexdigest())
  others = [number for number, digest in enumerate(digests) if digest != digests[0]]
  if others:
    run = hosts.current()
    assert run is not None  # there are several processes
    raise UsageError(
      f"{run.describe(others)} has different data from process 0: start all processes with the same command, on copies"
      " of the same corpus and vocabulary"
    )
  return Settings(configuration.bindings(), json.loads(data))


def read(folder: epath.Path) -> Settings:
  """Reads the settings in a checkpoint's folder. ValueError if they are missing or damaged."""
  file = folder / NAME
  if not file.exists():
    raise ValueError(f"{file} is missing")
  content = small_json.read(file)
  bindings, data = content.get("bindings"), content.get("data")
  if not isinstance(bindings, dict) or not isinstance(data, dict):
    raise ValueError(f"{file}: not the settings of a run")
  return Settings(bindings, data)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
  """`NAME: OLD -> NEW` for each value that differs, sorted by name."""
  before, now = _flat(before), _flat(now)
  return [
    f"{_shown(name)}: {_shown(before.get(name, _NOT_SET))} -> {_shown(now.get(name, _NOT_SET))}"
    for name in sorted({*before, *now})
    if before.get(name, _NOT_SET) != now.get(name, _NOT_SET)
  ]


def check(
  checkpoint: epath.Path, before: Settings, now: Settings, other_data: bool, say: Callable[[str], None]
) -> None:
  """Prints a line for each setting that has changed since the checkpoint that a run resumes from.

  Raises:
    UsageError: the data changed and `other_data` is not set.
  """
  for line in changes(before.bindings, now.bindings):
    say(f"changed since checkpoint {checkpoint.name}: {line}")
  others = changes(before.data, now.data)
  if not others:
    return
  listed = "; ".join(others[:6]) + (f"; and {len(others) - 6} more" if len(others) > 6 else "")
  if not other_data:
    raise UsageError(
      f"{checkpoint}: was trained on other data ({listed}): restore the old settings, give another MODEL_DIR, or"
      " continue on the new data with --other_data"
    )
  say(f"continuing on other data: {listed}")


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
  """Replaces each nested mapping by entries `NAME.KEY`, one level deep."""
  flat = {}
  for name, value in values.items():
    flat |= (
      {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    )
  return flat


def _shown(value: Any) -> str:
  return terminal.shown(" ".join(str(value).split()), _LONGEST_VALUE)
