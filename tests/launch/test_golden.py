"""Golden output of `xmcap launch --dry_run`, checked by bash and shellcheck.

`golden.txt` holds the first case of a launcher in full, and of the others the lines in which they differ from it.
To accept a change: XMCAP_WRITE_GOLDEN=1 pytest tests/launch/test_golden.py, then read the difference.
"""

import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.make.command import xmcap
from xmcap.launch import scripts

GOLDEN = pathlib.Path(__file__).parent / "golden.txt"
_TPU_VM = ["tpu-vm", "--name=bb", "--project=my-project", "--zone=us-central2-b"]
_XPK = ["xpk", *_TPU_VM[1:], "--cluster=pod"]
_PACKAGE = "--install=git+https://github.com/example/xmcap@v1"
_TRAIN = [
  "train",
  "--gin_file=models/bb.gin",
  "--gin_file=runs/train_coco35l.gin",
  "--gin.MODEL_DIR=gs://my-bucket/runs/bb",
  "--gin.PRETRAINED=['gs://my-bucket/mt5-base', 'gs://my-bucket/vit-b16']",
]

CASES = {
  "tpu_vm run": [*_TPU_VM, "--accelerator_type=v4-128", _PACKAGE, "--", *_TRAIN],
  "tpu_vm run, spot": [
    *[*_TPU_VM, "--accelerator_type=v4-128", "--queued", "--spot", _PACKAGE],
    *["--env=LIBTPU_INIT_ARGS=--a=1 --b=2", "--files=gs://my-bucket/inputs", "--restart=3", "--", *_TRAIN],
  ],
  "tpu_vm run, slices": [
    *[*_TPU_VM, "--accelerator_type=v5e-256", "--queued", "--reserved", "--num_slices=2"],
    *["--gcloud_create=--internal-ips", "--gcloud_ssh=--internal-ip", "--gcloud_create=--network=net"],
    *["--service_account=worker@my-project.iam.gserviceaccount.com"],
    *[_PACKAGE, "--", *_TRAIN],
  ],
  "tpu_vm run, secrets": [
    *[*_TPU_VM, "--accelerator_type=v4-128", "--secret=WANDB_API_KEY=sm://wandb"],
    *["--gcloud_create=--labels=team=x", "--gcloud_ssh=--tunnel-through-iap", "--delete_when_done"],
    *["--delete_after=48", _PACKAGE, "--", *_TRAIN],
  ],
  "tpu_vm run, disk": [
    *[*_TPU_VM, "--accelerator_type=v4-128", "--queued", "--data_disk=records", _PACKAGE],
    *["--", "train", "--gin_file=runs/pretrain_cc3m35l.gin", "--gin.DATA_DIR=/mnt/disks/records/cc3m35l"],
  ],
  "tpu_vm logs": [*_TPU_VM, "--action=logs", "--worker=3"],
  "tpu_vm status": [*_TPU_VM, "--action=status"],
  "tpu_vm status, price": [*_TPU_VM, "--action=status", "--price=3.22"],
  "tpu_vm stop": [*_TPU_VM, "--action=stop"],
  "tpu_vm delete": [*_TPU_VM, "--action=delete", "--queued"],
  "xpk run": [*_XPK, "--tpu_type=v4-128", "--docker_image=gcr.io/my-project/xmcap:1", "--", *_TRAIN],
  "xpk run, gpu": [
    *[*_XPK, "--xpk_create=--device-type=h100-80gb-8", "--xpk_create=--num-nodes=4", "--env=A=b c"],
    *[
      "--xpk_create=--base-docker-image=gcr.io/my-project/base:1",
      "--xpk_create=--priority=high",
      "--",
      *_TRAIN,
    ],
  ],
  "xpk status": [*_XPK, "--action=status"],
  "xpk delete": [*_XPK, "--action=delete"],
  "slurm run": [
    *["slurm", "--name=bb", "--nodes=8", "--gpus_per_node=8", "--sbatch=--mem=800G"],
    *["--time=2-00:00:00", "--partition=gpu", "--sbatch=--comment=a b"],
    *["--program=/scratch/venv/bin/xmcap", "--", *_TRAIN],
  ],
  "slurm run, cpu": ["slurm", "--name=bb", "--nodes=2", "--restart=0", "--env=A=b c", "--", *_TRAIN],
}


@pytest.fixture(scope="module")
def shellcheck():
  """The program, from the test extra."""
  found = shutil.which("shellcheck", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
  assert found, "shellcheck is missing: pip install -e '.[test]'"
  return found


@pytest.fixture(scope="module")
def printed():
  """What each case prints."""
  texts = {}
  for case, (where, *rest) in CASES.items():
    unchecked = ["--unchecked"] if "--" in rest else []
    text = xmcap("launch", where, "--dry_run", *unchecked, *rest).succeeded().out
    texts[case] = re.sub(r"\b1[0-9]{9}\b", "1800000000", text)  # when the slice deletes itself
  return texts


def test_launch_dry_run_output_equals_golden_file(printed):
  parts = []
  for case, text in printed.items():
    first = case.partition(",")[0]
    if first == case:
      parts.append(f"===== {case}\n{text}")
    else:
      lines = difflib.unified_diff(printed[first].splitlines(), text.splitlines(), n=0, lineterm="")
      parts.append("\n".join([f"===== {case}: differences", *list(lines)[2:], ""]))
  if os.environ.get("XMCAP_WRITE_GOLDEN"):
    GOLDEN.write_text("".join(parts), encoding="utf-8")
  assert "".join(parts) == GOLDEN.read_text(encoding="utf-8")


def test_launch_dry_run_output_passes_shellcheck(printed, shellcheck, tmp_path):
  for number, text in enumerate(printed.values()):
    (tmp_path / f"{number}.sh").write_text(text, encoding="utf-8")
  # Below warnings it notes that single quotes keep bash from expanding, which is what they are for.
  done = subprocess.run(
    [shellcheck, "--shell=bash", "--severity=warning", *tmp_path.iterdir()],
    capture_output=True, text=True, check=False,
  )  # fmt: skip
  assert (done.returncode, done.stdout) == (0, "")


def test_slurm_batch_scripts_pass_shellcheck(printed, shellcheck):
  for case in ("slurm run", "slurm run, cpu"):
    script = "".join(printed[case].splitlines(keepends=True)[1:-1])
    done = subprocess.run([shellcheck, "-"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_tpu_vm_scripts_pass_shellcheck(shellcheck):
  files = sorted(scripts.folder().glob("tpu_vm_*.sh"))
  done = subprocess.run([shellcheck, *files], capture_output=True, text=True, check=False)
  assert len(files) == 9 and (done.returncode, done.stdout) == (0, "")
