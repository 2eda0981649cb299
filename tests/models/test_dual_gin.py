"""The gin files of dual towers with the gin files of their runs."""

import gin
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmcap import configuration
from xmcap.families.dual.embedder import configured_tower
from xmcap.families.dual.objective import ContrastiveObjective

RUN = "runs/contrastive_cc3m35l.gin"
FILES = {
  "tiny": (["models/dual_tiny.gin", "data/emoji100.gin", "runs/contrastive.gin"], 32),
  "b16_mt5": (["models/dual_b16_mt5.gin", RUN], 64),
  "msiglip": ([RUN, "models/dual_msiglip.gin"], 64),
}


def shapes(name):
  """The objective's module and the shapes of its parameters."""
  files, length = FILES[name]
  configuration.parse(files, ["T5Config.vocab_size=1024"] if name == "tiny" else [])
  objective = ContrastiveObjective()
  size = objective.module.vit.image_size
  batch = {
    "image": jnp.zeros((1, size, size, 3), jnp.uint8),
    "target_tokens": jnp.zeros((1, 1, length), jnp.int32),
  }
  return objective.module, jax.eval_shape(objective.init, jax.random.key(0), batch)["params"]


@pytest.mark.parametrize("name", FILES)
def test_dual_gin_model_files_match_their_runs(name):
  module, params = shapes(name)
  assert params["text_head"]["kernel"].shape[1] == module.dual.embed_dim
  assert configured_tower().text == module.text


def test_dual_tiny_gin_equals_the_captioners_tiny_gin():
  module, _ = shapes("tiny")
  gin.clear_config()
  configuration.parse(
    ["models/tiny.gin", "data/emoji100.gin", "runs/contrastive.gin"], ["T5Config.vocab_size=1024"]
  )
  assert ContrastiveObjective().module == module


def test_msiglip_has_as_many_parameters_as_transformers_model():
  torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
  _, params = shapes("msiglip")
  with torch.device("meta"):
    config = transformers.SiglipConfig(text_config={"vocab_size": 250112}, vision_config={"image_size": 256})
    theirs = sum(p.numel() for p in transformers.SiglipModel(config).parameters())
  assert sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params)) == theirs
