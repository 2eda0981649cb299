"""The metrics of a run: `metrics.jsonl`, speed, MFU and memory."""

import jax
import jax.numpy as jnp
import pytest

from tests.make import files
from tests.training.test_loop import Evaluator, run
from tests.training.toy import ToyStream
from xmcap.errors import XmcapError
from xmcap.training import metrics
from xmcap.training.checkpoints.retention import CheckpointPolicy
from xmcap.training.metrics import TrainingProgress
from xmcap.training.reporting.writers import AllWriters


def rows(folder):
  return files.rows(folder / "metrics.jsonl")


def test_metrics_jsonl_of_a_run(tmp_path):
  run(tmp_path, evaluators=[Evaluator()], log_every=10, checkpoint=CheckpointPolicy(every=0))
  found = rows(tmp_path)
  assert [row.get("event") for row in found] == ["started", *[None] * 6, "finished"]
  # The goodput of the start, and after compiling; reports, the evaluation; the goodput of the end.
  assert all("goodput/steps" in row for row in found[1:-1])
  assert found[0]["total_steps"] == 20 and found[0]["parameters"] == 776 and found[0]["device_kind"] == "cpu"
  report, evaluation = found[4], found[5]
  assert report["step"] == evaluation["step"] == 20 and evaluation["eval/cider/th"] == 0.1
  assert {
    "train/loss", "train/learning_rate", "train/skipped", "speed/step_seconds", "speed/step_seconds_p50",
    "speed/step_seconds_p95", "speed/pictures_per_second", "time/waiting_for_data", "time/evaluating", "time/saving",
    "grad_norm/wi", "update_norm/wi", "param_norm/wi",
  } <= set(report)  # fmt: skip
  # Not known on a CPU, or not of this objective: left out, and not 0.
  assert not {"speed/mfu", "memory/peak_share", "speed/captions_per_second"} & set(report)


def test_metrics_jsonl_records_a_failed_run(tmp_path):
  with pytest.raises(XmcapError):
    run(tmp_path, stream=ToyStream(bad_steps=range(9)), skip_limit=3, log_every=5)
  last = rows(tmp_path)[-1]
  assert last["event"] == "failed" and "not finite 5 steps in a row" in last["error"]


class Kept:
  name = "kept"

  def __init__(self):
    self.rows = []

  def scalars(self, step, values):
    self.rows.append((step, dict(values)))

  def close(self):
    pass


def report_of(batch, measured, steps=2, **options):
  """The numbers of one report, and the line, after steps that take no time."""
  kept, said = Kept(), []
  writers = AllWriters([kept], said.append)
  progress = TrainingProgress(10, 0, writers, said.append, **options)
  for _ in range(steps):
    with progress.step(batch):
      pass
    progress.add({name: jnp.float32(value) for name, value in measured.items()})
  progress.report(steps)
  writers.close()
  _, values = kept.rows[-1]
  return values, said[-1]


BATCH = {"image": jnp.zeros((3, 2, 2, 3)), "target_tokens": jnp.zeros((3, 4, 5), jnp.int32)}
MEASURED = {"loss": 1.0, "weight": 30.0, "learning_rate": 0.1, "skipped": 0, "skipped_in_a_row": 0}


def test_speed_counts_images_captions_and_real_tokens():
  values, line = report_of(BATCH, MEASURED)
  pictures = values["speed/pictures_per_second"]
  assert values["speed/captions_per_second"] == pytest.approx(4 * pictures)
  assert values["speed/tokens_per_second"] == pytest.approx(10 * pictures)
  assert "captions/s" in line


def test_mfu_is_the_ideal_time_over_the_time():
  values, line = report_of(BATCH, MEASURED, ideal_seconds=lambda batch: 1e-3 * batch["image"].shape[0])
  assert values["speed/mfu"] == pytest.approx(3e-3 * values["speed/steps_per_second"])
  assert f"MFU {values['speed/mfu']:.0%}" in line


def test_time_left_is_reported_from_the_second_step():
  assert "left" not in report_of(BATCH, MEASURED, steps=1)[1]
  assert "left" in report_of(BATCH, MEASURED, steps=2)[1]


def test_progress_names_the_program_being_compiled():
  said = []
  progress = TrainingProgress(10, 0, AllWriters([Kept()], said.append), said.append, lengths=(5, 8))
  for length in (8, 5, 8, 9):
    with progress.step({**BATCH, "target_tokens": jnp.zeros((3, 4, length), jnp.int32)}):
      pass
  compiling = [line.split(": about a minute")[0] for line in said if line.startswith("compiling the step")]
  assert compiling == [
    "compiling the step, program 1 of 2 (targets of 5, 8 tokens), for 8 tokens",
    "compiling the step, program 2 of 2 (targets of 5, 8 tokens), for 5 tokens",
    "compiling the step, again for another shape of batch",
  ]


def test_ideal_seconds_is_computed_once_per_shape():
  asked = []
  report_of(BATCH, MEASURED, steps=5, ideal_seconds=lambda batch: asked.append(batch))
  assert len(asked) == 1 and asked[0]["image"].shape == (3, 2, 2, 3)


def test_report_has_last_norms_and_mean_losses():
  kept = Kept()
  writers = AllWriters([kept], print)
  progress = TrainingProgress(10, 0, writers, print)
  for value in (1.0, 3.0):
    with progress.step(BATCH):
      pass
    measured = {**MEASURED, "loss": value, "grad_norm/vit": value, "learning_rate": value}
    progress.add({name: jnp.float32(each) for name, each in measured.items()})
  progress.report(2)
  writers.close()
  _, values = kept.rows[-1]
  assert values["train/loss"] == 2.0 and values["grad_norm/vit"] == values["train/learning_rate"] == 3.0


def test_memory_is_that_of_the_fullest_device(monkeypatch):
  class Device:
    def __init__(self, used):
      self.used = used

    def memory_stats(self):
      return {"peak_bytes_in_use": self.used, "bytes_limit": 100}

  monkeypatch.setattr(jax, "local_devices", lambda: [Device(40), Device(90)])
  assert metrics.device_memory() == {"peak_bytes": 90.0, "peak_share": 0.9}
