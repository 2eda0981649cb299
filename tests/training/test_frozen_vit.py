"""A small decoder on a frozen ViT, trained from stored vectors: models/frozen_vit.gin, as docs/own_data.md walks it."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests import drawn_params
from tests.make import small_corpus
from tests.make.command import xmcap
from xmcap.convert.source import parameter_shapes
from xmcap.data import registry, vocabulary
from xmcap.data.images import Augment
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.models.vit import ViTConfig
from xmcap.training.checkpoints import read, weights
from xmcap.training.objectives import CaptionObjective

VIT = ViTConfig(16, 1, 24, 2, 4, 12, "tok", activation="gelu", dtype="float32")
SMALLER = [f"--gin.T5Config.{name}={size}" for name, size in
           {"emb_dim": 16, "num_heads": 2, "head_dim": 8, "num_decoder_layers": 1, "mlp_dim": 16}.items()]  # fmt: skip


def write_vit(folder, seed=0, vit=VIT):
  """A ViT as `xmcap convert` writes it, with random weights."""
  folder.mkdir()
  rng = np.random.RandomState(seed)
  flat = {
    name: 0.3 * rng.standard_normal(shape).astype(np.float32) for name, shape in parameter_shapes(vit).items()
  }
  save_file(flat, folder / weights.PARAMS)
  (folder / model_json.NAME).write_text(
    model_json.as_text(model_json.Model({"vit": model_json.of_config(vit)}))
  )
  return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  folder = small_corpus.write(
    tmp_path_factory.mktemp("corpus"), "folder", languages=("fa", "quz", "sw"), pieces=700
  )
  (folder / "languages.txt").write_text("fa\nquz\nsw\n")
  return folder


@pytest.fixture(scope="module")
def featured(corpus, tmp_path_factory):
  """A ViT, and its vectors of the corpus."""
  folder = tmp_path_factory.mktemp("vit")
  vit, stored = write_vit(folder / "vit"), folder / "f.safetensors"
  split = ["--split=train+validation", f"--out={stored}"]
  xmcap("features", f"--model_dir={vit}", f"--corpus={corpus}", *split).succeeded()
  return vit, stored


def train(vit, corpus, stored, out):
  common = [
    "--gin_file=models/frozen_vit.gin", f"--gin_file={vit / 'model.json'}", "--gin_file=data/folder.gin",
    "--gin_file=runs/folder.gin", f"--gin.PRETRAINED={vit}", f"--gin.FEATURES={stored}", f"--gin.DATA_DIR={corpus}",
    f"--gin.MODEL_DIR={out}", "--gin.TOTAL_STEPS=2", "--gin.BATCH_SIZE=8", *SMALLER,
    *small_corpus.ONE_LENGTH,
  ]  # fmt: skip
  return xmcap("train", *common)


@pytest.mark.slow
def test_frozen_vit_from_features_to_captions(tmp_path, corpus, featured):
  vit, stored = featured
  out = tmp_path / "model"
  train(vit, corpus, stored, out).succeeded()
  held = weights.stacked(weights.open_weights(out).tensors)
  for name, tensor in weights.open_weights(vit).tensors.items():
    np.testing.assert_array_equal(held[name].read(), tensor.read())
  assert {"decoder", "encoder", "projection", "token_embedder", "vit"} == set(read.load_params(out))

  evaluate = ["eval", f"--model_dir={out}", "--gin_file=runs/eval_folder.gin", f"--gin.DATA_DIR={corpus}"]
  small = ["--gin.CaptionEvaluator.split=validation", "--gin.Predictor.max_length=3"]
  printed = xmcap(*evaluate, f"--gin.EVAL_DIR={tmp_path / 'eval'}", *small).succeeded()
  assert printed.out.splitlines()[-1] == f"serve the model: xmcap serve --model_dir={out}"
  printed.succeeded("most frequent caption", "nearest picture")
  table = json.loads((tmp_path / "eval" / "table.json").read_text())
  assert "bootstrap:1000" in table["signature"]


@pytest.fixture(scope="module")
def streams(corpus, featured):
  """The corpus's pictures, and their vectors."""
  registry.register_built("own_frozen", str(corpus))
  pixels = CaptionStream(
    "own_frozen", batch_size=4, image_size=12, captions_per_image=2, prompt_length=8, target_length=16
  )
  return pixels, dataclasses.replace(pixels, features=str(featured[1]))


def objective_of(corpus, vit=VIT):
  rows = vocabulary.Vocabulary(str(corpus / "vocabulary.model")).rows
  return CaptionObjective(vit, T5Config(rows, 16, 2, 8, 1, 1, 16, dtype="float32"))


def test_the_loss_of_stored_vectors_is_that_of_the_pictures(corpus, featured, streams):
  pixels, vectors = streams
  objective = objective_of(corpus)
  batches = [{name: array for name, array in stream.batch(0).items() if name != "key"} for stream in streams]
  params = {**drawn_params.of(objective.init, batches[1]), "vit": weights.read_all(featured[0])["vit"]}
  loss = jax.jit(lambda params, batch: objective.loss(params, batch, jax.random.key(0), True)[0])
  losses = [float(loss(params, batch)) for batch in batches]
  assert losses[0] == pytest.approx(losses[1], rel=1e-5)
  assert batches[1]["features"].shape == (2, 16) and "image" not in batches[1]
  objective.check(params, vectors)
  objective.check(params, pixels)


def test_vectors_of_another_vit_end_the_run_before_a_step(tmp_path, corpus, featured):
  vit = write_vit(tmp_path / "vit", seed=1)
  refused = train(vit, corpus, featured[1], tmp_path / "model")
  refused.refused("f.safetensors: not the vectors of this run's ViT")


@pytest.mark.parametrize(
  "field, message",
  [({"pool": "none"}, "ViTConfig.pool = 'none'"), ({"width": 32}, "16 numbers, but the model's have 32")],
)
def test_vectors_that_the_vit_does_not_make_are_refused(corpus, streams, field, message):
  with pytest.raises(UsageError, match=message):
    objective_of(corpus, dataclasses.replace(VIT, **field)).check({}, streams[1])


def test_stored_vectors_are_not_augmented(streams):
  with pytest.raises(UsageError, match="stored vectors cannot be augmented"):
    dataclasses.replace(streams[1], augment=Augment())
