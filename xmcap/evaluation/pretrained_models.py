"""The model that a run starts from: the `model.json` of its PRETRAINED folders, bound in gin.

Weights fit one model only, so the folder that holds them says which: sizes, activations, epsilons, pooling. From the
weakest to the strongest: the gin files; the `model.json` of the PRETRAINED folders; a `model.json` that is named by
--gin_file, for the parts (`vit`, `t5`, ...) that it describes; `--gin.NAME=VALUE`.

Some fields are never taken from the weights: those of a run (dropout, dtype, ...). Others only if no gin file sets
them: the image size, since position embeddings are resized; the vocabulary's rows, since they follow from the corpus;
and, if only the prefix 'vit' is loaded, the pooling, which another head may need.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import gin

from xmcap import configuration
from xmcap.files import addresses
from xmcap.models import model_json, parts
from xmcap.training.checkpoints import start

_OF_A_RUN = ("dropout_rate", "remat", "scan", "dtype", "adapter", "adapter_dim", "adapter_alpha")
_IF_UNBOUND = ("image_size", "vocab_size")

Locate = Callable[[str], str | None]
"""From the address of a folder to one that can be read here, or None."""


def bind(
  pretrained: start.Pretrained,
  named: Sequence[str],
  say: Callable[[str], None],
  locate: Locate = lambda path: path,
) -> Callable[[], None] | None:
  """Returns a function that makes the bindings, to be parsed after the gin files; None if there are none to make.

  Call it when the gin files have been parsed: it says which of their values change.

  Args:
    pretrained: `train.pretrained`.
    named: the gin files of the command; a `model.json` among them is stronger for its parts.
    say: prints a line for each folder that changes values.
    locate: finds the folders here. A folder that is gone since the run began is replaced by the run's own `model.json`.

  Raises:
    UsageError: a `model.json` is not valid.
    XmcapError: a bucket does not answer.
  """
  explicit = [model_json.read(file) for file in named if file.endswith(".json")]
  of_weights = {name for name, part in parts.PARTS.items() if part.of_weights}
  of_weights -= {name for model in explicit for name in model.parts}
  bindings: dict[str, Any] = {}
  for folder, prefix in start.folders_and_prefixes(pretrained):
    if prefix not in (None, "", parts.IMAGE):
      continue
    file = _model_file(folder, locate)
    if file is None:
      continue
    model = model_json.parse(addresses.read_bytes(file), file)
    changed = []
    unbound = _IF_UNBOUND + (("pool",) if prefix else ())
    for part in of_weights & (set(parts.image_parts()) if prefix else model.parts.keys()):
      config = parts.PARTS[part].config_name
      for field, value in model.parts.get(part, {}).items():
        name = f"{config}.{field}"
        before = _before(config, field, type(model.config(part)))
        if field in _OF_A_RUN or (field in unbound and before[0]):
          continue
        bindings[name] = value
        if before[1] is not None and before[1] != value:
          changed.append(f"{name} {before[1]!r} -> {value!r}")
    if changed:
      say(f"{file}: {', '.join(sorted(changed))}")
  return (lambda: _make(bindings)) if bindings else None


def _model_file(folder: str, locate: Locate) -> str | None:
  """The `model.json` of a folder of weights, of a run or of one of its checkpoints, as far as it can be read here."""
  place = locate(folder)
  if place is None:
    return None
  places = [place.rstrip("/") or place]
  while os.path.basename(places[-1]) == "checkpoints" or os.path.basename(places[-1]).isdigit():
    places.append(addresses.parent(places[-1]))
  for one in places:
    if addresses.is_file(file := addresses.join(one, model_json.NAME)):
      return file
  if addresses.names(place) or addresses.folders(place):
    return None  # weights of an early release
  run = configuration.macro("MODEL_DIR") if configuration.has_macro("MODEL_DIR") else ""
  own = addresses.join(run, model_json.NAME)
  return own if run and locate(run) == run and addresses.is_file(own) else None


def _before(configurable: str, field: str, kind: type) -> tuple[bool, Any]:
  """Whether gin files bind a field, and its value without the weights; None if it has none."""
  try:
    bound = gin.get_bindings(configurable, resolve_references=False)
  except ValueError:  # no file has imported it
    return False, None
  if field in bound:
    # What a reference such as @vocabulary_rows() gives may need files; such a field is not replaced.
    value = bound[field]
    reference = hasattr(value, "selector") and value.selector != "gin.macro"
    return True, None if reference else _plain(configuration.resolve(value))
  default = getattr(kind, field, None)
  return False, None if field in _IF_UNBOUND else _plain(default)


def _plain(value: Any) -> Any:
  return tuple(value) if isinstance(value, list) else value


def _make(bindings: dict[str, Any]) -> None:
  for name, value in bindings.items():
    if name.endswith(".image_size"):
      # As in the gin files of models: the streams use this macro too.
      if not configuration.has_macro("IMAGE_SIZE"):
        gin.bind_parameter(("IMAGE_SIZE", "gin.macro", "value"), value)
      gin.parse_config(f"{name} = %IMAGE_SIZE")
    else:
      gin.bind_parameter(name, value)
