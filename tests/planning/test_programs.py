"""Programs that `xmcap plan` keeps for a run.

Simulated CPU devices stand for a slice: one process compiles for them, in place of libtpu, and another one trains.
"""

from unittest import mock

import jax
import pytest

from tests.make.command import forked, xmcap_forked
from xmcap import cli
from xmcap.planning import host, report, step, topologies

RUN = (
  "--gin_file=models/tiny.gin", "--gin_file=runs/train_coco35l.gin", "--gin_file=tests/training/interleaved.gin",
  "--allow_import", "--gin.train.objective=@CaptionToy()", "--gin.BATCH_SIZE=8", "--gin.TARGET_LENGTH=12",
  "--gin.Partitioning.data=2", "--gin.Partitioning.fsdp=2", "--gin.TOTAL_STEPS=1",
)  # fmt: skip


def plan(arguments):
  """`xmcap plan` whose topology is attached, without what only libtpu reports."""

  def compiled(run, topology):
    step.lower(run, jax.devices())[1].compile()
    return {}

  with (
    mock.patch.object(step, "plan_step", compiled),
    mock.patch.object(topologies.Topology, "devices", lambda self: jax.devices()),
    mock.patch.object(report, "text", lambda *_: ""),
    mock.patch.object(host, "check"),
  ):
    return cli.main(["plan", *arguments])


@pytest.fixture(scope="module")
def programs(corpus, tmp_path_factory):
  folder = tmp_path_factory.mktemp("programs") / "cache"
  arguments = [*RUN, f"--gin.DATA_DIR={corpus}", "--topology=v5e-4", f"--programs={folder}"]
  forked(plan, arguments, devices=4).succeeded(f"MB: {folder}/jit_train_step-")
  assert len(list(folder.iterdir())) == 1
  return folder


@pytest.mark.parametrize(
  "change, wanted",
  [((), "read from the compilation cache in"), (("--gin.LEARNING_RATE=0.5",), "compiled in")],
)
def test_train_reads_the_planned_program_of_its_own_step_only(programs, corpus, tmp_path, change, wanted):
  mine = [f"--gin.DATA_DIR={corpus}", f"--gin.MODEL_DIR={tmp_path / 'run'}", "--gin.EVALUATORS=[]"]
  cache = f"--gin.CompilationCache.folder='{programs}'"
  xmcap_forked("train", *RUN, *mine, cache, *change, devices=4).succeeded(wanted)
