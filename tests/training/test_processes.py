"""Several processes of one run on this machine, started by `xmcap launch local`: the same numbers as one process, and
what becomes of the run when one of them is killed. Their devices alternate on the mesh, as on a TPU slice.

By default they train the toy on the captioner's batches, as each process compiles for itself.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.make import models, small_corpus
from tests.make.command import xmcap, xmcap_forked
from tests.training.hosts.test_join import free_port
from xmcap.training.checkpoints.read import best_step, load_params, steps_in

ROOT = Path(__file__).parents[2]
STEPS = 12
FLAGS = (
  "--gin_file=models/tiny.gin", "--gin_file=runs/train_coco35l.gin", "--gin.BATCH_SIZE=8", "--gin.TARGET_LENGTH=12",
  *small_corpus.SMALLER, "--gin.EVALUATORS=[]", f"--gin.TOTAL_STEPS={STEPS}", "--gin.hooks.log_every=1",
  "--gin.CheckpointPolicy.every=5", "--gin.HostTimeouts.lost=25", "--gin.Writers.tensorboard=False",
)  # fmt: skip
# `model` joins devices of two processes: those feed the same rows.
MESHES = {1: (8, 1, 1), 2: (2, 2, 2), 4: (4, 2, 1)}
# Meshes and devices of a process for a dual tower, whose captions go round over all devices.
RINGS = {1: ((1, 1, 1), 1), 2: ((4, 2, 1), 4)}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(corpus, tmp_path_factory):
  """Number of processes and objective -> the folder of their undisturbed run.

  8 devices in all; the toy of one process is trained on one, in this process.
  """
  found = {}

  def run(count, objective="toy"):
    one = count, objective
    if one not in found:
      found[one] = tmp_path_factory.mktemp(f"{objective}{count}") / "run"
      if (count, objective) == (1, "toy"):
        trained_here(corpus, found[one], *OBJECTIVES[objective](corpus))
        return found[one]
      mesh, devices = RINGS[count] if objective in DUALS else (MESHES[count], 8 // count)
      flags = (*interleaved(mesh), *OBJECTIVES[objective](corpus))
      finish(launched(corpus, found[one], count, *flags, devices=devices))
    return found[one]

  return run


def interleaved(mesh):
  data, fsdp, model = mesh
  return (
    "--gin_file=tests/training/interleaved.gin", "--allow_import", "--gin.train.partitioning=@Interleaved()",
    f"--gin.Interleaved.data={data}", f"--gin.Interleaved.fsdp={fsdp}", f"--gin.Interleaved.model={model}",
  )  # fmt: skip


TOY = ("--gin_file=tests/training/interleaved.gin", "--allow_import", "--gin.train.objective=@CaptionToy()",
       "--gin.LEARNING_RATE=0.01")  # fmt: skip


def toy(corpus):
  """The toy; the loss of a split, and a metric that is computed while it trains and decides which step is best."""
  return (
    *TOY, "--gin.EVALUATORS=[@LossEvaluator(), @LateNorm()]", "--gin.LossEvaluator.objective=@CaptionToy()",
    "--gin.hooks.eval_every=4", "--gin.CheckpointPolicy.best_metric='cider'",
    "--gin.CheckpointPolicy.keep=1",
  )  # fmt: skip


def captioner(corpus):
  """A captioner; after the last step the loss of a split, and captions of it."""
  return (
    "--gin.EVALUATORS=[@LossEvaluator(), @CaptionEvaluator()]", f"--gin.REFERENCES={corpus / 'captions.jsonl'}",
    "--gin.hooks.eval_every=0", "--gin.CaptionEvaluator.languages=['en','de']", "--gin.Predictor.batch_size=8",
    "--gin.Predictor.max_length=6", "--gin.CaptionEvaluator.metrics=('cider','chrf')",
  )  # fmt: skip


def dual(*flags):
  """A dual tower with two captions a picture, for three steps."""
  more = ("--gin.TOTAL_STEPS=3", "--gin.BATCH_SIZE=16", "--gin.CaptionStream.captions_per_image=2")
  return lambda corpus: ("--gin_file=tests/training/interleaved.gin", "--allow_import", *more, *flags)


DUALS = {
  "sigmoid": dual("--gin.train.objective=@DualToy()", "--gin.DualToy.kind='sigmoid'"),
  "infonce": dual("--gin.train.objective=@DualToy()", "--gin.DualToy.kind='infonce'"),
  "towers": dual("--gin_file=tests/training/dual.gin", "--gin.ViTConfig.pool='map'"),
}
OBJECTIVES = {"toy": toy, "captioner": captioner, **DUALS}


def launched(corpus, folder, count, *flags, restart=0, devices=None):
  """`xmcap launch local`, going; its lines are to be read from its `stdout`."""
  places = (f"--processes={count}", f"--devices={devices or 8 // count}")
  command = [sys.executable, "-m", "xmcap.cli", "launch", "local", *places,
             f"--restart={restart}", "--", "train", *FLAGS, *flags, f"--gin.DATA_DIR={corpus}",
             f"--gin.MODEL_DIR={folder}"]  # fmt: skip
  # The gin files import modules of the tests. Nothing listens at the proxy, which no process is to ask.
  environment = {**os.environ, "PYTHONPATH": str(ROOT), "http_proxy": "http://127.0.0.1:9"}
  if count > 1:
    # Process 0 alone would find what it has compiled, and wait for the others longer than gloo does.
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
  return subprocess.Popen(
    command,
    cwd=ROOT,
    env=environment,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    errors="replace",
  )


def trained_here(corpus, folder, *flags):
  return xmcap("train", *FLAGS, *flags, f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={folder}").succeeded()


def finish(launcher, code=0, seconds=400):
  said, _ = launcher.communicate(timeout=seconds)
  assert launcher.returncode == code, (launcher.returncode, said[-5000:])
  return said


def lines_until(launcher, wanted):
  """The lines of the processes up to the first that holds `wanted`."""
  found = []
  for line in launcher.stdout:
    found.append(line)
    if wanted in line:
      return "".join(found)
  raise AssertionError("".join(found)[-5000:])


def process(launcher, index):
  """The process id of process `index` of the run that the launcher goes on with now."""
  for child in map(int, Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()):
    if f"--process_id={index}" in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
      return child
  raise AssertionError(f"process {index} does not run")


def measured(folder, start):
  """Name -> values, in order, of what a run measured."""
  found = {}
  for line in (folder / "metrics.jsonl").read_text().splitlines():
    for name, value in json.loads(line).items():
      if name.startswith(start):
        found.setdefault(name, []).append(value)
  return found


CASES = [
  (2, "toy"),
  *(pytest.param(count, "captioner", marks=pytest.mark.full) for count in (2, 4)),
]


@pytest.mark.parametrize("count, objective", CASES)
def test_loss_of_several_processes_equals_one(runs, count, objective):
  (found,), (one,) = (measured(runs(number, objective), "train/loss").values() for number in (count, 1))
  assert len(found) == STEPS and found[0] != found[-1]
  np.testing.assert_allclose(found, one, rtol=0, atol=1e-5)


@pytest.mark.parametrize("count, objective", CASES)
def test_evaluation_of_several_processes_equals_one(runs, count, objective):
  found, one = (measured(runs(number, objective), "eval/") for number in (count, 1))
  captions = {"eval/cider", *({"eval/chrf/de"} if objective == "captioner" else ())}
  assert {"eval/validation/loss", *captions} <= set(one)
  assert set(found) == set(one)
  for name, values in one.items():
    np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)


def test_the_best_checkpoint_of_several_processes_is_that_of_one(runs):
  several, one = runs(2, "toy"), runs(1, "toy")
  assert len(measured(one, "eval/cider")["eval/cider"]) == 3
  assert best_step(several) == best_step(one) != STEPS
  assert steps_in(several / "checkpoints") == steps_in(one / "checkpoints") == [best_step(one), STEPS]


@pytest.mark.full  # on the devices of one process: test_contrastive.py
@pytest.mark.parametrize("kind", ["sigmoid", "infonce", "towers"])
def test_contrastive_loss_of_two_processes_equals_one(runs, kind):
  found, one = (measured(runs(count, kind), "train/") for count in (2, 1))
  assert len(one["train/loss"]) == 3
  for name in ("loss", "similarity", "scale", "bias"):
    np.testing.assert_allclose(
      found[f"train/{name}"], one[f"train/{name}"], rtol=1e-5, atol=1e-5, err_msg=name
    )
  jax.tree.map(
    lambda two, one: np.testing.assert_allclose(two, one, atol=1e-4),
    load_params(runs(2, kind)),
    load_params(runs(1, kind)),
  )


@pytest.mark.full  # in a bucket: test_bucket_runs.py
def test_killed_and_stopped_processes_resume_bit_for_bit(corpus, runs, tmp_path):
  # Without the evaluation after the last step, which changes no bit.
  # A step takes less time than the writing of a checkpoint, so the run waits for that of step 5.
  at_once = "--gin.CheckpointPolicy.asynchronous=False"
  launcher = launched(corpus, tmp_path / "run", 2, *interleaved(MESHES[2]), *TOY, at_once, restart=2)
  said = lines_until(launcher, "step 7/")
  os.kill(process(launcher, 1), signal.SIGKILL)
  said += lines_until(launcher, "resuming from step")
  # Whatever the other ended with, both were started again, from the newest checkpoint.
  assert "process 1 ended with SIGKILL (exit code 137): restarting (1 of 2)" in said
  assert re.search(r"resuming from step (5|10)\b", said)

  lines_until(launcher, f"/{STEPS}  loss")
  os.kill(process(launcher, 1), signal.SIGTERM)
  said = finish(launcher)
  assert re.search(r"\[1\] .*stopped by SIGTERM", said)
  assert "ended with exit code 75: restarting (2 of 2)" in said
  assert "[0]" in said and f"finished at step {STEPS}" in said
  jax.tree.map(np.testing.assert_array_equal, load_params(tmp_path / "run"), load_params(runs(2)))


def test_another_number_of_hosts_mesh_and_captions_per_image(corpus, runs, tmp_path):
  # Two hosts with 4 devices each wrote it; here is one device.
  more = (f"--gin.TOTAL_STEPS={STEPS + 2}", "--gin.CaptionStream.captions_per_image=2", "--gin.BATCH_SIZE=16", *TOY,
          f"--gin.train.initial_checkpoint='{runs(2)}'")  # fmt: skip
  said = trained_here(corpus, tmp_path / "run", *more)
  said.succeeded(
    f"continuing from {runs(2)}/checkpoints/{STEPS} (step {STEPS})", f"finished at step {STEPS + 2}"
  )


@pytest.mark.full
def test_hosts_share_an_evaluation(corpus, tmp_path):
  models.captioner(tmp_path / "model")
  flags = (
    f"--model_dir={tmp_path / 'model'}", "--gin_file=runs/train_coco35l.gin", "--gin_file=runs/eval.gin",
    f"--gin.DATA_DIR={corpus}", "--gin.BATCH_SIZE=8", "--gin.TARGET_LENGTH=12",
    f"--gin.REFERENCES={corpus / 'captions.jsonl'}",
    "--gin.evaluate.evaluators=[@LossEvaluator(), @CaptionEvaluator()]", "--gin.CaptionEvaluator.languages=['en','de']",
    "--gin.Predictor.max_length=6", "--gin.Predictor.batch_size=4",
  )  # fmt: skip
  alone, together = tmp_path / "alone", tmp_path / "together"
  said = xmcap("eval", *flags, f"--gin.EVAL_DIR={alone}").succeeded().out
  command = [sys.executable, "-m", "xmcap.cli", "launch", "local", "--processes=2", "--devices=2", "--", "eval",
             *flags, f"--gin.EVAL_DIR={together}"]  # fmt: skip
  ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
  assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-5000:]
  losses = [[float(number) for number in re.findall(r"\bloss  (\S+)", text)] for text in (said, ended.stdout)]
  predictions = [(out / "predictions.jsonl").read_bytes() for out in (alone, together)]
  # Each process reads a half of each batch, and decodes a half of the pictures on both of its devices.
  assert len(losses[0]) == 1 and losses[1] == pytest.approx(losses[0], abs=2e-4)  # as printed
  assert predictions[0] == predictions[1] and predictions[0].count(b"\n") == 12


def test_missing_host_is_named(corpus, tmp_path):
  place = (f"--coordinator_address=localhost:{free_port()}", "--num_processes=3", "--process_id=0")
  options = ("--gin.HostTimeouts.start=1", f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={tmp_path}")
  ended = xmcap_forked("train", *place, *FLAGS, *options, folder=ROOT)
  assert ended.code == 75 and "process 1, 2 of 3 was missing" in ended.err
