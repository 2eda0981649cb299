"""`xmcap plan` for GPUs: names, memory and what fits."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import jax
import pytest

from tests.make.command import xmcap
from xmcap import platforms
from xmcap.errors import UsageError
from xmcap.models import attention
from xmcap.planning import gpus, step, topologies
from xmcap.training.reporting.chips import PEAK_FLOPS
from xmcap.training.state import plan_state

ROOT = Path(__file__).parents[2]
FILES = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]
SMALL = [
  "T5Config.vocab_size=1024", "ViTConfig.depth=1", "T5Config.num_decoder_layers=1", "BATCH_SIZE=64", "TARGET_LENGTH=8",
]  # fmt: skip


def plan(*options):
  files = (f"--gin_file={file}" for file in FILES)
  return xmcap("plan", *files, *(f"--gin.{binding}" for binding in SMALL), *options)


@pytest.mark.parametrize(
  "name, kind, chips",
  [("h100", "h100", 1), ("h100-8", "h100", 8), ("h200-2", "h200", 2), ("a100-80gb", "a100-80gb", 1),
   ("a100-40gb-4", "a100-40gb", 4), ("b200-8", "b200", 8), ("gb200-72", "gb200", 72), ("gb200-2", "gb200", 2)],
)  # fmt: skip
def test_gpu_names_are_parsed(name, kind, chips):
  node = gpus.parse(name)
  assert (node.kind, node.chips, node.name) == (gpus.KINDS[kind], chips, f"{kind}-{chips}")


@pytest.mark.parametrize("name", ["v4-128", "v5litepod-16", "2*v4-128", "v6e-8", "rtx-8", "a100-8", ""])
def test_gpu_parse_returns_none_for_other_names(name):
  assert gpus.parse(name) is None


@pytest.mark.parametrize(
  "name, said",
  [
    ("h100-0", "1 to 8 GPUs"),
    ("b200-16", "1 to 8 GPUs"),
    ("gb200-76", "1 to 72 GPUs"),
    ("gb200-6", "give a multiple of 4, the GPUs of a host"),
    ("h100-16", "with its share of BATCH_SIZE"),
  ],
)
def test_gpu_parse_refuses_too_many_gpus_per_node(name, said):
  with pytest.raises(UsageError, match=said):
    gpus.parse(name)


def test_plan_unknown_topology_lists_gpu_names():
  gpu_names = "GPUs that NVLink joins (a100-40gb, a100-80gb, h100, h200, b200, gb200)"
  plan("--topology=b9000-8").refused("v4, v5e, v5p, v6e", gpu_names)


# NVIDIA's data sheets print 40, 80, 80, 141, 180 and 186 GB.
@pytest.mark.parametrize(
  "name, low, high",
  [("a100-40gb", 39, 40), ("h100", 79, 80), ("h200", 139, 141), ("b200", 178, 180), ("gb200", 184, 186)],
)
def test_gpu_memory_is_below_the_nominal_size(name, low, high):
  assert low < gpus.KINDS[name].memory / 2**30 < high


def test_gpu_peak_is_known_of_every_kind():
  assert {kind.device_kind for kind in gpus.KINDS.values()} <= PEAK_FLOPS.keys()


def test_gpus_of_a_rack_are_on_hosts_of_four(monkeypatch):
  asked = []
  monkeypatch.setattr(gpus, "absent_devices", lambda *_, **options: asked.append(options["topology"]) or [])
  for name in ("gb200-72", "gb200-2", "b200-8"):
    gpus.parse(name).devices()
  assert asked == ["1x18x4", "1x1x2", "1x1x8"]


def test_gpu_memory_fraction_of_jax(monkeypatch):
  for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
    monkeypatch.delenv(name, raising=False)
  node = gpus.parse("h100-8")
  assert node.allowed == 0.75 * node.kind.memory
  monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.9")
  assert node.allowed == 0.9 * node.kind.memory
  monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "most")
  with pytest.raises(UsageError, match="XLA_CLIENT_MEM_FRACTION=most: give a number"):
    _ = node.allowed


class _Compiled:
  """As much of a compiled step as its memory is read from: all of the batch's pictures take `working` bytes."""

  def __init__(self, working):
    self._working = working

  def memory_analysis(self):
    return types.SimpleNamespace(
      argument_size_in_bytes=0, output_size_in_bytes=0, alias_size_in_bytes=0, generated_code_size_in_bytes=0,
      temp_size_in_bytes=self._working,
    )  # fmt: skip

  def as_text(self):
    return """ENTRY %main (x: bf16[8]) -> bf16[64] {
  %s = (bf16[8]{0}, bf16[64]{0}) all-gather-start(%x), replica_groups=[1,8]<=[8], dimensions={0}
  %d = bf16[64]{0} all-gather-done(%s)
}
"""


@pytest.fixture(scope="module")
def states():
  """The planned state of the run that all tests here plan, once there is one."""
  return []


@pytest.fixture
def compiler(monkeypatch, states):
  """Compiles nothing: a step takes 100 GiB over its microbatches."""

  def lowered(run, devices):
    if not states:
      batch = {name: jax.ShapeDtypeStruct(*of_array) for name, of_array in run.shapes.items()}
      mesh, rules = run.partitioning.mesh(devices), run.partitioning.logical_rules()
      states.append(plan_state(run.objective, run.optimizer, batch, mesh, rules))
    return states[0], types.SimpleNamespace(
      compile=lambda: _Compiled((100 << 30) // run.variant.microbatches)
    )

  monkeypatch.setattr(gpus.GpuNode, "devices", lambda node: jax.devices()[: node.chips])
  monkeypatch.setattr(step, "lower", lowered)
  # What stands for cuDNN's attention is only there with jax's CUDA plugin.
  monkeypatch.setattr(attention, "resolve", lambda implementation: "plain")
  monkeypatch.delenv("XLA_CLIENT_MEM_FRACTION", raising=False)


def test_plan_of_a_step_that_fits_a_gpu(compiler, tmp_path):
  file = tmp_path / "plan.json"
  said = plan("--topology=h200", f"--json={file}").succeeded("Nothing is measured; docs/pods.md says")
  lines = [line.split() for line in said.out.splitlines()]
  assert ["working", "100.000"] in lines
  assert ["available", "to", "jax", "of", "140.4", "(XLA_CLIENT_MEM_FRACTION)", "105.30"] in lines
  document = json.loads(file.read_text())
  memory = document["memory"]
  assert memory["parameters"] == 4 * document["parameters"] and 0 < memory["optimizer"] < memory["parameters"]
  kinds = ("parameters", "optimizer", "batch", "working")
  assert memory["total"] == sum(memory[kind] for kind in kinds) < memory["allowed"]
  assert document["exchanges"]["all-gather bf16"]["bytes"] == 128 and ["total", "1", "0.0", "0.0"] in [
    line[:4] for line in lines
  ]
  assert document["arithmetic_seconds"] == document["model_flops"] / 989.5e12 > 0


def test_gpu_plan_suggests_microbatches_that_fit(compiler, monkeypatch):
  refused = plan("--topology=h100").refused(
    "it needs 100.0 GiB per chip, and a program may use 59.33 GiB; it fits (50.0 GiB) with"
  )
  assert refused.err.endswith("--gin.train.microbatches=2\n")
  monkeypatch.setattr(gpus.GpuNode, "allowed", 2**20)
  plan("--topology=h100").refused("nor in 64 microbatches: reduce the batch, add GPUs")


def test_gpu_plan_without_cuda_names_the_extra():
  if platforms.cuda_installed():
    pytest.skip("xmcap[cuda] is installed")
  plan("--topology=h100").refused("pip install '.[cuda]'")


@pytest.mark.parametrize("option", ["--search", "--decode", "--price=2", "--length_mix=8:1"])
def test_gpu_plan_refuses_tpu_only_options(option):
  plan("--topology=h100-8", option).refused(
    "is only for TPUs; for GPUs, the memory and the exchanges of a training step are planned"
  )


@pytest.mark.slow
def test_gpu_plan_compiles_without_a_gpu(tmp_path):
  if not platforms.cuda_installed():
    pytest.skip("xmcap[cuda] is not installed")
  file = tmp_path / "plan.json"
  command = [sys.executable, "-m", "xmcap.cli", "plan", *(f"--gin_file={file}" for file in FILES)]
  command += [*(f"--gin.{binding}" for binding in SMALL), "--gin.Partitioning.fsdp=4", "--topology=h100-4"]
  result = subprocess.run([*command, f"--json={file}"], cwd=ROOT, capture_output=True, text=True)
  assert result.returncode == 0, result.stderr[-3000:]
  assert "available to jax of" in result.stdout
  memory = json.loads(file.read_text())["memory"]
  # The parameters and their moments are cut over four GPUs; cuBLAS has 32 MiB to work in.
  assert 0 < memory["parameters"] < 2**30 and memory["working"] > 0
  exchanges = json.loads(file.read_text())["exchanges"]
  # Parameters are gathered, and their gradients summed, in bfloat16; most of it while something is computed.
  assert (
    exchanges["all-gather bf16"]["overlapped_bytes"] > 0 and exchanges["reduce-scatter bf16"]["bytes"] > 0
  )


def test_plan_initializes_no_gpu(monkeypatch):
  monkeypatch.setenv("JAX_PLATFORMS", "cuda")
  topologies.prepare_host()
  assert os.environ["JAX_PLATFORMS"] == "cpu"
