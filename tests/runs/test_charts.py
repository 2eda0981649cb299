import math

import pytest

from tests.runs import synthetic
from xmcap.runs import charts, history


def run_of(folder, rows):
  writer = synthetic.Writer(folder)
  writer.event(0, "started")
  for step, values in rows:
    writer.write(step, values, 10)
  return history.read_runs([str(folder)], synthetic.START)[0][0]


def test_of_many_points_the_extremes_stay(tmp_path):
  rows = [(step, {"a": math.sin(step / 700)}) for step in range(1, 5001)]
  rows[2345] = (2346, {"a": 50.0})
  rows[4000] = (4001, {"a": -50.0})
  steps, values = charts.points(run_of(tmp_path, rows), "a")
  assert len(steps) <= charts.MAX_POINTS + 2 and steps == sorted(steps)
  assert (steps[0], steps[-1]) == (1, 5000) and max(values) == 50 and min(values) == -50


def test_what_was_not_finite_stays_a_gap(tmp_path):
  rows = [(step, {"a": None if 1000 <= step < 2000 else 1.0}) for step in range(1, 3001)]
  steps, values = charts.points(run_of(tmp_path, rows), "a")
  assert None in values[100:250]


def test_shares_of_a_run_weigh_each_report_by_its_time(tmp_path):
  rows = [(10, {"time/waiting_for_data": 1.0, "time/evaluating": 0.0})]
  rows += [(step, {"time/waiting_for_data": 0.0, "time/evaluating": 0.5}) for step in (20, 30, 40)]
  _, _, means = charts.shares(run_of(tmp_path, rows))
  assert means["waiting_for_data"] == pytest.approx(0.25) and means["evaluating"] == pytest.approx(0.375)


def test_a_chart_of_nothing_is_not_shown(tmp_path):
  run = run_of(tmp_path, [(10, {"train/loss": 1.0, "train/skipped": 0.0, "grad_norm/vit": 2.0})])
  sections = charts.sections([run], [])
  assert [chart.curve for chart in sections["learning"]] == ["train/loss"] and sections["speed"] == []
  assert {part: [chart.title for chart in shown] for part, shown in charts.norms([run]).items()} == {
    "vit": ["gradient"]
  }
