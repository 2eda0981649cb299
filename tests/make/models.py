"""Small model folders as `xmcap train` leaves them, of drawn parameters; and gin files that run a program.

A folder is made once a process, and copied for each test.
"""

import functools
import io
import pathlib
import shutil
import tempfile

import jax
import numpy as np
from flax import traverse_util
from PIL import Image

from tests import drawn_params
from xmcap.convert.source import parameter_shapes
from xmcap.data import vocabulary
from xmcap.families.dual.model import DualConfig
from xmcap.families.dual.objective import ContrastiveObjective
from xmcap.languages import LANGUAGES
from xmcap.models import model_json, stacking
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.step import create_state

STEP = 3
"""The step of the checkpoint in each folder."""
VIT = ViTConfig(16, 1, 24, 2, 4, 12, "tok", activation="gelu")
DUAL_VIT = ViTConfig(width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=8, image_size=16, dtype="float32")
DUAL_T5 = T5Config(
  vocab_size=384, emb_dim=16, num_heads=2, head_dim=8, num_encoder_layers=1, num_decoder_layers=1, mlp_dim=16,
  dtype="float32",
)  # fmt: skip
DUAL = DualConfig(8)


def captioner(
  folder: pathlib.Path, vit: ViTConfig = VIT, search: str = "Greedy", **fields: object
) -> pathlib.Path:
  """A captioner that speaks all languages, badly, by a search with these fields."""
  made, t5 = _captioner(vit)
  shutil.copytree(made, folder)
  write_json(folder, {"vit": vit, "t5": t5}, "emoji36", {"max_length": 5}, (search, fields))
  (folder / "config.gin").write_text("# as train writes it\n")
  return folder


@functools.cache
def _captioner(vit: ViTConfig) -> tuple[pathlib.Path, T5Config]:
  folder = _folder()
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
  save(folder, stacking.stack(traverse_util.unflatten_dict(flat, sep="/")))
  return folder, t5


def dual_tower(folder: pathlib.Path, pieces: str) -> pathlib.Path:
  """A dual tower with `dual_params`; `pieces` is the file of its vocabulary."""
  shutil.copytree(_dual_tower(), folder)
  shutil.copy(pieces, folder / "vocabulary.model")
  return folder


@functools.cache
def _dual_tower() -> pathlib.Path:
  folder = save(_folder(), dual_params())
  return write_json(folder, {"vit": DUAL_VIT, "t5": DUAL_T5, "dual": DUAL})


@functools.cache
def dual_params():
  """The parameters of `dual_tower`."""
  batch = {"image": np.zeros((1, 16, 16, 3), np.uint8), "target_tokens": np.ones((1, 1, 8), np.int32)}
  return drawn_params.of(ContrastiveObjective(DUAL_VIT, DUAL_T5, DUAL).init, batch)


def save(folder: pathlib.Path, params) -> pathlib.Path:
  """Writes a checkpoint of step STEP; returns the folder."""
  run = Checkpoints(folder)
  run.save(STEP, create_state(params, Optimizer(adam)))
  run.close()
  return folder


def write_json(folder: pathlib.Path, configs, *fields: object, **more) -> pathlib.Path:
  """Writes `model.json`: the configuration of each part, and other fields of `model_json.Model`; returns the folder."""
  parts = {name: model_json.of_config(config) for name, config in configs.items()}
  model = model_json.Model(parts, *fields, **more)
  (folder / model_json.NAME).write_text(model_json.as_text(model))
  return folder


@functools.cache
def _root() -> tempfile.TemporaryDirectory:
  return tempfile.TemporaryDirectory(prefix="xmcap-models-")


def _folder() -> pathlib.Path:
  return pathlib.Path(tempfile.mkdtemp(dir=_root().name))


def image(folder: pathlib.Path) -> pathlib.Path:
  """An image file of one colour."""
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
