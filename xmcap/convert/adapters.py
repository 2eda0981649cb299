"""`xmcap convert --part=adapter`: extracts a language adapter from the run that trained it."""

import math
import pathlib
from collections.abc import Callable

from xmcap.convert.importing import check_free, make_folder
from xmcap.convert.pairs import SAME, Pair, make_outputs
from xmcap.errors import UsageError
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.tensors.files import write_safetensors
from xmcap.training.checkpoints import weights


def export(path: str, out: str, say: Callable[[str], None] = print) -> None:
  """Writes the parameters of the adapter and a `model.json` of its text tower into the new folder `out`.

  `path` is the folder of a run of runs/adapter.gin, or one of its checkpoints.

  Raises:
    UsageError: there is no adapter, or `out` is not free.
  """
  place, folder = pathlib.Path(path), pathlib.Path(out)
  check_free(folder, weights.PARAMS)
  said = next(
    (at / model_json.NAME for at in (place, *place.parents[:2]) if (at / model_json.NAME).is_file()), None
  )
  config = model_json.read(said).config("t5") if said else None
  given = weights.open_weights(place)
  held = {name: tensor for name, tensor in weights.one_by_one(given.tensors).items() if "adapter" in name}
  if not held or not isinstance(config, T5Config):
    raise UsageError(f"{path}: no adapter found: give a run of runs/adapter.gin")
  shapes = {name: tensor.shape for name, tensor in held.items()}
  pairs = [Pair((name,), (name,), SAME) for name in held]
  outputs, _ = make_outputs(pairs, held, shapes, given.where, "its configuration asks")
  make_folder(folder)
  model = model_json.Model(
    t5=model_json.of_config(config, leave_out=("dropout_rate", "remat", "scan", "dtype"))
  )
  (folder / model_json.NAME).write_text(model_json.as_text(model), encoding="utf-8")
  write_safetensors(folder / weights.PARAMS, outputs, {"format": "xmcap", "source": "adapter"}, say)
  count = sum(math.prod(shape) for shape in shapes.values())
  whole = sum(math.prod(tensor.shape) for tensor in given.tensors.values())
  say(
    f"{folder}: an adapter of {count:,} parameters, {count / (whole - count):.2%} of the tower's {whole - count:,}"
  )
