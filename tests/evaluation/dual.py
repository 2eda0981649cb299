"""A small dual tower, as gin would configure it."""

import functools
import shutil

import numpy as np
import pytest

from tests import drawn_params
from xmcap.families.dual import embedder
from xmcap.families.dual.model import DualConfig, DualTower
from xmcap.families.dual.objective import ContrastiveObjective
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.checkpoints.write import Checkpoints
from xmcap.training.optimizer import Optimizer, adam
from xmcap.training.step import create_state

VIT = ViTConfig(width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=8, image_size=16, dtype="float32")
T5 = T5Config(
  vocab_size=384, emb_dim=16, num_heads=2, head_dim=8, num_encoder_layers=1, num_decoder_layers=1,
  mlp_dim=16, dtype="float32",
)  # fmt: skip
DUAL = DualConfig(8)


@pytest.fixture
def objective(monkeypatch):
  """Its objective; evaluators take the tower from gin."""
  monkeypatch.setattr(embedder, "configured_tower", lambda: DualTower(VIT, T5, DUAL))
  return ContrastiveObjective(VIT, T5, DUAL)


@functools.cache
def drawn():
  """Its parameters."""
  batch = {"image": np.zeros((1, 16, 16, 3), np.uint8), "target_tokens": np.ones((1, 1, 8), np.int32)}
  return drawn_params.of(ContrastiveObjective(VIT, T5, DUAL).init, batch)


@pytest.fixture
def params(objective):
  return drawn()


def write_run(folder, vocabulary, t5=T5, save=True):
  """The folder of its run, as `xmcap train` leaves it; not `save`: to one that holds a checkpoint already."""
  if save:
    run = Checkpoints(folder)
    run.save(3, create_state(drawn(), Optimizer(adam)))
    run.close()
  configs = {"vit": VIT, "t5": t5, "dual": DUAL}
  model = model_json.Model({name: model_json.of_config(config) for name, config in configs.items()})
  (folder / "model.json").write_text(model_json.as_text(model))
  shutil.copy(vocabulary, folder / "vocabulary.model")
  return folder
