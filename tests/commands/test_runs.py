"""`xmcap runs`: the table of training runs."""

import pytest

from tests.make.command import xmcap, xmcap_without
from tests.training.reporting import synthetic
from xmcap import languages, terminal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("runs")
  synthetic.captioner(folder / "done", 0, 4_000, 4_000, ends="finished")
  synthetic.captioner(folder / "broken", 1, 2_000, 4_000, ends="failed")
  (folder / "old/tensorboard").mkdir(parents=True)
  return folder


def test_runs_prints_a_table(folder):
  shown = xmcap("runs", folder, folder / "old").succeeded()
  assert shown.out.splitlines()[0].split()[:4] == ["run", "state", "step", "loss"]
  assert "done has the XLA flags --xla_a=1\n" in shown.out
  assert "broken failed: step 2000: loss or gradient was not finite" in shown.out
  assert "old: no metrics.jsonl" in shown.err


def test_runs_of_a_hundred_languages_fits_a_narrow_terminal(tmp_path, monkeypatch):
  rows = [(code, name, 0.5) for name in ("t2i_r1", "t2i_r5", "i2t_r1") for code in ("", *languages.WIDE)]
  values = {f"eval/validation/{name}{code and '/'}{code}": value for code, name, value in rows}
  synthetic.Writer(tmp_path / "e100").write(20, {"train/loss": 1.0, **values})
  monkeypatch.setattr(terminal, "columns", lambda: 70)
  lines = xmcap("runs", tmp_path / "e100").succeeded().out.splitlines()
  assert max(map(len, lines)) <= 70 and len(lines) < 12
  assert "validation/t2i_r5" in " ".join(lines)


@pytest.mark.parametrize(
  "name, message", [("none", "none: no metrics.jsonl"), ("old", "give the MODEL_DIR of a run")]
)
def test_runs_usage_errors_are_one_line(folder, name, message):
  assert xmcap("runs", folder / name).refused(message).err.count("\n") == 1


def test_runs_needs_no_jax_or_tensorflow(folder):
  (result,) = xmcap_without(("jax", "tensorflow"), ["runs", folder])
  result.succeeded()
