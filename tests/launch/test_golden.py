"""What --dry_run prints, byte by byte; and that bash and shellcheck find nothing wrong with it.

To accept a change: XMCAP_WRITE_GOLDEN=1 pytest tests/launch/test_golden.py, then read the difference.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from xmcap import cli
from xmcap.launch import scripts

GOLDEN = pathlib.Path(__file__).parent / "golden"
_PLACE = ["--project=my-project", "--zone=us-central2-b"]
_PACKAGE = "--install=git+https://github.com/example/xmcap@v1"
_TRAIN = [
  "train",
  "--gin_file=models/bb.gin",
  "--gin_file=runs/train_coco35l.gin",
  "--gin.MODEL_DIR=gs://my-bucket/runs/bb",
  "--gin.INITIAL_CHECKPOINT=['gs://my-bucket/mt5-base', 'gs://my-bucket/vit-b16']",
]

CASES = {
  "tpu_vm_run": ["tpu-vm", "--name=bb", *_PLACE, "--accelerator_type=v4-128", _PACKAGE, "--", *_TRAIN],
  "tpu_vm_run_spot": [
    *["tpu-vm", "--name=bb", *_PLACE, "--accelerator_type=v4-128", "--queued", "--spot", _PACKAGE],
    *["--env=LIBTPU_INIT_ARGS=--a=1 --b=2", "--files=gs://my-bucket/inputs", "--restart=3", "--", *_TRAIN],
  ],
  "tpu_vm_run_slices": [
    *[
      "tpu-vm",
      "--name=bb",
      *_PLACE,
      "--accelerator_type=v5e-256",
      "--queued",
      "--reserved",
      "--num_slices=2",
    ],
    *["--internal_ips", "--network=net", "--subnetwork=sub"],
    *["--service_account=worker@my-project.iam.gserviceaccount.com", _PACKAGE, "--", *_TRAIN],
  ],
  "tpu_vm_run_disk": [
    *[
      "tpu-vm",
      "--name=bb",
      *_PLACE,
      "--accelerator_type=v4-128",
      "--queued",
      "--data_disk=records",
      _PACKAGE,
    ],
    *["--", "train", "--gin_file=runs/pretrain_cc3m35l.gin", "--gin.DATA_DIR=/mnt/disks/records/cc3m35l"],
  ],
  "tpu_vm_logs": ["tpu-vm", "--action=logs", "--name=bb", *_PLACE, "--worker=3"],
  "tpu_vm_status": ["tpu-vm", "--action=status", "--name=bb", *_PLACE],
  "tpu_vm_stop": ["tpu-vm", "--action=stop", "--name=bb", *_PLACE],
  "tpu_vm_delete": ["tpu-vm", "--action=delete", "--name=bb", *_PLACE, "--queued"],
  "xpk_run": [
    *["xpk", "--name=bb", *_PLACE, "--cluster=pod", "--tpu_type=v4-128"],
    *["--docker_image=gcr.io/my-project/xmcap:1", "--", *_TRAIN],
  ],
  "xpk_run_gpu": [
    *["xpk", "--name=bb", *_PLACE, "--cluster=pod", "--device_type=h100-80gb-8", "--num_nodes=4"],
    *["--base_docker_image=gcr.io/my-project/base:1", "--env=A=b c", "--priority=high", "--", *_TRAIN],
  ],
  "xpk_status": ["xpk", "--action=status", "--name=bb", *_PLACE, "--cluster=pod"],
  "xpk_delete": ["xpk", "--action=delete", "--name=bb", *_PLACE, "--cluster=pod"],
  "slurm_run": [
    *["slurm", "--name=bb", "--nodes=8", "--gpus_per_node=8", "--cpus_per_task=12", "--mem=800G"],
    *["--time=2-00:00:00", "--partition=gpu", "--account=lab", "--qos=high", "--constraint=h100"],
    *["--chdir=/scratch/bb", "--log=logs/%x-%j.log", "--program=/scratch/venv/bin/xmcap", "--", *_TRAIN],
  ],
  "slurm_run_cpu": ["slurm", "--name=bb", "--nodes=2", "--restart=0", "--env=A=b c", "--", *_TRAIN],
}


@pytest.fixture(scope="module")
def shellcheck():
  """The program, from the test extra."""
  found = shutil.which("shellcheck", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
  assert found, "shellcheck is missing: pip install -e '.[test]'"
  return found


def _printed(case: str, capsys) -> str:
  where, *rest = CASES[case]
  assert cli.main(["launch", where, "--dry_run", *rest]) == 0
  return capsys.readouterr().out


@pytest.mark.parametrize("case", CASES)
def test_dry_run_is_as_before(case, capsys):
  printed = _printed(case, capsys)
  file = GOLDEN / f"{case}.sh"
  if os.environ.get("XMCAP_WRITE_GOLDEN"):
    file.write_text(printed, encoding="utf-8")
  assert printed == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_bash_can_read_it(case):
  done = subprocess.run(["bash", "-n", GOLDEN / f"{case}.sh"], capture_output=True, check=False)
  assert (done.returncode, done.stderr) == (0, b"")


def test_shellcheck_finds_nothing_in_the_dry_runs(shellcheck):
  # Below warnings it notes that single quotes keep bash from expanding, which is what they are for.
  files = [GOLDEN / f"{case}.sh" for case in CASES]
  done = subprocess.run(
    [shellcheck, "--shell=bash", "--severity=warning", *files], capture_output=True, text=True, check=False
  )
  assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("case", ["slurm_run", "slurm_run_cpu"])
def test_shellcheck_finds_nothing_in_the_batch_script(case, shellcheck):
  script = "".join((GOLDEN / f"{case}.sh").read_text(encoding="utf-8").splitlines(keepends=True)[1:-1])
  done = subprocess.run([shellcheck, "-"], input=script, capture_output=True, text=True, check=False)
  assert (done.returncode, done.stdout) == (0, "")


def test_shellcheck_finds_nothing_in_the_scripts(shellcheck):
  files = sorted(scripts.folder().glob("tpu_vm_*.sh"))
  done = subprocess.run([shellcheck, *files], capture_output=True, text=True, check=False)
  assert len(files) == 7 and (done.returncode, done.stdout) == (0, "")


def test_every_golden_file_has_its_case():
  assert {file.stem for file in GOLDEN.glob("*")} == set(CASES)
