"""`xmcap plan --length_mix`: the mean step time over target lengths, with a simulated compiler."""

import gin
import pytest

from tests.make.command import xmcap
from tests.make.tiny_corpus import NUM_PICTURES, tiny_record, write_corpus
from xmcap import configuration
from xmcap.errors import UsageError
from xmcap.planning import mix, report, step, topologies
from xmcap.planning import run as run_lib

_GIN = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]
_SMALL = ["T5Config.vocab_size=1024", "BATCH_SIZE=8", "DATA_DIR='/nowhere'", "CaptionStream.bucket_window=2"]
_V4_8 = topologies.parse("v4-8")


def _plan(run: run_lib.PlannedRun, topology: topologies.Topology) -> dict:
  """As much of a plan as a mix looks at: a step takes a millisecond a piece."""
  lengths = {name: shape[-1] for name, (shape, _) in run.shapes.items()}
  assert lengths["target_tokens"] == lengths["target_weights"]
  return {
    "batch_size": run.batch_size,
    "chips": topology.chips,
    "total_steps": run.total_steps,
    "compile_seconds": 0.0,
    "estimate": {
      "step_seconds": lengths["target_tokens"] / 1e3,
      "exposed_seconds": lengths["target_tokens"] / 500,
    },
  }


def _mix(shares: dict | None, say=print) -> tuple[dict | None, str | None]:
  """The mix, and the text about it."""
  run = run_lib.of_gin(_V4_8)
  longest = _plan(run, _V4_8)
  found = mix.plan_mix(run, _V4_8, longest, shares, say)
  return found, found and report.mix_text(found, longest, price=2.0)


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
  configuration.parse(_GIN, _SMALL)
  monkeypatch.setattr(mix, "plan_step", _plan)


def test_length_mix_option_gives_shares():
  said = []
  found, text = _mix(mix.parse("8:3,24:1"), said.append)
  assert found == {
    "step_seconds": {"8": 0.008, "12": 0.012, "24": 0.024},
    "exposed_seconds": {"8": 0.016, "12": 0.024, "24": 0.048},
    "mean_exposed_seconds": pytest.approx(2 * (0.75 * 0.008 + 0.25 * 0.024)),
    "shares": {"8": 0.75, "24": 0.25},
    "mean_step_seconds": pytest.approx(0.75 * 0.008 + 0.25 * 0.024),
  }
  assert said == [
    "length 2 of 3: targets of 8 tokens",
    "targets of 8: compiled in 0 s",
    "length 3 of 3: targets of 12 tokens",
    "targets of 12: compiled in 0 s",
  ]
  rows = [line.split() for line in text.splitlines()]
  assert ["12", "0%", "12.00", "24.00", "667"] in rows and ["mean", "12.00", "24.00", "667"] in rows
  # 100,000 steps of 12 ms on 4 chips.
  assert (
    ["steps", "100,000"] in rows and ["hours", "0.33", "0.67"] in rows and ["chip-hours", "1", "3"] in rows
  )
  assert ["cost", "at", "2", "per", "chip-hour", "3", "5"] in rows


def test_length_mix_is_counted_in_the_corpus(tmp_path):
  corpus = write_corpus(tmp_path, [tiny_record(index) for index in range(NUM_PICTURES)])
  gin.bind_parameter("emoji36.data_dir", corpus)
  found, _ = _mix(None)
  assert sum(found["shares"].values()) == pytest.approx(1) and len(found["shares"]) == 3
  assert 0.008 < found["mean_step_seconds"] < 0.024


def test_length_mix_without_data_has_no_mean():
  found, text = _mix(None)
  assert found["shares"] is None and found["mean_step_seconds"] is None
  assert ["8", "unknown", "8.00", "16.00", "1,000"] in [line.split() for line in text.splitlines()]
  assert "The mean is unknown: /nowhere is not a corpus" in text and "--length_mix=LENGTH:SHARE" in text


def test_length_mix_of_a_single_length_is_none():
  gin.bind_parameter("CaptionStream.target_lengths", ())
  assert _mix(None) == (None, None)


@pytest.mark.parametrize("text", ["", "8", "8:x", "8:-1,12:2", "8:0", "8:nan", "a:1", "8:1,8:2"])
def test_malformed_length_mix_is_refused(text):
  with pytest.raises(UsageError, match="--length_mix=.*: give the share of each length, such as 16:0.4"):
    mix.parse(text)


def test_length_mix_of_other_lengths_is_refused():
  with pytest.raises(UsageError, match="--length_mix=16:1: the run only has targets of 8, 12, 24 tokens"):
    mix.parse("16:1")


@pytest.mark.parametrize("lengths", [(), (12,)])
def test_plan_report_counts_target_lengths(monkeypatch, lengths):
  heard = []
  monkeypatch.setattr(step, "plan_step", _plan)
  monkeypatch.setattr(report, "text", lambda *given: heard.append(given[-1]) or "")
  files = [f"--gin_file={file}" for file in _GIN]
  changed = [f"--gin.{binding}" for binding in (*_SMALL, f"CaptionStream.target_lengths={lengths}")]
  xmcap("plan", *files, *changed, "--topology=v4-8").succeeded()
  assert heard == [1 + len(lengths)]


def test_plan_search_refuses_length_mix():
  refused = xmcap("plan", "--gin_file=models/tiny.gin", "--topology=v4-8", "--search", "--length_mix=8:1")
  refused.refused("--length_mix plans the run's own mesh: give it without --search")


@pytest.mark.parametrize("form, prompts", [("plain", (8, 1, 4)), ("consistent", (8, 1, 1))])
def test_plan_prompt_length_follows_the_stabilizer_form(form, prompts):
  files = ["models/bb.gin", "data/coco35l.gin", "runs/train.gin", "runs/plugs.gin"]
  configuration.parse(files, [f"FORM='{form}'", "BATCH_SIZE=8", "DATA_DIR='/nowhere'"])
  shapes = {name: shape for name, (shape, _) in run_lib.of_gin(_V4_8).shapes.items()}
  assert shapes["prompt_tokens"] == prompts and shapes["target_tokens"] == (8, 1, 128)
