"""What a run is set to: kept in each of its checkpoints, and compared when the run goes on from one.

`checkpoints/STEP/training/settings.json` holds `bindings`, what gin binds, and `data`, what decides which example lies
at a position (the stream's `signature()`). Being written and summed with the checkpoint, it is what the checkpoint was
trained with, whatever became of the files beside it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging
from etils import epath

from xmcap import configuration, terminal
from xmcap.errors import UsageError
from xmcap.training.checkpoints import small_json
from xmcap.training.hosts import join as hosts

NAME = "settings.json"
_NOT_SET = "not set"
_SHOWN = 100  # characters of a value


@dataclasses.dataclass(frozen=True)
class Settings:
  """What a run is set to.

  Attributes:
    bindings: gin's, name -> value as text.
    data: what decides which example lies at a position, name -> value of JSON.
  """

  bindings: Mapping[str, str]
  data: Mapping[str, Any]

  def encode(self) -> str:
    """As text; `read` reads it."""
    return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False) + "\n"


def of_run(stream: Any) -> Settings:
  """The settings of this process's run; all its processes must ask.

  Args:
    stream: of `loop.train`; without `signature()`, of which nothing but its kind and its batch is known.

  Raises:
    UsageError: a process has other data than process 0: its command, or its copy of the corpus.
  """
  known = {"stream": type(stream).__name__, "pictures": stream.pictures}
  data = stream.signature() if hasattr(stream, "signature") else known
  text = json.dumps(data, sort_keys=True)
  said = hosts.agree("data of the run", hashlib.sha256(text.encode()).hexdigest())
  others = [number for number, one in enumerate(said) if one != said[0]]
  if others:
    raise UsageError(
      f"{hosts.current().describe(others)} has other data than process 0: start all with the same command, on copies of"
      " the same corpus and vocabulary"
    )
  # As it comes back from a file: lists for tuples.
  return Settings(configuration.bindings(), json.loads(text))


def read(item: epath.Path) -> Settings | None:
  """The settings in a folder of a checkpoint; None: an older version wrote it.

  Raises:
    ValueError: they are not what is written here.
  """
  file = item / NAME
  if not file.exists():
    return None
  content = small_json.read(file)
  bindings, data = content.get("bindings"), content.get("data")
  if not isinstance(bindings, dict) or not isinstance(data, dict):
    raise ValueError(f"{file}: no settings of a run")
  return Settings(bindings, data)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
  """`NAME: OLD -> NEW` of each value that is not the same, by name."""
  before, now = _flat(before), _flat(now)
  return [
    f"{_shown(name)}: {_shown(before.get(name, _NOT_SET))} -> {_shown(now.get(name, _NOT_SET))}"
    for name in sorted({*before, *now})
    if before.get(name, _NOT_SET) != now.get(name, _NOT_SET)
  ]


def check(
  checkpoint: epath.Path, before: Settings | None, now: Settings, other_data: bool, say: Callable[[str], None]
) -> None:
  """Says what has changed since a checkpoint, a line each.

  Args:
    checkpoint: that the run goes on from.
    before: its settings.
    now: the run's.
    other_data: the data may be others.
    say: prints a line.

  Raises:
    UsageError: the data are others, and that was not asked for.
  """
  if before is None:
    logging.warning(
      "%s: an older version kept no settings: whether they are the same is not known", checkpoint
    )
    return
  for line in changes(before.bindings, now.bindings):
    say(f"changed since checkpoint {checkpoint.name}: {line}")
  others = changes(before.data, now.data)
  if not others:
    return
  listed = "; ".join(others[:6]) + (f"; and {len(others) - 6} more" if len(others) > 6 else "")
  if not other_data:
    raise UsageError(
      f"{checkpoint}: was trained on other data ({listed}): set them back, give another MODEL_DIR, or go on with the"
      " new data by --other_data"
    )
  say(f"going on with other data: {listed}")


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
  """Mappings within, one level deep, by `NAME.KEY`."""
  flat = {}
  for name, value in values.items():
    flat |= (
      {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    )
  return flat


def _shown(value: Any) -> str:
  return terminal.shown(" ".join(str(value).split()), _SHOWN)
