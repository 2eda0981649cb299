"""A small model folder as `xmcap train` leaves it, its parameters random; and gin files that run a program."""

import io
import pathlib

import jax
import numpy as np
from flax import traverse_util
from PIL import Image

from xmcap.convert.source import parameter_shapes
from xmcap.data import vocabulary
from xmcap.languages import LANGUAGES
from xmcap.models import model_json, stacking
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.step import create_state

VIT = ViTConfig(16, 1, 24, 2, 4, 12, "tok", activation="gelu")


def write(folder: pathlib.Path, vit: ViTConfig = VIT, search: str = "Greedy", **fields) -> pathlib.Path:
  """A captioner that speaks all languages, badly, by a search with these fields."""
  folder.mkdir(parents=True)
  text = folder / "text.txt"
  text.write_text("".join(f"{language.native_name}\n" for language in LANGUAGES.values()), encoding="utf-8")
  pieces = vocabulary.train_vocabulary(str(text), str(folder / "vocabulary.model"), size=500)
  text.unlink()
  t5 = T5Config(pieces.rows, 16, 2, 12, 1, 2, 20)
  shapes = parameter_shapes(vit) | parameter_shapes(t5)
  shapes |= {"projection/kernel": (16, 16), "projection/bias": (16,)}
  rng = np.random.RandomState(0)
  flat = {name: jax.numpy.asarray(rng.standard_normal(shape), np.float32) for name, shape in shapes.items()}
  # Single bytes and rows without a piece would make no text, so they are never the likeliest.
  no_text = [n for n in range(pieces.rows) if n >= pieces.size or n == 2 or pieces.processor.is_byte(n)]
  logits = "decoder/logits_dense/kernel"
  flat[logits] = flat[logits].at[:, np.array(no_text)].set(0.0)
  run = Checkpoints(folder)
  run.save(3, create_state(stacking.stack(traverse_util.unflatten_dict(flat, sep="/")), Optimizer(adam)))
  run.close()
  model = model_json.Model(
    {"vit": model_json.of_config(vit), "t5": model_json.of_config(t5)},
    "emoji36",
    {"max_length": 5},
    (search, fields),
  )
  (folder / model_json.NAME).write_text(model_json.as_text(model))
  (folder / "config.gin").write_text("# as train writes it\n")
  return folder


def picture(folder: pathlib.Path) -> pathlib.Path:
  """A picture file of one colour."""
  data = io.BytesIO()
  Image.fromarray(np.full((12, 12, 3), 99, np.uint8)).save(data, "PNG")
  (folder / "picture.png").write_bytes(data.getvalue())
  return folder / "picture.png"


def hostile_gin(marker: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
  """{name: gin text}, each of which makes the file `marker` when gin parses or evaluates it.

  Args:
    marker: the file.
    folder: holds what is included.
  """
  dynamic = "from __gin__ import dynamic_registration\nimport subprocess\n"
  call = f"@subprocess.check_output()\nsubprocess.check_output.args = ['touch', '{marker}']\n"
  module = folder / "hostile_module.py"
  module.write_text(f"open({str(marker)!r}, 'w').close()\n")
  included = folder / "hostile.gin"
  included.write_text("import hostile_module\n")
  return {
    # Parsing alone registers; what is bound is made when a Predictor or a model is.
    "a program for an argument": f"{dynamic}from xmcap.models import vit\nvit.ViTConfig.width = {call}",
    "a module": "import hostile_module\n",
    "an include": f"include '{included}'\n",
  }
