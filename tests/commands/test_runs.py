"""`xmcap runs`: the table of training runs."""

import subprocess
import sys

import pytest

from tests.training.reporting import synthetic
from xmcap import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("runs")
  synthetic.captioner(folder / "done", 0, 4_000, 4_000, ends="finished")
  synthetic.captioner(folder / "broken", 1, 2_000, 4_000, ends="failed")
  (folder / "old/tensorboard").mkdir(parents=True)
  return folder


def test_runs_prints_a_table(folder, capsys):
  assert cli.main(["runs", str(folder), str(folder / "old")]) == 0
  out, err = capsys.readouterr()
  assert out.splitlines()[0].split()[:4] == ["run", "state", "step", "loss"]
  assert "broken failed: step 2000: loss or gradient was not finite" in out
  assert "old: no metrics.jsonl" in err


@pytest.mark.parametrize(
  "arguments, said",
  [(["none"], "none: no metrics.jsonl"), (["old"], "give the MODEL_DIR of a run")],
)
def test_runs_usage_errors_are_one_line(folder, capsys, arguments, said):
  code = cli.main(["runs", str(folder / arguments[0]), *arguments[1:]])
  error = capsys.readouterr().err
  assert code == 2 and said in error and error.count("\n") == 1


def test_runs_needs_no_jax_or_tensorflow(folder):
  script = (
    "import sys; sys.modules['jax'] = sys.modules['tensorflow'] = None\n"
    "from xmcap import cli\n"
    f"sys.exit(cli.main(['runs', {str(folder)!r}]))"
  )
  result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
  assert result.returncode == 0, result.stderr
