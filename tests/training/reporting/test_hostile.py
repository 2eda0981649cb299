"""`xmcap runs` on hostile metrics files: a table or a one-line error, no traceback."""

import json
import math
import random
import re

import pytest

from tests.make.command import xmcap
from xmcap.training.reporting import goodput, metrics_file

STARTED = {"step": 0, "time": 1e9, "event": "started", "total_steps": 20, "devices": 2, "device_kind": "cpu"}
REPORT = {"step": 10, "time": 1e9 + 60, "train/loss": 2.0, "eval/cider": 0.5, "eval/cider/th": 0.4,
          "time/saving": 0.1, "goodput/seconds": 60.0, "goodput/steps": 0.9,
          "grad_norm/vit": 1.0, "speed/captions_per_second": 9.0}  # fmt: skip
VALUES = (
  "[" * 100_000, "9" * 4000, "9" * 5000, "1e999", "-1e308", "1e308", "NaN", "true", "-1", "0", "null", '""', "[]", "{}",
  '"' + "x" * 10_000 + '"', '"\\ud800"', '"\\u001b[2J\\n"', '{"a": [1, {"b": null}]}', "1e-320", "4" * 300,
)  # fmt: skip


def hostile(rng):
  """Lines of a run, some of whose values are others."""
  lines = []
  for row in (STARTED, *({**REPORT, "step": step, "time": 1e9 + step} for step in range(10, 60, 10))):
    texts = {json.dumps(name): json.dumps(value) for name, value in row.items()}
    for _ in range(rng.randrange(3)):
      texts[rng.choice([*texts, '"event"', '"eval/bleu/xx"', '"eval/"', '"\\u001b/mean"', '"time"'])] = (
        rng.choice(VALUES)
      )
    lines.append("{" + ", ".join(f"{name}: {text}" for name, text in texts.items()) + "}")
    if not rng.randrange(6):
      lines.append(rng.choice(VALUES))
  return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(40))
def test_runs_command_reads_hostile_metrics_files(tmp_path, seed):
  rng = random.Random(seed)
  for name in "ab":
    (tmp_path / name).mkdir()
    (tmp_path / name / "metrics.jsonl").write_text(hostile(rng))
  printed = xmcap("runs", tmp_path / "a", tmp_path / "b").succeeded().out
  rows = [row for row in metrics_file.read(tmp_path / "a") if row is not None]
  assert all(map(math.isfinite, goodput.carried(rows, 20, 2e9).values()))
  assert not re.search(r"\b(nan|inf|infinity)\b", printed, re.IGNORECASE)


@pytest.mark.parametrize("text", [b"\xff\xfe", b"[" * 100_000, b"{}\n" * 10, b""])
def test_runs_command_of_a_file_without_metrics_has_no_traceback(tmp_path, text):
  (tmp_path / "metrics.jsonl").write_bytes(text)
  assert xmcap("runs", tmp_path).succeeded().err.count("\n") <= 1


def test_runs_command_refuses_a_file_over_the_size_limit(tmp_path, monkeypatch):
  monkeypatch.setattr(metrics_file, "_MOST_BYTES", 10)
  (tmp_path / "metrics.jsonl").write_text(json.dumps(STARTED))
  xmcap("runs", tmp_path).refused("larger than 10 bytes", code=1)
