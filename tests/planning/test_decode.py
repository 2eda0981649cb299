"""`xmcap plan --decode`: the plan of an evaluation, by a compiler that is made up and by libtpu's."""

import json
import types

import pytest

from tests.make.command import xmcap
from tests.planning import test_hlo
from xmcap.planning import decode

_GIN = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]
_SMALL = ["--gin.T5Config.vocab_size=1024", "--gin.T5Config.num_decoder_layers=1", "--gin.ViTConfig.depth=1",
          "--gin.Predictor.batch_size=8", "--gin.Predictor.max_length=8", "--topology=v4-8"]  # fmt: skip


def _plan(*options):
  return xmcap("plan", *(f"--gin_file={name}" for name in _GIN), *_SMALL, "--decode", *options)


class _Compiled:
  """What the plan reads of a compiled program: 7 cycles, and 10 in each turn of a loop."""

  def memory_analysis(self):
    return types.SimpleNamespace(
      argument_size_in_bytes=2**30,
      temp_size_in_bytes=2**20,
      output_size_in_bytes=200,
      generated_code_size_in_bytes=30,
    )

  def as_text(self):
    return test_hlo.UNKNOWN_TRIPS


def test_plan_decode_adds_up_what_the_compiler_says(tmp_path, monkeypatch):
  pytest.importorskip("libtpu")
  compiled = types.SimpleNamespace(lower=lambda *_: types.SimpleNamespace(compile=_Compiled))
  monkeypatch.setattr(decode.decoding, "generate", compiled)
  file = tmp_path / "plan.json"
  _plan(f"--json={file}").succeeded("8 pictures x 36 languages", "Times are estimates")
  plan = json.loads(file.read_text())
  assert (plan["pictures"], plan["languages"], plan["max_length"]) == (8, 36, 8)
  assert (plan["memory"]["arguments"], plan["memory"]["working"]) == (2**30, 2**20 + 230)
  estimate = plan["estimate"]
  assert (estimate["encoding_cycles"], estimate["token_cycles"]) == (7, 10)
  assert estimate["captions_per_second"] == pytest.approx(8 * 36 * 1.05e9 / (7 + 8 * 10))
  seconds = estimate["encoding_seconds"], estimate["token_seconds"]
  assert seconds == pytest.approx((7 / 1.05e9, 10 / 1.05e9))


@pytest.mark.full  # above, without libtpu's compiler, which test_step.py and test_search.py run
@pytest.mark.slow
def test_plan_decode_compiles_an_evaluation(tmp_path):
  pytest.importorskip("libtpu")
  file = tmp_path / "plan.json"
  _plan(f"--json={file}").succeeded("8 pictures x 36 languages")
  plan = json.loads(file.read_text())
  assert plan["memory"]["working"] > 0
  assert plan["estimate"]["encoding_cycles"] > plan["estimate"]["token_cycles"] > 0


def test_plan_decode_refuses_search():
  _plan("--search").refused("--decode plans the run's own mesh: give it without --search")
