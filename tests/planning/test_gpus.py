"""GPUs by their names, and the memory of a step on one of them: counted, and compiled where XLA for CUDA is there."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import gin
import pytest

from xmcap import cli, configuration, platforms
from xmcap.errors import UsageError
from xmcap.planning import gpu_memory, gpus, topologies
from xmcap.planning import run as run_lib

ROOT = Path(__file__).parents[2]
FILES = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]
SMALL = [
  "T5Config.vocab_size=1024", "ViTConfig.depth=1", "T5Config.num_decoder_layers=1", "BATCH_SIZE=64", "TARGET_LENGTH=8",
]  # fmt: skip


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def plan(*options):
  return cli.main([
    "plan", *(f"--gin_file={file}" for file in FILES), *(f"--gin.{binding}" for binding in SMALL), *options,
  ])  # fmt: skip


@pytest.mark.parametrize(
  "name, kind, chips",
  [("h100", "h100", 1), ("h100-8", "h100", 8), ("h200-2", "h200", 2), ("a100-80gb", "a100-80gb", 1),
   ("a100-40gb-4", "a100-40gb", 4)],
)  # fmt: skip
def test_names(name, kind, chips):
  node = gpus.parse(name)
  assert (node.kind, node.chips, node.name) == (gpus.KINDS[kind], chips, f"{kind}-{chips}")


@pytest.mark.parametrize("name", ["v4-128", "v5litepod-16", "2*v4-128", "v6e-8", "rtx-8", ""])
def test_other_names_are_of_no_gpu(name):
  assert gpus.parse(name) is None


@pytest.mark.parametrize(
  "name, said",
  [
    ("h100-0", "1 to 8 GPUs"),
    ("h100-16", "with its share of BATCH_SIZE"),
    ("a100-8", "a100-40gb or a100-80gb"),
  ],
)
def test_no_node_has_so_many(name, said):
  with pytest.raises(UsageError, match=said):
    gpus.parse(name)


def test_an_unknown_name_is_told_what_there_is(capsys):
  assert plan("--topology=b9000-8") == 2
  error = capsys.readouterr().err
  assert "v4, v5e, v5p, v6e" in error and "GPUs of one node (a100-40gb, a100-80gb, h100, h200)" in error


# NVIDIA's data sheets print 40, 80, 80 and 141 GB.
@pytest.mark.parametrize("name, low, high", [("a100-40gb", 39, 40), ("h100", 79, 80), ("h200", 139, 141)])
def test_memory_is_somewhat_less_than_printed(name, low, high):
  assert low < gpus.KINDS[name].memory / 2**30 < high


def test_what_jax_takes_of_it(monkeypatch):
  for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
    monkeypatch.delenv(name, raising=False)
  node = gpus.parse("h100-8")
  assert node.allowed == 0.75 * node.kind.memory
  monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.9")
  assert node.allowed == 0.9 * node.kind.memory
  monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "most")
  with pytest.raises(UsageError, match="XLA_CLIENT_MEM_FRACTION=most: give a number"):
    _ = node.allowed


@functools.cache
def counted(*overrides, node="h100"):
  configuration.parse(FILES, [*SMALL, *overrides])
  return gpu_memory.counted(run_lib.of_gin(gpus.parse(node)))


def test_the_count_of_a_step():
  parameters, memory = counted()
  # Float32 parameters and gradients; Adafactor's factored moments are small; 64 pictures of uint8 and their tokens.
  assert memory.parameters == memory.gradients == 4 * parameters
  assert 0 < memory.optimizer < 0.2 * memory.parameters
  side = gin.query_parameter("%IMAGE_SIZE")
  assert 64 * side * side * 3 < memory.batch < 1.1 * 64 * side * side * 3
  assert memory.activations > 64 * 1024 * 8 * 2  # logits alone, in bfloat16
  assert memory.scratch == 0


def test_the_count_is_of_one_gpu():
  _, one = counted()
  _, eight = counted("Partitioning.fsdp=8", node="h100-8")
  # Parameters in bfloat16 are kept whole.
  assert 5 < one.activations / eight.activations < 8 and one.batch == 8 * eight.batch
  assert one.parameters / 8 <= eight.parameters < one.parameters / 4


def test_microbatches_divide_activations():
  _, whole = counted()
  _, parts = counted("train.microbatches=4")
  assert 3 < whole.activations / parts.activations < 4.5
  assert (parts.parameters, parts.optimizer, parts.batch) == (whole.parameters, whole.optimizer, whole.batch)


def test_frozen_parameters_have_no_gradients():
  _, all_of_it = counted()
  _, part = counted("Optimizer.frozen=['^vit/']")
  assert part.parameters == all_of_it.parameters and part.gradients < all_of_it.gradients


def test_a_count_says_that_it_is_one(monkeypatch, capsys, tmp_path):
  monkeypatch.setattr(platforms, "cuda_installed", lambda: False)
  monkeypatch.delenv("XLA_CLIENT_MEM_FRACTION", raising=False)
  file = tmp_path / "plan.json"
  assert plan("--topology=h200", f"--json={file}") == 0
  (line,) = [line for line in capsys.readouterr().out.splitlines() if line]
  assert line.startswith("memory on one GPU of h200-1: ") and "counted from the model, not compiled" in line
  assert "fits into the 105.3 GiB that jax takes (75% of 140.4" in line
  document = json.loads(file.read_text())
  assert document["compiled"] is False and document["chips"] == 1
  memory = document["memory"]
  kinds = ("parameters", "optimizer", "batch", "activations", "gradients", "scratch")
  assert memory["total"] == sum(memory[kind] for kind in kinds) < memory["allowed"] < memory["of_gpu"]


def test_what_does_not_fit_is_told_the_microbatches_that_do(monkeypatch, capsys):
  monkeypatch.setattr(platforms, "cuda_installed", lambda: False)
  _, whole = counted()
  # Room for the state and half of the activations.
  room = whole.total - 0.5 * whole.activations
  monkeypatch.setattr(gpus.GpuNode, "allowed", room)
  assert plan("--topology=h100") == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert "do not fit on a h100; it fits" in error and error.endswith("--gin.train.microbatches=4")
  monkeypatch.setattr(gpu_memory, "way_out", lambda plan: None)
  assert plan("--topology=h100") == 2
  assert "nor in 64 microbatches: a smaller batch, more GPUs" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--search", "--decode", "--price=2"])
def test_what_is_planned_for_tpus_alone(option, capsys):
  assert plan("--topology=h100-8", option) == 2
  assert "is for TPUs: of GPUs the memory of a training step is planned alone" in capsys.readouterr().err


@pytest.mark.slow
def test_the_step_compiled_for_gpus_that_are_not_here(tmp_path):
  if not platforms.cuda_installed():
    pytest.skip("xmcap[cuda] is not installed")
  file = tmp_path / "plan.json"
  command = [sys.executable, "-m", "xmcap.cli", "plan", *(f"--gin_file={file}" for file in FILES)]
  command += [*(f"--gin.{binding}" for binding in SMALL), "--gin.Partitioning.fsdp=4", "--topology=h100-4"]
  result = subprocess.run(
    [*command, f"--json={file}"], cwd=ROOT, capture_output=True, text=True, env=os.environ
  )
  assert result.returncode == 0, result.stderr[-3000:]
  assert "the step compiled for this GPU, which need not be here; fits" in result.stdout
  document = json.loads(file.read_text())
  parameters, count = counted("Partitioning.fsdp=4", node="h100-4")
  assert document["compiled"] and document["parameters"] == parameters
  # The state lies as counted; of the rest the count is a rough one, and cuBLAS has 32 MiB to work in.
  memory = document["memory"]
  for kind in ("parameters", "optimizer", "batch"):
    assert memory[kind] == getattr(count, kind)
  assert count.total / 3 < memory["total"] < 3 * count.total + (32 << 20)


def test_the_plan_never_looks_for_a_gpu(monkeypatch):
  monkeypatch.setenv("JAX_PLATFORMS", "cuda")
  topologies.prepare_host()
  assert os.environ["JAX_PLATFORMS"] == "cpu"
