"""`xmcap convert --part=adapter`: extracts a language adapter from the run that trained it."""

import math
import pathlib

from xmcap.convert import exporting, importing
from xmcap.convert.pairs import unchanged
from xmcap.convert.recognise import place_of
from xmcap.errors import UsageError
from xmcap.families.dual.text_tower import TextConfig
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.training.checkpoints import weights


def export(path: str, out: str, weights_of_run: str | None = None) -> None:
  """Writes the parameters of the adapter and a `model.json` of its text tower into the new folder `out`.

  `path` is a run of runs/adapter.gin or adapter_pairs.gin, or one of its checkpoints; `weights_of_run` is as in
  `read.chosen_weights`. UsageError if it has no adapter, or `out` is not free.
  """
  place, folder = place_of(path), pathlib.Path(out)
  importing.check_free(folder, weights.PARAMS, model_json.NAME)
  stored = weights.open_weights(place, weights_of_run)
  model = exporting.read_model(place, stored.where)
  part = "t5" if "text" not in model.parts else "text"
  config = model.config(part)
  adapter = {name: tensor for name, tensor in weights.one_by_one(stored.tensors).items() if "adapter" in name}
  if not adapter or not isinstance(config, T5Config | TextConfig):
    raise UsageError(f"{path}: no adapter found: give a run of runs/adapter.gin or adapter_pairs.gin")
  outputs = unchanged(adapter, stored.where)
  importing.write(folder, {part: config}, outputs, "adapter")
  count = importing.count(outputs)
  tower = sum(math.prod(tensor.shape) for tensor in stored.tensors.values()) - count
  if stored.is_ema:
    print(f"weights: {stored.where}")
  print(f"{folder}: an adapter of {count:,} parameters, {count / tower:.2%} of the tower's {tower:,}")
