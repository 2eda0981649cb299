"""t5x's own scripts with the gin files of `gin/t5x`, and its trainer against xmcap's loop, on 8 simulated devices."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("t5x", reason="t5x is not installed: docs/t5x.md says how")

from tests.make import small_corpus
from tests.t5x.corpus import LANGUAGES
from xmcap import gin_files
from xmcap.launch import local
from xmcap.training.checkpoints import weights

ROOT = pathlib.Path(__file__).parents[2]


def _python(*arguments):
  environment = local.environment(8, {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"})
  command = [sys.executable, *map(str, arguments)]
  done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr[-3000:]
  return done.stdout


def _t5x(script, corpus_dir, **macros):
  values = {"NUM_PARTITIONS": 2, "BATCH_SIZE": 8, **macros}
  return _python(
    "-m", f"t5x.{script}", f"--gin_search_paths={gin_files.gin_folder()}", "--gin_file=models/tiny.gin",
    f"--gin_file={corpus_dir / 'three.gin'}", f"--gin_file=t5x/{script}.gin", *small_corpus.SMALLER,
    *(f"--gin.{name}={value!r}" for name, value in values.items()),
  )  # fmt: skip


@pytest.mark.slow
def test_twenty_steps_reach_the_loss_of_xmcap_train(corpus_dir, tmp_path):
  losses = json.loads(_python("-m", "tests.t5x.compare", corpus_dir, tmp_path).splitlines()[-1])
  assert len(losses["xmcap"]) == len(losses["t5x"]) == 20
  assert losses["xmcap"][-1] < losses["xmcap"][0] / 4
  np.testing.assert_allclose(losses["t5x"], losses["xmcap"], rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def trained(corpus_dir, tmp_path_factory):
  """A model folder of t5x.train: 4 steps, with evaluation and decoding."""
  folder = tmp_path_factory.mktemp("t5x_train")
  _t5x(
    "train",
    corpus_dir,
    MODEL_DIR=str(folder),
    TOTAL_STEPS=4,
    EVAL_PERIOD=4,
    CHECKPOINT_PERIOD=4,
    EVAL_STEPS=1,
  )
  return folder


@pytest.mark.slow
def test_train_writes_checkpoints_and_scores(trained):
  assert {path.name for path in trained.glob("checkpoint_*")} == {"checkpoint_0", "checkpoint_4"}
  scored = {path.name for path in (trained / "inference_eval").iterdir()}
  assert scored == {f"three_evaluation_{language}" for language in LANGUAGES}


@pytest.mark.slow
def test_infer_writes_what_xmcap_score_reads(trained, corpus_dir, tmp_path):
  _t5x("infer", corpus_dir, CHECKPOINT_PATH=str(trained / "checkpoint_4"), INFER_OUTPUT_DIR=str(tmp_path))
  parts = sorted(tmp_path.glob("*.jsonl-00000-of-00001"))
  assert len(parts) == len(LANGUAGES)
  predictions = tmp_path / "predictions.jsonl"
  predictions.write_text("".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
  _python(
    "-m", "xmcap.cli", "score", f"--references={corpus_dir / 'captions.jsonl'}", f"--predictions={predictions}",
    f"--out={tmp_path / 'scores'}",
  )  # fmt: skip


@pytest.mark.slow
def test_eval_scores_each_language(trained, corpus_dir, tmp_path):
  _t5x("eval", corpus_dir, CHECKPOINT_PATH=str(trained / "checkpoint_4"), EVAL_OUTPUT_DIR=str(tmp_path))
  for language in LANGUAGES:
    line = (tmp_path / "inference_eval" / f"three_evaluation_{language}-metrics.jsonl").read_text()
    assert set(json.loads(line)) == {"step", "cider", "cider_d"}


@pytest.mark.slow
def test_t5x_train_continues_from_xmcap_weights(corpus_dir, tmp_path):
  files = ("models/tiny.gin", corpus_dir / "three.gin", "runs/train.gin")
  values = {"MODEL_DIR": tmp_path / "run", "TOTAL_STEPS": 1, "BATCH_SIZE": 16, "EVALUATORS": "[]"}
  _python(
    "-m", "xmcap.cli", "train", "--allow_import", *(f"--gin_file={file}" for file in files), *small_corpus.SMALLER,
    *(f"--gin.{name}={value}" for name, value in values.items()),
  )  # fmt: skip
  _python("-m", "xmcap.t5x.checkpoints", "to_t5x", f"--input={tmp_path / 'run'}", f"--out={tmp_path / 't5x'}")
  _t5x(
    "train", corpus_dir, MODEL_DIR=str(tmp_path / "on"), TOTAL_STEPS=1, EVAL_PERIOD=1, CHECKPOINT_PERIOD=1,
    EVAL_STEPS=1, INFER_EVAL=None, LEARNING_RATE=0.0,
    INITIAL_CHECKPOINT_PATH=str(tmp_path / "t5x" / "checkpoint_0"),
  )  # fmt: skip
  _python(
    "-m", "xmcap.t5x.checkpoints", "from_t5x", f"--input={tmp_path / 'on'}", f"--out={tmp_path / 'back'}"
  )
  wanted, given = (weights.open_weights(tmp_path / name).tensors for name in ("run", "back"))
  assert set(given) == set(wanted)
  for name, tensor in wanted.items():
    np.testing.assert_array_equal(given[name].read(), tensor.read())
