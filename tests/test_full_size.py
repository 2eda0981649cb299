"""BB at its full size: weights of transformers come in, are computed with as there, and take a training step.

Each stage runs in a process of its own, so that its memory can be measured. transformers 5.23.0, torch 2.13.0.
"""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.alone]

_ROWS, _INPUTS, _TARGETS = 4, 9, 12


def main(stage, folder):
  """Runs a stage; prints a line of JSON with what it found and its peak of memory."""
  found = {"make": _make, "compute": _compute, "train": _train}[stage](folder)
  print(json.dumps({**found, "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))


def _inputs():
  rng = np.random.default_rng(0)
  inputs = rng.integers(3, 250_000, (_ROWS, _INPUTS))
  inputs[1, 5:] = 0
  targets = rng.integers(3, 250_000, (_ROWS, _TARGETS))
  return inputs, targets, rng.integers(0, 256, (2, 224, 224, 3), np.uint8)


def _make(folder):
  """mT5-base- and ViT-B/16-shaped folders, random, and what transformers computes with them."""
  import torch
  import transformers

  from tests.convert.conftest import edit_json

  torch.manual_seed(0)
  inputs, targets, image = _inputs()
  sizes = dict(
    vocab_size=250112, d_model=768, d_kv=64, d_ff=2048, num_layers=12, num_heads=12, dropout_rate=0.0
  )
  config = transformers.MT5Config(**sizes, feed_forward_proj="gated-gelu")
  model = transformers.MT5ForConditionalGeneration(config).eval()
  # Its class ties logits to the embedding, which public mT5s do not. A tenth of the embedding's size, as fresh logits
  # spread by 28, and float32 has no more than seven digits.
  model.lm_head.weight = torch.nn.Parameter(torch.randn(250112, 768) * 0.1)
  model.save_pretrained(f"{folder}/mt5")
  edit_json(f"{folder}/mt5/config.json", tie_word_embeddings=False)
  shifted = np.concatenate([np.zeros((_ROWS, 1), targets.dtype), targets[:, :-1]], axis=1)
  with torch.inference_mode():
    tokens, mask, shifted = (torch.from_numpy(x) for x in (inputs, inputs != 0, shifted))
    output = model(input_ids=tokens, attention_mask=mask.long(), decoder_input_ids=shifted)
    np.save(f"{folder}/logits.npy", output.logits.numpy())
  vit = transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=False).eval()
  vit.save_pretrained(f"{folder}/vit")
  pixels = torch.from_numpy(image.astype(np.float32).transpose(0, 3, 1, 2) / 127.5 - 1.0)
  with torch.inference_mode():
    np.save(f"{folder}/features.npy", vit(pixels).last_hidden_state[:, 0].numpy())
  return {}


def _model(folder):
  from xmcap import configuration
  from xmcap.models.t5 import T5Config
  from xmcap.models.vit import ViTConfig

  configuration.parse(["models/bb.gin", f"{folder}/xmcap-mt5/model.json", f"{folder}/xmcap-vit/model.json"])
  return ViTConfig(), T5Config()


def _compute(folder):
  """The largest differences of ours from what transformers computed."""
  import jax
  from flax import traverse_util

  from xmcap.files.tensors import read_safetensors
  from xmcap.models.captioner import shift_right
  from xmcap.models.t5 import Decoder, Encoder, TokenEmbedder
  from xmcap.models.vit import ViT

  def read(name):
    tensors = read_safetensors(f"{folder}/xmcap-{name}/params.safetensors")
    return traverse_util.unflatten_dict({path: tensor.read() for path, tensor in tensors.items()}, sep="/")

  vit, t5 = _model(folder)
  inputs, targets, image = _inputs()
  features = jax.jit(ViT(vit).apply)({"params": read("vit")["vit"]}, image)[:, 0]

  @jax.jit
  def logits_of(params, inputs, targets):
    embed = lambda tokens: TokenEmbedder(t5).apply({"params": params["token_embedder"]}, tokens)  # noqa: E731
    mask = inputs != 0
    encoded = Encoder(t5).apply({"params": params["encoder"]}, embed(inputs), mask)
    decoder = {"params": params["decoder"]}
    hidden = Decoder(t5).apply(decoder, embed(shift_right(targets)), encoded, mask)
    return Decoder(t5).apply(decoder, hidden, method="logits")

  logits = logits_of(read("mt5"), inputs, targets)
  return {
    "logits": float(np.abs(logits - np.load(f"{folder}/logits.npy")).max()),
    "features": float(np.abs(features - np.load(f"{folder}/features.npy")).max()),
    "spread": float(np.load(f"{folder}/logits.npy").std()),
  }


class _Stream:
  """Eight random captions of 24 tokens, one a picture."""

  num_images = 8

  def batch(self, step, rows=None):
    rng = np.random.default_rng(step)
    return {
      "image": rng.integers(0, 256, (8, 224, 224, 3), np.uint8),
      "prompt_tokens": rng.integers(3, 250_000, (8, 1, 2), np.int32),
      "target_tokens": rng.integers(3, 250_000, (8, 1, 24), np.int32),
      "target_weights": np.ones((8, 1, 24), np.float32),
    }

  def batches(self, start_step, rows=None):
    while True:
      yield self.batch(start_step)
      start_step += 1


def _train(folder):
  """One step from the converted weights, and its checkpoint."""
  from xmcap.training.loop import train
  from xmcap.training.objectives import CaptionObjective
  from xmcap.training.reporting.writers import Writers
  from xmcap.training.run import Start

  lines = []
  result = train(
    f"{folder}/run", CaptionObjective(*_model(folder)), _Stream(), 1, writers=Writers(tensorboard=False),
    start=Start(say=lines.append), pretrained=[f"{folder}/xmcap-mt5", f"{folder}/xmcap-vit"],
  )  # fmt: skip
  return {"lines": lines, "loss": result.metrics["loss"], "skipped": result.metrics["skipped"]}


def _run(stage, folder):
  done = subprocess.run(
    [sys.executable, "-m", "tests.test_full_size", stage, str(folder)], capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr[-3000:]
  return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """What transformers wrote, converted."""
  pytest.importorskip("torch")
  pytest.importorskip("transformers")
  folder = tmp_path_factory.mktemp("full_size")
  _run("make", folder)
  for name in ("mt5", "vit"):
    command = [sys.executable, "-m", "xmcap.cli", "convert", f"--input={folder}/{name}"]
    subprocess.run([*command, f"--out={folder}/xmcap-{name}"], check=True, capture_output=True)
  return folder


def test_mt5_base_and_vit_b16_compute_as_transformers_does(folder):
  found = _run("compute", folder)
  assert found["spread"] > 2
  assert found["logits"] < 1e-4 and found["features"] < 1e-4


def test_a_training_step_of_bb_at_batch_8_takes_less_than_20_gb(folder):
  found = _run("train", folder)
  assert found["lines"][0].startswith(
    "668,"
  )  # BB's less the attention pooling, which ViT-B/16 has no weights for
  assert "randomly initialized: projection" in found["lines"][0]
  assert np.isfinite(found["loss"]) and found["skipped"] == 0
  assert found["gigabytes"] < 20


if __name__ == "__main__":
  main(*sys.argv[1:])
