"""`xmcap train` and `eval`: --dry_run, --explain, start options and exit codes."""

import types

import pytest

from tests.make.command import xmcap
from xmcap.dry_run import run as dry_run
from xmcap.errors import RestartError, UsageError, XmcapError
from xmcap.evaluation import model_dir
from xmcap.training import loop


def test_train_dry_run_needs_gin_files():
  xmcap("train", "--dry_run").refused("needs gin files")


def test_train_explain_prints_without_checks():
  files = ["--gin_file=models/bb.gin", "--gin_file=runs/train_coco35l.gin"]
  printed = xmcap("train", *files, "--dry_run", "--explain").succeeded("PRETRAINED = ()")
  assert "FAILED" not in printed.out


def test_train_dry_run_without_data_reports_problems(tmp_path):
  refused = xmcap(*TRAIN, f"--gin.DATA_DIR={tmp_path}", "--dry_run").refused("xmcap: error: dry run: ")
  assert "FAILED  vocabulary: " in refused.out


TRAIN = ["train", "--gin_file=models/tiny.gin", "--gin_file=runs/train_coco35l.gin"]


@pytest.mark.parametrize(
  "outcome, code, line",
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
def test_train_exit_codes(monkeypatch, outcome, code, line):
  def train(**_):
    if isinstance(outcome, Exception):
      raise outcome
    return outcome

  monkeypatch.setattr(model_dir, "check_model_dir", lambda: None)
  monkeypatch.setattr(loop, "train", train)
  result = xmcap(*TRAIN)
  assert result.code == code and result.err.startswith(line)


@pytest.mark.parametrize(("options", "step"), [([], None), (["--step=7"], 7)])
def test_eval_step_option(monkeypatch, options, step):
  asked = []
  monkeypatch.setattr(model_dir, "parse", lambda *_: None)
  monkeypatch.setattr(model_dir, "evaluate", lambda step=None: asked.append(step))
  xmcap("eval", "--model_dir=runs/any", *options).succeeded()
  assert asked == [step]


@pytest.mark.parametrize("options", [["--num_processes=2"], ["--process_id=0", "--num_processes=2"]])
def test_train_distributed_options_are_all_or_none(options):
  xmcap(*TRAIN, *options).refused("give all three of --coord")


@pytest.mark.parametrize(
  "given", [[], ["--from_scratch"], ["--other_data"], ["--from_scratch", "--other_data"]]
)
def test_train_start_options_reach_run_dry_run_and_processes(monkeypatch, given):
  asked = []

  def noted(start=None, **arguments):
    allowed = vars(start) if start else arguments
    asked.append({name: allowed[name] for name in ("from_scratch", "other_data")})
    return types.SimpleNamespace(finished=True, message="")

  monkeypatch.setattr(model_dir, "check_model_dir", lambda: None)
  monkeypatch.setattr(loop, "train", noted)
  monkeypatch.setattr(dry_run, "dry_run", noted)
  for more in ([], ["--dry_run"]):
    xmcap(*TRAIN, *given, *more).succeeded()
  wanted = {"from_scratch": "--from_scratch" in given, "other_data": "--other_data" in given}
  assert asked == [wanted] * 2
  launched = xmcap("launch", "local", "--processes=2", "--dry_run", "--", *TRAIN, *given).succeeded()
  commands = [line for line in launched.out.splitlines() if " train " in line]
  assert len(commands) == 2 and all(option in line for line in commands for option in given)


def test_train_start_options_are_not_gin_parameters():
  xmcap(*TRAIN, "--gin.train.from_scratch=True").refused("from_scratch")
