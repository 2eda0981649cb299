import pytest

from tests.training.reporting import synthetic
from xmcap.training.reporting import history, summary


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  folder = tmp_path_factory.mktemp("runs")
  now = synthetic.four(folder)
  return history.read_runs([str(folder)], now)[0]


def rows(runs):
  grid = summary.table(runs)
  return {row[0]: dict(zip(grid.headings, row, strict=True)) for row in grid.body}


def test_summary_table_has_last_and_best_values(runs):
  assert summary.table(runs).headings[-2:] == ("cider_d", "validation/loss")
  found = rows(runs)
  done, failed = found["bb-cc3m-k1"], found["bb-lr1e-3"]
  assert done["state"] == "finished" and done["step"] == "20,000" and done["MFU"].endswith("%")
  assert failed["step"] == "7,200 of 20,000" and failed["cider_d"].endswith("@ 4,000)")
  by_name = {run.name: run for run in runs}
  assert done["loss"] == f"{by_name['bb-cc3m-k1'].last('train/loss'):.4f}"


def test_summary_leaves_out_empty_columns(tmp_path):
  writer = synthetic.Writer(tmp_path / "a")
  writer.event(0, "started", total_steps=10)
  writer.write(5, {"train/loss": 1.0, "speed/pictures_per_second": 3.25})
  runs, _ = history.read_runs([str(tmp_path / "a")], synthetic.START)
  assert summary.table(runs).headings == ("run", "state", "step", "loss", "pictures/s")
  assert rows(runs)["a"]["pictures/s"] == "3.25"


def test_summary_drops_the_fourth_metric_in_a_narrow_terminal(tmp_path):
  writer = synthetic.Writer(tmp_path / "a")
  writer.write(5, {"train/loss": 1.0, **{f"eval/{name}": 0.5 for name in ("bleu", "chrf", "rouge", "cider")}})
  runs, _ = history.read_runs([str(tmp_path / "a")], synthetic.START)
  grid = summary.table(runs)
  assert grid.headings[3:] == ("loss", "cider", "bleu", "chrf", "rouge")
  wide = len(grid.text().splitlines()[0])
  assert grid.text(columns=wide - 1).splitlines()[0].split()[3:] == ["loss", "cider", "bleu", "chrf"]


def counted(folder):
  """A run that was started twice: 6 of 8 hours in steps."""
  writer = synthetic.Writer(folder)
  for step in (0, 10):
    writer.event(step, "started", total_steps=20)
    writer.write(
      step, {"goodput/seconds": 3600.0 * (step + 1), "goodput/steps": 0.0, "goodput/starting": 1.0}
    )
  writer.write(
    20, {"goodput/seconds": 28_800.0, "goodput/steps": 0.75, "goodput/down": 0.2, "goodput/lost": 0.05}
  )
  return history.read_runs([str(folder)], synthetic.START)[0][0]


def test_goodput_table_sums_all_starts_of_a_run(tmp_path):
  run = counted(tmp_path / "a")
  grid = summary.goodput([run])
  assert grid.headings[:5] == ("run", "hours", "starts", "steps", "lost")
  row = dict(zip(grid.headings, grid.body[0], strict=True))
  assert (row["hours"], row["starts"], row["steps"], row["lost"], row["down"]) == (
    "8.0",
    "2",
    "75.0%",
    "5.0%",
    "20.0%",
  )
  assert rows([run])["a"]["goodput"] == "75.0%"


def test_goodput_table_is_none_without_counts(runs):
  assert summary.goodput(runs) is None


def test_state_of_a_silent_run_in_hours(tmp_path):
  writer = synthetic.Writer(tmp_path / "a")
  writer.event(0, "started", total_steps=10)
  (run,), _ = history.read_runs([str(tmp_path / "a")], writer.now + 3 * 3600)
  assert summary.state(run) == "silent 3 h"


@pytest.mark.parametrize(
  "value, text", [(2.34567, "2.3457"), (0.0123456, "0.0123"), (12345.6, "12,346"), (0.0, "0.0000")]
)
def test_summary_number_format(value, text):
  assert summary.number(value) == text
