"""The names of a run's numbers: those that are written are explained."""

import json
import re

from tests.training.test_loop import Evaluator, run
from xmcap.training.reporting.metric_names import NAMES

_PATTERNS = [re.sub(r"[A-Z]+", "[^/]+", name) for names in NAMES for name in names.split(", ")]


def test_all_numbers_of_a_run_are_explained(tmp_path):
  run(tmp_path, evaluators=[Evaluator()], eval_every=7)
  rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
  written = {name for row in rows for name in row if "/" in name}
  assert {"train/loss", "train/weight", "eval/cider/en", "goodput/steps", "speed/step_seconds_p50"} <= written
  assert not [name for name in written if not any(re.fullmatch(pattern, name) for pattern in _PATTERNS)]


def test_names_are_explained_once():
  names = [name for names in NAMES for name in names.split(", ")]
  assert len(names) == len(set(names)) and all(NAMES.values())
