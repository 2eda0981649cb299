"""What `[train]` installs is enough: no command but those for seqio's tasks imports TensorFlow, TFDS, seqio or clu.

Two processes that can import none of these, nor find that it is installed, call the commands one after the other.
"""

import json

import numpy as np
import pytest
from PIL import Image

from tests.make import models, small_corpus
from tests.make.command import xmcap_without

pytestmark = pytest.mark.slow

_HEAVY = ("tensorflow", "tensorflow_datasets", "tensorflow_text", "seqio", "clu")
_SERVE_NOTHING = """
import asyncio
from xmcap.serving import server

async def start(service, load):
  await service.start.load(load)
  await service.start.compile()

def serve_nothing(app, service, bound, load, opened, ready):
  opened()
  asyncio.run(start(service, load))
  ready()

server.run = serve_nothing
"""
_SMALL = [
  *small_corpus.SMALLER,
  "--gin.ViTConfig.num_heads=2",
  "--gin.BATCH_SIZE=8",
  "--gin.CaptionStream.target_lengths=(16,)",
  "--gin.CaptionStream.bucket_window=1",
  "--gin.TARGET_LENGTH=16",
]


def called(*commands, prelude=""):
  """Calls commands in a process without TensorFlow."""
  for result in xmcap_without(_HEAVY, *commands, prelude=prelude):
    result.succeeded()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
  """Pictures and their captions in two languages."""
  folder = tmp_path_factory.mktemp("photos")
  (folder / "images").mkdir()
  lines = ["file,en,th"]
  for number in range(40):
    pixels = np.full((24, 24, 3), (6 * number, 255 - 6 * number, 99), np.uint8)
    Image.fromarray(pixels).save(folder / "images" / f"{number:02d}.png")
    lines.append(f"{number:02d}.png,a picture of the colour {number},ภาพสีที่ {number}")
  (folder / "captions.csv").write_text("\n".join(lines), encoding="utf-8")
  return folder


def _built(photos, out):
  return [
    "data", "build", "folder", f"--captions={photos / 'captions.csv'}", f"--images={photos / 'images'}",
    f"--out={out}", "--vocabulary=train:400", "--splits=train:0.6,validation:0.2,test:0.2",
  ]  # fmt: skip


def _train(corpus, model, *more):
  return [
    "train", "--gin_file=models/tiny.gin", "--gin_file=data/folder.gin", "--gin_file=runs/folder.gin",
    f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={model}", "--gin.TOTAL_STEPS=2", "--gin.hooks.log_every=1",
    "--gin.hooks.evaluators=[@LossEvaluator()]", *_SMALL, *more,
  ]  # fmt: skip


def test_build_and_train_without_tensorflow(photos, tmp_path):
  """The objective is a toy, which compiles at once."""
  corpus, model = tmp_path / "corpus", tmp_path / "model"
  toy = [f"--gin.{name}.objective=@CaptionToy()" for name in ("train", "LossEvaluator")]
  train = _train(corpus, model, "--gin_file=tests/training/interleaved.gin", "--allow_import", *toy)
  called(_built(photos, corpus), ["data", "stats", corpus], ["data", "check", corpus], train)
  (events,) = (model / "tensorboard").iterdir()
  assert b"train/loss" in events.read_bytes()


@pytest.mark.full  # above, training; test_startup.py captions
def test_commands_of_a_model_without_tensorflow(photos, tmp_path):
  corpus, model, picture = tmp_path / "corpus", tmp_path / "model", photos / "images/00.png"
  called(
    _built(photos, corpus),
    _train(corpus, model),
    ["eval", f"--model_dir={model}", "--gin_file=runs/eval_folder.gin", f"--gin.DATA_DIR={corpus}",
     f"--gin.EVAL_DIR={tmp_path / 'eval'}", "--gin.Predictor.max_length=3"],
    ["caption", f"--model_dir={model}", "--languages=en,th", picture],
    ["features", f"--model_dir={model}", f"--corpus={corpus}", "--split=test", f"--out={tmp_path / 'f.safetensors'}"],
    ["convert", "--to=hf", f"--input={model}", f"--out={tmp_path / 'hf'}"],
    ["convert", f"--input={tmp_path / 'hf/t5'}", f"--out={tmp_path / 't5'}"],
    ["runs", model],
    ["serve", f"--model_dir={model}", "--port=0", "--searches=greedy", "--batch_size=1", "--batch_languages=1"],
    prelude=_SERVE_NOTHING,
  )  # fmt: skip


@pytest.mark.full  # above, the same commands on a disk; in a bucket, with TensorFlow installed: test_bucket_runs.py
def test_train_in_a_bucket_without_tensorflow(photos, tmp_path, store):
  """The records, the checkpoints, the metrics and TensorBoard's files."""
  corpus, model = tmp_path / "corpus", "gs://bucket/run"
  called(_built(photos, corpus), _train(corpus, model), _train(corpus, model, "--gin.TOTAL_STEPS=4"))
  names = store.names("run/")
  assert {"run/metrics.jsonl", "run/model.json"} < set(names)
  assert sum("tfevents" in name for name in names) == 2
  steps = [json.loads(line).get("step") for line in (store.folder / "run/metrics.jsonl").open()]
  assert steps[-1] == 4


def test_embed_of_a_dual_tower_without_tensorflow(photos, tmp_path, tiny_dir):
  run = models.dual_tower(tmp_path / "dual", f"{tiny_dir}/vocabulary.model")
  called(["embed", f"--model_dir={run}", f"--out={tmp_path / 'out'}", f"--images={photos / 'images'}"])
  assert np.load(tmp_path / "out/pictures.npy").shape[0] == 40


@pytest.mark.full  # tests/planning has plans with TensorFlow installed
def test_plan_without_tensorflow(tmp_path):
  pytest.importorskip("libtpu")
  called(
    ["plan", "--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/train.gin",
     "--gin.T5Config.vocab_size=1024", *small_corpus.SMALLER, "--gin.BATCH_SIZE=64", "--gin.TARGET_LENGTH=8",
     "--topology=v4-8", f"--json={tmp_path / 'plan.json'}"],
  )  # fmt: skip
  assert json.loads((tmp_path / "plan.json").read_text())["parameters"]
