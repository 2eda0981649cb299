"""`xmcap train` and `eval`: --dry_run, --explain, start options and exit codes."""

import types

import gin
import pytest

from xmcap import cli
from xmcap.dry_run import run as dry_run
from xmcap.errors import RestartError, UsageError, XmcapError
from xmcap.evaluation import model_dir
from xmcap.training import loop


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def test_train_dry_run_needs_gin_files(capsys):
  assert cli.main(["train", "--dry_run"]) == 2
  assert "needs gin files" in capsys.readouterr().err


def test_train_explain_prints_without_checks(capsys):
  assert (
    cli.main(
      ["train", "--gin_file=models/bb.gin", "--gin_file=runs/train_coco35l.gin", "--dry_run", "--explain"]
    )
    == 0
  )
  out = capsys.readouterr().out
  assert "PRETRAINED = ()" in out and "FAILED" not in out


def test_train_dry_run_without_data_reports_problems(tmp_path, capsys):
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


TRAIN = ["train", "--gin_file=models/tiny.gin", "--gin_file=runs/train_coco35l.gin"]


@pytest.mark.parametrize(
  "result, code, line",
  [
    (types.SimpleNamespace(finished=True, message=""), 0, ""),
    (
      types.SimpleNamespace(finished=False, message="stopped by SIGTERM at step 3"),
      75,
      "xmcap: restart needed: stopped by SIGTERM at step 3\n",
    ),
    (
      types.SimpleNamespace(finished=False, message="stopped by SIGINT at step 3"),
      130,
      "xmcap: stopped by the",
    ),
    (RestartError("no data"), 75, "xmcap: restart needed: no data\n"),
    (XmcapError("disk full"), 1, "xmcap: error: disk full\n"),
    (UsageError("no such"), 2, "xmcap: error: no such\n"),
  ],
)
def test_train_exit_codes(monkeypatch, capsys, result, code, line):
  def train(**_):
    if isinstance(result, Exception):
      raise result
    return result

  monkeypatch.setattr(model_dir, "check_model_dir", lambda: None)
  monkeypatch.setattr(loop, "train", train)
  assert cli.main(TRAIN) == code
  assert capsys.readouterr().err.startswith(line)


@pytest.mark.parametrize(("options", "step"), [([], None), (["--step=7"], 7)])
def test_eval_step_option(monkeypatch, options, step):
  asked = []
  monkeypatch.setattr(model_dir, "parse", lambda *_: None)
  monkeypatch.setattr(model_dir, "evaluate", lambda step=None: asked.append(step))
  assert cli.main(["eval", "--model_dir=runs/any", *options]) == 0
  assert asked == [step]


@pytest.mark.parametrize("options", [["--num_processes=2"], ["--process_id=0", "--num_processes=2"]])
def test_train_distributed_options_are_all_or_none(capsys, options):
  assert cli.main([*TRAIN, *options]) == 2
  assert "give all three of --coord" in capsys.readouterr().err


@pytest.mark.parametrize(
  "given", [[], ["--from_scratch"], ["--other_data"], ["--from_scratch", "--other_data"]]
)
def test_train_start_options_reach_run_dry_run_and_processes(monkeypatch, capsys, given):
  asked = []

  def noted(start=None, **arguments):
    allowed = vars(start) if start else arguments
    asked.append({name: allowed[name] for name in ("from_scratch", "other_data")})
    return types.SimpleNamespace(finished=True, message="")

  monkeypatch.setattr(model_dir, "check_model_dir", lambda: None)
  monkeypatch.setattr(loop, "train", noted)
  monkeypatch.setattr(dry_run, "dry_run", noted)
  assert cli.main([*TRAIN, *given]) == 0 and cli.main([*TRAIN, *given, "--dry_run"]) == 0
  wanted = {"from_scratch": "--from_scratch" in given, "other_data": "--other_data" in given}
  assert asked == [wanted] * 2
  capsys.readouterr()
  assert cli.main(["launch", "local", "--processes=2", "--dry_run", "--", *TRAIN, *given]) == 0
  commands = [line for line in capsys.readouterr().out.splitlines() if " train " in line]
  assert len(commands) == 2 and all(option in line for line in commands for option in given)


def test_train_start_options_are_not_gin_parameters(capsys):
  assert cli.main([*TRAIN, "--gin.train.from_scratch=True"]) == 2
  assert "from_scratch" in capsys.readouterr().err
