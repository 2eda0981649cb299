"""`xmcap plan --decode`: decoding compiled for absent chips."""

import json

import gin
import pytest

from xmcap import cli

_GIN = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]


@pytest.mark.slow
def test_plan_decode_compiles_an_evaluation(tmp_path, capsys):
  pytest.importorskip("libtpu")
  file = tmp_path / "plan.json"
  options = ["--gin.T5Config.vocab_size=1024", "--gin.T5Config.num_decoder_layers=1", "--gin.ViTConfig.depth=1",
             "--gin.Predictor.batch_size=8", "--gin.Predictor.max_length=8", "--topology=v4-8", "--decode"]  # fmt: skip
  assert cli.main(["plan", *(f"--gin_file={name}" for name in _GIN), *options, f"--json={file}"]) == 0
  gin.clear_config()
  plan, text = json.loads(file.read_text()), capsys.readouterr().out
  assert (plan["pictures"], plan["languages"]) == (8, 36) and plan["memory"]["working"] > 0
  estimate = plan["estimate"]
  seconds = estimate["encoding_seconds"] + plan["max_length"] * estimate["token_seconds"]
  assert seconds == pytest.approx(
    (estimate["encoding_cycles"] + plan["max_length"] * estimate["token_cycles"]) / 1.05e9
  )
  assert estimate["captions_per_second"] == pytest.approx(8 * 36 / seconds)
  assert "8 pictures x 36 languages" in text and "Times are estimates" in text


def test_plan_decode_refuses_search(capsys):
  options = ["--gin.T5Config.vocab_size=1024", "--topology=v4-8", "--decode", "--search"]
  assert cli.main(["plan", *(f"--gin_file={name}" for name in _GIN), *options]) == 2
  gin.clear_config()
  assert "--decode plans the run's own mesh: give it without --search" in capsys.readouterr().err
