"""Two processes of a run in a bucket, started by `xmcap launch local`, and commands that read from it."""

import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from tests.make import models, small_corpus
from tests.make.command import xmcap
from tests.training import test_processes
from xmcap.training.checkpoints.read import load_params, steps_in

FLAGS = (*test_processes.TOY, "--gin.EVALUATORS=[@LossEvaluator()]", "--gin.LossEvaluator.objective=@CaptionToy()",
         "--gin.hooks.eval_every=4", "--gin.CheckpointPolicy.every=2", "--gin.CheckpointPolicy.keep=1",
         "--gin.CheckpointPolicy.best_metric='validation/loss'", "--gin.CheckpointPolicy.best_mode='min'",
         "--gin.TOTAL_STEPS=8", "--gin.Writers.tensorboard=True")  # fmt: skip


def launched(corpus, folder, restart=0):
  command = [sys.executable, "-m", "xmcap.cli", "launch", "local", "--processes=2", "--devices=1",
             f"--restart={restart}", "--", "train", *test_processes.FLAGS, *FLAGS, f"--gin.DATA_DIR={corpus}",
             f"--gin.MODEL_DIR={folder}"]  # fmt: skip
  environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
  environment["PYTHONPATH"] = str(test_processes.ROOT)
  return subprocess.Popen(
    command, cwd=test_processes.ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    text=True, errors="replace",
  )  # fmt: skip


@pytest.mark.slow
@pytest.mark.full  # killed on a disk: test_faults.py; one process in a bucket: checkpoints/test_bucket.py
def test_two_processes_killed_during_a_save_resume_bit_for_bit(store, tmp_path):
  corpus = small_corpus.write(tmp_path / "corpus")
  place = store.folder / "runs/toy"
  launcher = launched(corpus, "gs://bucket/runs/toy", restart=1)
  try:
    until = time.monotonic() + 300
    while not (place / "checkpoints/6/params/_METADATA").exists():
      assert launcher.poll() is None and time.monotonic() < until, launcher.stdout.read()[-5000:]
      time.sleep(0.005)
    os.kill(test_processes.process(launcher, 1), signal.SIGKILL)
    said = test_processes.finish(launcher)
  finally:
    launcher.kill()
  assert "process 1 ended with SIGKILL (exit code 137): restarting (1 of 1)" in said
  assert "resuming from step" in said and "finished at step 8" in said
  test_processes.finish(launched(corpus, tmp_path / "disk"))
  jax.tree.map(
    np.testing.assert_array_equal,
    load_params(tmp_path / "disk", 8),
    load_params(place, 8),  # the files of the bucket
  )
  # The newest and the best, as on the disk.
  assert steps_in(place / "checkpoints") == steps_in(tmp_path / "disk/checkpoints")
  for name in ("model.json", "config.gin", "metrics.jsonl", "vocabulary.model"):
    assert (place / name).exists(), name
  assert list((place / "tensorboard").glob("*tfevents*"))


@pytest.mark.slow
def test_commands_read_a_model_and_write_tables_in_a_bucket(store, tmp_path):
  models.captioner(store.folder / "model")
  picture = models.image(tmp_path)
  folder = "--model_dir=gs://bucket/model"

  here = f"--model_dir={store.folder / 'model'}"
  caption = ("--languages=en,th", "--json", str(picture))
  there, own = (xmcap("caption", model, *caption).succeeded() for model in (folder, here))
  assert there.out == own.out
  for name, source in (("there", "gs://bucket/model"), ("here", store.folder / "model")):
    xmcap("convert", "--to=hf", "--part=t5", f"--input={source}", f"--out={tmp_path / name}").succeeded()
  files = {file.name: file.read_bytes() for file in (tmp_path / "here").glob("*.safetensors")}
  assert files and files == {name: (tmp_path / "there" / name).read_bytes() for name in files}
  corpus = small_corpus.write(tmp_path / "corpus")
  flags = ("--gin_file=runs/train_coco35l.gin", "--gin_file=runs/eval.gin", f"--gin.DATA_DIR={corpus}",
           f"--gin.REFERENCES={corpus / 'captions.jsonl'}", "--gin.CaptionEvaluator.languages=['en']",
           "--gin.Predictor.max_length=4", "--gin.EVAL_DIR=gs://bucket/tables")  # fmt: skip
  xmcap("eval", folder, *flags).succeeded()
  names = set(store.names("tables/"))
  assert {"tables/predictions.jsonl", "tables/report.html"} <= names and not (tmp_path / "gs:").exists()
