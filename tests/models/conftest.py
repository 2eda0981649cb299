"""A captioner small enough that a test can search with it without a cache."""

import functools

import jax
import numpy as np
import pytest

from tests import drawn_params
from xmcap.models.captioner import Captioner
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig

VOCABULARY = 23


@pytest.fixture(scope="session")
def vit_config():
  return ViTConfig(width=16, depth=2, mlp_dim=24, num_heads=2, patch_size=4, image_size=12, dtype="float32")


@pytest.fixture(scope="session")
def t5_config():
  return T5Config(
    vocab_size=VOCABULARY, emb_dim=12, num_heads=2, head_dim=8, num_encoder_layers=2, num_decoder_layers=2,
    mlp_dim=20, dtype="float32",
  )  # fmt: skip


@pytest.fixture(scope="session")
def batch():
  """B = 3 pictures, K = 4 captions; some prompts and targets padded."""
  rng = np.random.RandomState(1)
  image = rng.randint(0, 256, (3, 12, 12, 3)).astype(np.uint8)
  prompt = rng.randint(2, VOCABULARY, (3, 4, 2)).astype(np.int32)
  prompt[:, 1, 1] = 0
  lengths = rng.randint(2, 8, (3, 4))
  targets = rng.randint(2, VOCABULARY, (3, 4, 7)).astype(np.int32)
  targets = np.where(np.arange(7) < lengths[..., None] - 1, targets, 0)
  targets = np.where(np.arange(7) == lengths[..., None] - 1, 1, targets).astype(np.int32)
  return {
    "image": image, "prompt_tokens": prompt, "target_tokens": targets,
    "target_weights": (targets > 0).astype(np.float32),
  }  # fmt: skip


@pytest.fixture(scope="session")
def captioner(vit_config, t5_config):
  return Captioner(vit_config, t5_config)


@pytest.fixture(scope="session")
def variables(captioner, batch):
  """Their shapes, names and axes."""
  arguments = batch["image"], batch["prompt_tokens"], batch["target_tokens"]
  return jax.eval_shape(captioner.init, jax.random.key(0), *arguments)


@pytest.fixture(scope="session")
def params(variables):
  return drawn_params.like(variables["params"], scale=0.4)


@pytest.fixture(scope="session")
def logits(captioner, params):
  """(image, prompt, targets) -> logits, compiled."""
  return functools.partial(
    jax.jit(lambda params, *inputs: captioner.apply({"params": params}, *inputs)), params
  )
