"""The options of `xmcap train` that train nothing."""

import gin
import pytest

from xmcap import cli


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def test_dry_run_needs_gin_files(capsys):
  assert cli.main(["train", "--dry_run"]) == 2
  assert "needs gin files" in capsys.readouterr().err


def test_explain_prints_and_checks_nothing(capsys):
  assert (
    cli.main(
      ["train", "--gin_file=models/bb.gin", "--gin_file=runs/train_coco35l.gin", "--dry_run", "--explain"]
    )
    == 0
  )
  out = capsys.readouterr().out
  assert "INITIAL_CHECKPOINT = ()" in out and "FAILED" not in out


def test_dry_run_of_a_run_without_data_fails_in_lines(tmp_path, capsys):
  code = cli.main(
    [
      "train",
      "--gin_file=models/tiny.gin",
      "--gin_file=runs/train_coco35l.gin",
      f"--gin.DATA_DIR={tmp_path}",
      "--dry_run",
    ]
  )
  printed = capsys.readouterr()
  assert code == 2 and "FAILED  vocabulary: " in printed.out and "Traceback" not in printed.err
  assert printed.err.splitlines()[-1].startswith("xmcap: error: dry run: ")
