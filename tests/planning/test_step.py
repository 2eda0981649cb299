"""Plans of a step for TPUs: what is made of what the compiler says, and that the planned step is the step that runs."""

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import pytest

from tests.make.command import xmcap
from xmcap import configuration
from xmcap.launch import local
from xmcap.planning import report, step, topologies
from xmcap.planning import run as run_lib
from xmcap.training import sharding
from xmcap.training.state import plan_state

ROOT = Path(__file__).parents[2]
_GIN = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]
_SMALL = [
  "T5Config.vocab_size=1024",
  "ViTConfig.depth=1",
  "T5Config.num_decoder_layers=1",
  "BATCH_SIZE=64",
  "TARGET_LENGTH=8",
  "Partitioning.data=4",
  "Partitioning.fsdp=8",
  "Partitioning.model=2",
]


@pytest.fixture(autouse=True)
def libtpu():
  pytest.importorskip("libtpu")


def _plan(*options):
  return xmcap("plan", *(f"--gin_file={file}" for file in _GIN), *options)


class _Compiled:
  """What the plan reads of a compiled step."""

  def memory_analysis(self):
    return types.SimpleNamespace(
      argument_size_in_bytes=2**30, output_size_in_bytes=500, alias_size_in_bytes=100,
      generated_code_size_in_bytes=30, temp_size_in_bytes=2**20,
    )  # fmt: skip

  def cost_analysis(self):
    return {"flops": 1e9}

  def as_text(self):
    return """%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %g = bf16[4096,8]{1,0} all-gather(%x), replica_groups=[8,8]<=[64], dimensions={0}
  %r = f32[4096]{0} all-reduce(%x), replica_groups=[1,64]<=[64], to_apply=%add
  %f = f32[8]{0} fusion(%g), kind=kLoop, calls=%add, backend_config={"window":{"estimated_cycles":"5000000"}}
}
"""


def _lowered(run, devices):
  """As `step.lower`, for a compiler that is made up."""
  batch = {name: jax.ShapeDtypeStruct(*of_array) for name, of_array in run.shapes.items()}
  mesh, rules = run.partitioning.mesh(devices), run.partitioning.logical_rules()
  state = plan_state(run.objective, run.optimizer, batch, mesh, rules)
  return state, types.SimpleNamespace(compile=_Compiled)


def _document(folder):
  """What `xmcap plan --json` says of a small run on 64 chips, and what it prints."""
  pytest.importorskip("libtpu")
  options = [*(f"--gin.{binding}" for binding in _SMALL), "--topology=v4-128", "--price=2"]
  out = _plan(*options, f"--json={folder / 'plan.json'}").succeeded().out
  return json.loads((folder / "plan.json").read_text()), out


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(step, "lower", _lowered)
    return _document(tmp_path_factory.mktemp("plan"))


@pytest.fixture(scope="module", params=["made up", pytest.param("libtpu", marks=pytest.mark.full)])
def planned(request, tmp_path_factory):
  """The plan by a compiler that is made up, and by libtpu's."""
  made_up = request.param == "made up"
  return request.getfixturevalue("made_up") if made_up else _document(tmp_path_factory.mktemp("libtpu"))


def test_plan_adds_up_what_the_compiler_says(made_up):
  document, _ = made_up
  memory = document["memory"]
  assert memory["working"] == 2**20 + (500 - 100) + 30
  assert sum(memory[kind] for kind in ("parameters", "optimizer", "batch")) == 2**30
  assert 0 < memory["optimizer"] < memory["parameters"] < memory["batch"]
  assert document["exchanges"]["all-gather"] == {"count": 1, "bytes": 2 * 4096 * 8}
  assert (document["flops"], document["estimated_cycles"]) == (1e9, 5_000_000)
  assert document["estimate"]["schedule_seconds"] == pytest.approx(5e6 / 1.05e9)


def test_plan_counts_an_ema_as_one_more_copy_of_the_weights(made_up, monkeypatch, tmp_path):
  monkeypatch.setattr(step, "lower", _lowered)
  options = [*(f"--gin.{binding}" for binding in _SMALL), "--topology=v4-128", "--gin.EMA_DECAY=0.999"]
  printed = _plan(*options, f"--json={tmp_path / 'plan.json'}").succeeded("EMA").out
  memory, without = json.loads((tmp_path / "plan.json").read_text())["memory"], made_up[0]["memory"]
  assert "EMA" in printed and "EMA" not in made_up[1]
  count = 4  # bytes of the number of updates
  assert memory["EMA"] == memory["parameters"] + count and memory["optimizer"] == without["optimizer"]


def test_plan_parameter_memory_is_sharded(planned):
  document, _ = planned
  # Four bytes each, cut over fsdp 8 x model 2, and over data 4 where that leaves whole tiles.
  share = 4 * document["parameters"] / 16
  assert share / 4 < document["memory"]["parameters"] < share
  memory = dict(document["memory"])
  assert memory.pop("allowed") == 30.75 * 2**30
  assert memory.pop("total") == sum(memory.values())


def test_plan_estimate_is_the_largest_bound(planned):
  estimate = planned[0]["estimate"]
  bounds = {name: estimate[f"{name}_seconds"] for name in ("arithmetic", "links", "network", "schedule")}
  assert estimate["step_seconds"] == bounds[estimate["bound"]] == max(bounds.values())
  computing = max(bounds["arithmetic"], bounds["schedule"])
  assert estimate["exposed_seconds"] == pytest.approx(computing + bounds["links"])
  assert estimate["exposed_seconds"] > estimate["step_seconds"]
  assert estimate["captions_per_second"] == pytest.approx(64 / estimate["step_seconds"])
  assert estimate["chip_hours"] == pytest.approx(64 * 100_000 * estimate["step_seconds"] / 3600)


def test_plan_collectives_by_mesh_axes(planned):
  document, _ = planned
  # Parameters are gathered along fsdp, and gradients are summed.
  assert document["exchanges"]["all-gather"]["count"] > 0 and document["exchanges"]["all-reduce"]["count"] > 0


def test_plan_text_names_topology_and_estimate(planned):
  document, text = planned
  assert "v4:4x4x4 (v4-128): 64 chips, 16 hosts" in text
  assert "How each number can be wrong:" in text and "  schedule: the compiler's model" in text
  assert "data 4 x fsdp 8 x model 2; 64 captions per step" in text and "cost at 2 per chip-hour" in text
  assert f"{document['memory']['allowed'] / 2**30:.2f}" in text
  assert "step, communication hidden" in text and "step, communication exposed" in text
  assert "the run, estimated" in text
  of_three = report.text(document, topologies.parse("v4-128"), lengths=3)
  assert "the run, if all targets were the longest" in of_three and "estimated  " not in of_three


def test_plan_with_a_price_has_what_the_corpus_takes(monkeypatch):
  pytest.importorskip("libtpu")
  monkeypatch.setattr(step, "lower", _lowered)
  options = [
    *(f"--gin.{binding}" for binding in _SMALL),
    "--topology=v4-128",
    "--price=2",
    "--core_price=0.05",
  ]
  files = ("--gin_file=data/coco35l.gin", "--gin.CaptionStream.target_lengths=(8,)")
  out = _plan(*options, *files).succeeded("cost at 2 per chip-hour", "a checkpoint's parameters").out
  assert "building COCO-35L, estimated" in out and "cost at 0.05 per core-hour" in out


def test_plan_smallest_slice_that_fits(planned):
  document, text = planned
  # One host has four chips; 64 pictures are split evenly over two pairs of them.
  assert document["smallest"] == {"topology": "v4-8", "memory": 16 * document["memory"]["total"]}
  assert "The smallest slice of these chips that should hold it is v4-8" in text


def test_plan_rows_by_host(planned):
  document, text = planned
  rows = document["rows_by_host"]
  # Each of 16 hosts has 4 of 64 chips; pairs along `model` share 2 rows of 64.
  assert len(rows) == 16 and all(len(fed) == 4 * 64 // 32 // 2 or len(fed) == 4 * 64 // 32 for fed in rows)
  assert set().union(*rows) == set(range(64))
  busiest = max(map(len, rows))
  assert document["estimate"]["pictures_per_second_and_host"] == pytest.approx(
    busiest / document["estimate"]["step_seconds"]
  )
  assert re.search(rf"pictures that each host feeds, of a batch of 64 +{busiest}\b", text)


@pytest.mark.parametrize(
  "options, said",
  [
    (["--topology=v4-128", "--gin.Partitioning.model=3"], "data -1 x fsdp 1 x model 3 does not fit 64 device(s)"),
    (["--topology=v4-128", "--gin.BATCH_SIZE=32"], "32 pictures cannot be split evenly over data x fsdp = 64 devices"),
    (["--topology=v4-127"], "no v4 slice has 127 TensorCores"),
    (["--topology=v4-8", "--gin_file=runs/pretrain_tags.gin"], "only a run on @CaptionStream() can be planned"),
    (["--topology=v4-128", "--core_price=1"], "--core_price goes with --price"),
    (["--topology=v4-128", "--price=nan"], "--price=nan: give the price of an hour"),
    (["--topology=v4-128", "--price=1", "--core_price=-1"], "--core_price=-1: give the price"),
    (["--search"], "--search plans a run on chips: give --topology too"),
    (["--topology=v4-8", "--search", "--programs=x"], "--programs plans the run's own mesh"),
    (["--topology=v4-8", "--decode", "--programs=x"], "--programs plans a training step"),
    (["--topology=h100-8", "--programs=x"], "--programs is only for TPUs"),
    (["--topology=v4-8", "--programs=x", "--gin.TOTAL_STEPS=@epochs()", "--gin_file=data/coco35l.gin"],
     "--programs: the number of steps is part of the program: give --gin.TOTAL_STEPS=N"),
    ([], "give --params, or --topology"),
  ],
)  # fmt: skip
def test_plan_usage_errors_are_one_line(options, said):
  _plan("--gin.T5Config.vocab_size=1024", *options).refused(said)


@pytest.mark.full
@pytest.mark.slow
def test_plan_of_several_slices_uses_the_network(tmp_path):
  file = tmp_path / "plan.json"
  small = [f"--gin.{binding}" for binding in _SMALL if not binding.startswith("Partitioning")]
  two_slices = ["--topology=2*v4-8", "--gin.Partitioning.fsdp=4"]
  keep = f"--programs={tmp_path / 'programs'}"
  _plan(*small, *two_slices, f"--json={file}", keep).succeeded("network between slices")
  assert [path.name.split("-")[0] for path in (tmp_path / "programs").iterdir()] == ["jit_train_step"]
  plan = json.loads(file.read_text())
  assert plan["chips"] == 8 and plan["hosts"] == 2
  assert (plan["variant"]["data"], plan["variant"]["fsdp"]) == (2, 4)
  assert plan["estimate"]["network_seconds"] > 0


@pytest.mark.full
@pytest.mark.slow
def test_planned_step_equals_the_running_step():
  path = os.pathsep.join([str(ROOT), *sys.path])
  env = local.environment(64, {**os.environ, "PYTHONPATH": path})
  command = [sys.executable, "-m", "tests.planning.test_step"]
  result = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
  assert result.returncode == 0, result.stderr[-4000:]
  found = json.loads(result.stdout.splitlines()[-1])
  assert found["same_program"], "lowered for the slice and for 64 CPUs, the programs differ"
  np.testing.assert_allclose(found["losses"]["mesh"], found["losses"]["one device"], atol=1e-5)
  assert found["losses"]["mesh"][1] < found["losses"]["mesh"][0]


def main():
  """Lowers the step for a slice and for 64 CPUs, and takes two steps on these and on one of them."""
  topologies.prepare_host()
  exact = ["ViTConfig.dtype=float32", "T5Config.dtype=float32"]
  configuration.parse(_GIN, _SMALL + exact)
  run = run_lib.of_gin(topologies.parse("v4-128"))
  slice_ = topologies.parse("v4-128")
  planned = step.plan_step(run, slice_)

  # What asks for the platform takes a TPU's way for both; where it has none of its own, that is the default.
  def as_on_a_tpu(*args, default, tpu=None, **others):
    return (tpu or default)(*args)

  with mock.patch.object(jax.lax, "platform_dependent", as_on_a_tpu):
    lowered = [step.lower(run, devices)[1].as_text() for devices in (slice_.devices(), jax.devices())]

  rng = np.random.default_rng(0)
  batch = {
    name: rng.integers(1, 200, shape).astype(dtype) if name != "target_weights" else np.ones(shape, dtype)
    for name, (shape, dtype) in run.shapes.items()
  }
  losses = {}
  for name, devices in (("mesh", jax.devices()), ("one device", jax.devices()[:1])):
    if name == "one device":
      run = run_lib.of_gin(topologies.parse("v5e-1"), data=1, fsdp=1, model=1)
    plan, lowered_step = step.lower(run, devices)
    compiled = lowered_step.compile()
    state, losses[name] = plan.create(), []
    for _ in range(2):
      with sharding.use(plan.mesh, plan.rules):
        state, metrics = compiled(state, sharding.put_batch(batch, plan.mesh))
      losses[name].append(float(metrics["loss"]))
  print(json.dumps({"same_program": lowered[0] == lowered[1], "losses": losses, "flops": planned["flops"]}))


if __name__ == "__main__":
  main()
