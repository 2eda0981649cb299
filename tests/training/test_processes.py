"""Several processes of one run on this machine, through the command: the same numbers as one process, and what is said
when one of them is gone. `xmcap launch local` is tested in tests/launch/."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from tests import small_corpus
from xmcap.training.checkpoints import load_params

ROOT = Path(__file__).parents[2]
STEPS = 20
FLAGS = (
  "--gin_file=models/tiny.gin", "--gin_file=runs/train_coco35l.gin", "--gin.BATCH_SIZE=8", "--gin.TARGET_LENGTH=12",
  *small_corpus.SMALLER, "--gin.EVALUATORS=[]", f"--gin.TOTAL_STEPS={STEPS}", "--gin.train.log_every=1",
  "--gin.CheckpointPolicy.every=5", "--gin.HostTimeouts.lost=25",
)  # fmt: skip
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  return small_corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def one(corpus, tmp_path_factory):
  """A run of one process with 8 devices."""
  folder = tmp_path_factory.mktemp("one") / "run"
  finish(start(corpus, folder, 1))
  return folder


def start(corpus, folder, count, *flags, only=None):
  with socket.socket() as probe:
    probe.bind(("", 0))
    port = probe.getsockname()[1]
  processes = []
  environment = {
    **os.environ,
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": f"--xla_force_host_platform_device_count={8 // count}",
  }
  folder.mkdir(exist_ok=True)
  for index in range(count) if only is None else only:
    place = (f"--coordinator_address=localhost:{port}", f"--num_processes={count}", f"--process_id={index}")
    command = [sys.executable, "-m", "xmcap.cli", "train", *(place if count > 1 else ()), *FLAGS, *flags,
               f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={folder}"]  # fmt: skip
    with open(folder / f"log.{index}", "w") as log:
      processes.append(
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
      )
  return folder, processes


def finish(started, code=0, seconds=400):
  folder, processes = started
  for process in processes:
    process.wait(seconds)
  codes = [process.returncode for process in processes]
  assert all(found == code for found in codes), (codes, said(folder, 0)[-3000:])


def said(folder, index):
  return (folder / f"log.{index}").read_text(errors="replace")


def at_step(started, step):
  folder, processes = started
  while f"step {step}/" not in said(folder, 0):
    assert all(process.poll() is None for process in processes), said(folder, 0)[-3000:]
    time.sleep(0.05)


def losses(folder):
  from tensorflow import make_ndarray
  from tensorflow.python.summary.summary_iterator import summary_iterator

  (file,) = (folder / "tensorboard").iterdir()  # one process writes
  values = [value for event in summary_iterator(str(file)) for value in event.summary.value]
  return [float(make_ndarray(value.tensor)) for value in values if value.tag == "train/loss"]


@pytest.mark.parametrize("count", [2, 4])
def test_the_loss_of_one_process(corpus, one, tmp_path, count):
  started = start(corpus, tmp_path / "run", count)
  finish(started)
  found = losses(tmp_path / "run")
  assert len(found) == STEPS
  np.testing.assert_allclose(found, losses(one), rtol=0, atol=1e-5)
  assert "step 20/20" in said(tmp_path / "run", 0) and "step 20/20" not in said(tmp_path / "run", 1)


def test_killed_terminated_and_ended_with_the_same_bits(corpus, tmp_path):
  finish(start(corpus, tmp_path / "undisturbed", 2, "--gin.train.tensorboard=False"))
  started = start(corpus, tmp_path / "run", 2, "--gin.train.tensorboard=False")
  at_step(started, 7)
  began = time.monotonic()
  started[1][1].send_signal(signal.SIGKILL)
  started[1][0].wait(60)
  assert time.monotonic() - began < 60
  # Its message, or jax's own end of the process, which names nobody.
  assert started[1][0].returncode in (75, -signal.SIGABRT)
  if started[1][0].returncode == 75:
    assert "process 1" in said(tmp_path / "run", 0) or "another process" in said(tmp_path / "run", 0)

  started = start(corpus, tmp_path / "run", 2, "--gin.train.tensorboard=False")
  at_step(started, 8)
  started[1][1].send_signal(signal.SIGTERM)
  finish(started, code=75)
  assert "resuming from step 5" in said(tmp_path / "run", 0) and "stopped by SIGTERM" in said(
    tmp_path / "run", 1
  )

  finish(start(corpus, tmp_path / "run", 2, "--gin.train.tensorboard=False"))
  jax.tree.map(
    np.testing.assert_array_equal, load_params(tmp_path / "run"), load_params(tmp_path / "undisturbed")
  )


def test_another_number_of_hosts_mesh_and_captions_per_image(corpus, one, tmp_path):
  more = ("--gin.TOTAL_STEPS=22", "--gin.Partitioning.fsdp=2", "--gin.CaptionStream.captions_per_image=2",
          "--gin.BATCH_SIZE=16", f"--gin.train.initial_checkpoint='{one}'")  # fmt: skip
  finish(start(corpus, tmp_path / "run", 2, *more))
  assert f"going on from {one}/checkpoints/20 (step 20)" in said(tmp_path / "run", 0)
  assert "finished at step 22" in said(tmp_path / "run", 0)


def test_a_host_that_does_not_come_is_named(corpus, tmp_path):
  started = start(corpus, tmp_path / "run", 3, "--gin.HostTimeouts.start=5", only=[0, 1])
  finish(started, code=75, seconds=120)
  assert "process 2 of 3 had not come" in said(tmp_path / "run", 0)
