"""A small dual tower, as gin would configure it."""

import jax
import numpy as np
import pytest

from xmcap.evaluation import embedder
from xmcap.models.dual import DualConfig
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.contrastive import ContrastiveObjective

VIT = ViTConfig(width=16, depth=1, mlp_dim=16, num_heads=2, patch_size=8, image_size=16, dtype="float32")
T5 = T5Config(
  vocab_size=384, emb_dim=16, num_heads=2, head_dim=8, num_encoder_layers=1, num_decoder_layers=1,
  mlp_dim=16, dtype="float32",
)  # fmt: skip
DUAL = DualConfig(8)


@pytest.fixture
def objective(monkeypatch):
  """Its objective; evaluators take the tower from gin."""
  monkeypatch.setattr(embedder, "configured_tower", lambda: embedder.tower(VIT, T5, DUAL))
  return ContrastiveObjective(VIT, T5, DUAL)


@pytest.fixture
def params(objective):
  batch = {"image": np.zeros((1, 16, 16, 3), np.uint8), "target_tokens": np.ones((1, 1, 8), np.int32)}
  return objective.init(jax.random.key(0), batch)["params"]
