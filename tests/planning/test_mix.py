"""The mean over lengths of targets, with a compiler that is told how long each step takes."""

import dataclasses

import gin
import pytest

from tests.data.conftest import NUM_PICTURES, tiny_record, write_corpus
from xmcap import cli, configuration
from xmcap.errors import UsageError
from xmcap.planning import mix, report, topologies
from xmcap.planning import run as run_lib

_GIN = ["models/tiny.gin", "data/emoji36.gin", "runs/train.gin"]
_SMALL = ["T5Config.vocab_size=1024", "BATCH_SIZE=8", "DATA_DIR='/nowhere'", "CaptionStream.bucket_window=2"]
_V4_8 = topologies.parse("v4-8")


@dataclasses.dataclass
class _Plan:
  """As much of a `StepPlan` as a mix looks at: a step takes a millisecond a piece."""

  run: run_lib.Run
  topology: topologies.Topology
  compile_seconds: float = 0.0

  @property
  def seconds(self) -> float:
    return self.run.shapes["target_tokens"][0][-1] / 1e3

  @property
  def captions_per_second(self) -> float:
    return self.run.batch_size / self.seconds


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
  configuration.parse(_GIN, _SMALL)
  monkeypatch.setattr(mix, "plan_step", _Plan)
  yield
  gin.clear_config()


def longest() -> _Plan:
  return _Plan(run_lib.of_gin(_V4_8), _V4_8)


def test_shares_that_are_given():
  said = []
  found = mix.plan_mix(longest(), mix.parse("8:3,24:1"), said.append)
  assert list(found.plans) == [8, 12, 24] and found.shares == {8: 0.75, 24: 0.25}
  for length, plan in found.plans.items():
    shapes = plan.run.shapes
    assert [shapes[name][0][-1] for name in ("target_tokens", "target_weights")] == [length, length]
    assert shapes["prompt_tokens"] == longest().run.shapes["prompt_tokens"]
  assert found.seconds == pytest.approx(0.75 * 0.008 + 0.25 * 0.024)
  assert said == ["targets of 8: compiled in 0 s", "targets of 12: compiled in 0 s"]
  text = report.mix_text(found, price=2.0)
  rows = [line.split() for line in text.splitlines()]
  assert ["12", "0%", "12.00", "667"] in rows and ["mean", "12.00", "667"] in rows
  # 100,000 steps of 12 ms on 4 chips.
  assert "100,000 steps at the mean: 0.33 hours, 1 chip-hours, 3 at 2 a chip and hour" in text
  assert report.mix_document(found) == {
    "step_seconds": {"8": 0.008, "12": 0.012, "24": 0.024},
    "shares": {"8": 0.75, "24": 0.25},
    "mean_step_seconds": pytest.approx(0.012),
  }


def test_shares_of_the_data(tmp_path):
  corpus = write_corpus(tmp_path, [tiny_record(index) for index in range(NUM_PICTURES)])
  gin.bind_parameter("emoji36.data_dir", corpus)
  found = mix.plan_mix(longest(), None, print)
  assert sum(found.shares.values()) == pytest.approx(1) and len(found.shares) == 3
  assert 0.008 < found.seconds < 0.024


def test_without_data_the_mean_is_not_known():
  found = mix.plan_mix(longest(), None, print)
  assert found.shares is None and found.seconds is None
  text = report.mix_text(found)
  assert ["8", "unknown", "8.00", "1,000"] in [line.split() for line in text.splitlines()]
  assert "The mean is not known: /nowhere is no corpus" in text and "--length_mix=LENGTH:SHARE" in text
  assert report.mix_document(found)["mean_step_seconds"] is None


def test_a_run_of_one_length_has_no_mix():
  gin.bind_parameter("CaptionStream.target_lengths", ())
  assert mix.plan_mix(longest(), None, print) is None


@pytest.mark.parametrize("text", ["", "8", "8:x", "8:-1,12:2", "8:0", "8:nan", "a:1"])
def test_shares_that_are_none(text):
  with pytest.raises(UsageError, match="--length_mix=.*: give the share of each length, such as 16:0.4"):
    mix.parse(text)


def test_other_lengths_than_the_runs():
  with pytest.raises(UsageError, match="--length_mix=16:1: the run has targets of 8, 12, 24 pieces alone"):
    mix.parse("16:1")


def test_a_search_takes_no_mix(capsys):
  assert (
    cli.main(["plan", "--gin_file=models/tiny.gin", "--topology=v4-8", "--search", "--length_mix=8:1"]) == 2
  )
  assert "--length_mix plans the run's own mesh: give it without --search" in capsys.readouterr().err
