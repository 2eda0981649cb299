"""`xmcap launch`: its options and errors, and `launch local`."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.launch import stubs
from tests.make.command import xmcap

ROOT = pathlib.Path(__file__).parents[2]

_PLACE = ["--name=bb", "--project=my-project", "--zone=us-central2-b"]


@pytest.mark.parametrize(
  ("words", "message"),
  [
    (["tpu-vm", "--name=bb", "--zone=us-central2-b", "--", "train"], "--project"),
    (["tpu-vm", "--name=bb", "--project=my-project", "--", "train"], "--zone"),
    (["xpk", "--name=bb", "--cluster=c", "--", "train"], "--project, --zone"),
    (["tpu-vm", *_PLACE, "--accelerator_type=v4-8", "--install=xmcap"], "there is no command after --"),
    (["tpu-vm", *_PLACE, "--accelerator_type=v4-8", "--", "train"], "--install"),
    (["tpu-vm", *_PLACE, "--install=xmcap", "--", "train"], "--accelerator_type"),
    (["tpu-vm", *_PLACE, "--action=stop", "--", "train"], "--action=stop: give no command"),
    (["tpu-vm", *_PLACE, "--action=destroy"], "invalid choice"),
    (["tpu-vm", *_PLACE, "--action=logs", "--worker=1,2"], "--worker=1,2"),
    (
      ["tpu-vm", *_PLACE, "--install=xmcap", "--accelerator_type=v4-8", "--wait=nan", "--", "train"],
      "--wait=nan",
    ),
    (
      [
        "tpu-vm",
        *_PLACE,
        "--install=xmcap",
        "--accelerator_type=v4-8",
        "--price=-1",
        "--unchecked",
        "--",
        "train",
      ],
      "--price=-1",
    ),
    (["tpu-vm", *_PLACE, "--install=xmcap", f"--accelerator_type=v4-{'9' * 5000}", "--", "train"], "v4-99"),
    (["xpk", *_PLACE, "--cluster=c", "--docker_image=a/b", "--", "train"], "--tpu_type"),
    (["xpk", *_PLACE, "--cluster=c", "--tpu_type=v4-8", "--", "train"], "--docker_image"),
    (["xpk", *_PLACE, "--cluster=C", "--", "train"], "--cluster=C"),
    (["slurm", "--name=bb", "--nodes=0", "--", "train"], "--nodes=0"),
    (["local", "--processes=2", "--", "score"], "'score' is not a command for many hosts"),
    (["local", "--processes=two", "--", "train"], "--processes"),
    (["local", "--procesess=2", "--", "train"], "--processes"),
    (["local", "--processes=2", "--env=1=2", "--", "train"], "--env=1=2"),
    (["nowhere"], "invalid choice"),
  ],
)
@pytest.mark.parametrize("dry", [[], ["--dry_run"]])
def test_launch_usage_errors_are_one_line_and_start_nothing(words, message, dry, monkeypatch, tmp_path):
  monkeypatch.setenv("PATH", str(tmp_path))  # Nothing can be run by mistake.
  refused = xmcap("launch", *words[:1], *dry, *words[1:]).refused(message)
  assert refused.out == "" and refused.err.count("\n") == 1


@pytest.mark.parametrize("code", [2, 75])
def test_launch_local_exits_with_the_code_of_the_run(code, tmp_path):
  program = stubs.program(tmp_path / "program", f"#!/bin/sh\nexit {code}\n")
  result = xmcap("launch", "local", "--processes=1", f"--program={program}", "--", "train")
  assert result.code == code and f"exit code {code}" in result.err


def test_launch_local_passes_options_and_variables(tmp_path):
  program = stubs.program(tmp_path / "program", '#!/bin/sh\nprintf "%s|" "$A" "$@"\n')
  arguments = ["train", "--gin_file=a b", "--processes=7"]
  result = xmcap("launch", "local", "--processes=1", "--env=A=b c", f"--program={program}", "--", *arguments)
  assert result.succeeded().out == "[0] b c|train|--gin_file=a b|--processes=7|--num_processes=1|\n"


def test_launch_local_runs_the_installed_xmcap(tmp_path):
  """A clone has such a folder, which lacks what an install adds."""
  (tmp_path / "xmcap").mkdir()
  (tmp_path / "xmcap/__init__.py").write_text("raise ImportError('the folder of the clone')")
  command = [sys.executable, "-P", "-m", "xmcap.cli", "launch", "local", "--processes=1"]
  done = subprocess.run(
    [*command, "--", "train", "--help"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    capture_output=True, text=True, check=False,
  )  # fmt: skip
  assert done.returncode == 0 and "[0] usage: xmcap train" in done.stdout, done.stderr


def test_launch_local_runs_xmcap_train():
  printed = xmcap("launch", "local", "--processes=1", "--", "train", "--help").succeeded().out
  assert "[0] usage: xmcap train" in printed.replace("cli.py", "xmcap")
