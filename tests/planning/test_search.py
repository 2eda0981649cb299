"""`xmcap plan --search`: the search for a mesh, with a simulated compiler except in one search of a small run."""

import dataclasses
import json

import gin
import pytest

from tests.make.command import xmcap
from xmcap import configuration
from xmcap.errors import UsageError
from xmcap.planning import run as run_lib
from xmcap.planning import search, topologies
from xmcap.planning import step as step_lib
from xmcap.planning.run import Variant

_GIN = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]
_SMALL = ["T5Config.vocab_size=1024", "ViTConfig.depth=1", "T5Config.num_decoder_layers=1", "BATCH_SIZE=64"]
_V4_8 = topologies.parse("v4-8")


@pytest.fixture(autouse=True)
def configured():
  configuration.parse(_GIN, _SMALL)


def _plan(variant: Variant, seconds: float) -> dict:
  """As much of a plan as a search looks at."""
  return {
    "variant": dataclasses.asdict(variant),
    "memory": {"total": 2**30},
    "compile_seconds": 0.0,
    "estimated_cycles": 9_740_000,
    "estimate": {"step_seconds": seconds},
  }


def _compiler(monkeypatch, fits, seconds=lambda variant: 1.0):
  """Lets variants fit, and take their time, as told; returns those that were compiled."""
  seen = []

  def plan_step(run, topology):
    seen.append(run.variant)
    if not fits(run.variant):
      raise step_lib.DoesNotFit(run.variant, 40 * 2**30, topology.chip.hbm)
    return _plan(run.variant, seconds(run.variant))

  monkeypatch.setattr(search, "plan_step", plan_step)
  return seen


def test_plan_search_orders_by_speed_and_tries_other_recipes(monkeypatch):
  seconds = lambda v: (4.0 / v.fsdp + v.model) / v.captions_per_image  # noqa: E731
  _compiler(monkeypatch, lambda variant: True, seconds)
  plans, refused = search.search(_V4_8, (4,))
  times = [plan["estimate"]["step_seconds"] for plan in plans]
  assert not refused and times == sorted(times)
  best, then = (Variant(**plan["variant"]) for plan in plans[:2])
  assert (best.data, best.fsdp, best.model, best.captions_per_image) == (1, 4, 1, 4)
  assert dataclasses.replace(best, captions_per_image=1) == then


def test_plan_search_retries_with_less_memory(monkeypatch):
  said = []
  seen = _compiler(monkeypatch, lambda variant: variant.microbatches >= 4 and variant.fsdp == 4)
  plans, refused = search.search(_V4_8, say=said.append)
  fits = "image_remat full, t5_remat full, microbatches 4: 1000.0 ms, 9.7 million cycles"
  assert any(fits in line for line in said)
  variants = [Variant(**plan["variant"]) for plan in plans]
  assert [(variant.fsdp, variant.remat, variant.microbatches) for variant in variants] == [(4, "full", 4)]
  tried = [(variant.remat, variant.microbatches) for variant in seen if variant.fsdp == 4]
  assert tried == [("no", 1), ("vit dots, t5 no", 1), ("dots", 1), ("full", 1), ("full", 2), ("full", 4)]
  assert {(error.variant.fsdp, error.variant.model) for error in refused} == {(1, 1), (2, 1), (1, 2), (2, 2)}


def test_plan_search_refuses_a_mesh_with_an_indivisible_batch(monkeypatch):
  gin.bind_parameter("CaptionStream.batch_size", 8)  # not divisible by 4 chips x 4 microbatches
  _compiler(monkeypatch, lambda variant: False)
  plans, refused = search.search(_V4_8)
  meshes = {(error.variant.data, error.variant.fsdp, error.variant.model) for error in refused}
  assert not plans and meshes == {(1, 4, 1), (2, 2, 1), (4, 1, 1), (1, 2, 2), (2, 1, 2)}
  assert {error.variant.microbatches for error in refused if error.variant.model == 1} == {2}


def test_plan_search_skips_coarser_meshes_that_cannot_fit(monkeypatch):
  seen = _compiler(
    monkeypatch, lambda variant: variant.remat != "no" and (variant.fsdp > 1 or variant.remat == "full")
  )
  plans, refused = search.search(_V4_8)
  tried = [(variant.fsdp, variant.remat) for variant in seen if variant.model == 1]
  vit = "vit dots, t5 no"
  meshes = [(4, "no"), (4, vit), (2, vit), (1, vit), (1, "dots"), (1, "full")]
  assert not refused and len(plans) == 5 + 2 and tried == [*meshes, (4, "dots"), (4, "full")]


def test_plan_search_compares_all_policies_on_the_fastest_mesh(monkeypatch):
  _compiler(monkeypatch, lambda variant: variant.remat != "no", lambda v: v.model + (v.remat != "full"))
  plans, refused = search.search(_V4_8)
  assert not refused and plans[0]["variant"]["image_remat"] == "full" and plans[0]["variant"]["model"] == 1


def test_plan_search_does_not_split_attention_heads(monkeypatch):
  seen, said = _compiler(monkeypatch, lambda variant: True), []
  search.search(_V4_8, say=said.append)
  assert {variant.model for variant in seen} == {1, 2}
  assert any("the 2 heads of the T5 are not divisible by model 4" in line for line in said)


def test_plan_does_not_fit_error_suggests_a_variant(monkeypatch):
  _compiler(monkeypatch, lambda variant: variant.remat == "full" and variant.microbatches == 2)
  variant = Variant(4, 1, 1, 1, 1, "no", "no", False)
  error = step_lib.DoesNotFit(variant, 40 * 2**30, 30.75 * 2**30)
  line = str(search.with_way_out(error, _V4_8, lambda line: None))
  assert line.startswith(
    "does not fit: it needs 40.0 GiB per chip, and a program may use 30.75 GiB; it fits (1.0 GiB) with "
  )
  assert line.endswith("--gin.ViTConfig.remat=full --gin.T5Config.remat=full --gin.train.microbatches=2")


def test_plan_does_not_fit_error_without_a_suggestion(monkeypatch):
  _compiler(monkeypatch, lambda variant: False)
  error = step_lib.DoesNotFit(Variant(4, 1, 1, 1, 1, "no", "no", False), 40 * 2**30, 30.75 * 2**30)
  found = search.with_way_out(error, _V4_8, lambda line: None)
  assert isinstance(found, UsageError) and "nor with remat, 8 microbatches" in str(found)


# What libtpu 0.0.42 says.
_TOO_LARGE = (
  "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (127.97G) exceeds "
  "available HBM (30.75G)."
)


def test_plan_explains_out_of_memory_of_the_compiler():
  error = step_lib.explained(RuntimeError(_TOO_LARGE), Variant(4, 1, 1, 1, 1, "no", "no", False), _V4_8)
  assert str(error) == "does not fit: it needs 128.0 GiB per chip, and a program may use 30.75 GiB"
  other = step_lib.explained(RuntimeError("INTERNAL: no"), Variant(4, 1, 1, 1, 1, "no", "no", False), _V4_8)
  assert "the compiler cannot compile this program for v4:2x2x1: INTERNAL: no" in str(other)


@pytest.mark.parametrize(
  "name, said",
  [("CaptionStream.captions_per_image", "by captions_per_image 0"), ("train.microbatches", "0 microbatches")],
)
def test_plan_search_refuses_settings_of_0(name, said):
  gin.bind_parameter(name, 0)
  with pytest.raises(UsageError, match=said):
    run_lib.of_gin(_V4_8)


def test_plan_search_joins_slices_by_data_axis_only():
  for mesh in search.meshes(topologies.parse("2*v4-16")):
    assert mesh["data"] % 2 == 0 and mesh["data"] * mesh["fsdp"] * mesh["model"] == 16


@pytest.mark.full
@pytest.mark.slow
def test_plan_search_of_a_small_run(tmp_path):
  pytest.importorskip("libtpu")
  file = tmp_path / "plans.json"
  command = ["plan", *(f"--gin_file={name}" for name in _GIN), *(f"--gin.{binding}" for binding in _SMALL)]
  options = ["--topology=v4:1x1x2", "--search", "--captions_per_image=4", f"--json={file}"]
  xmcap(*command, *options).succeeded("4*", "another recipe", "The fastest that fits")
  plans = json.loads(file.read_text())
  meshes = {tuple(plan["variant"][axis] for axis in ("data", "fsdp", "model")) for plan in plans}
  assert meshes == {(2, 1, 1), (1, 2, 1), (1, 1, 2)}
