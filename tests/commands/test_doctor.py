"""`xmcap doctor`: its report on simulated machines and installs."""

import json
import os
import pathlib

import pytest
import yaml

from tests import absent, setup_py
from tests.make.command import xmcap, xmcap_without
from xmcap import extras, platforms
from xmcap.commands import doctor
from xmcap.errors import UsageError
from xmcap.files import buckets

ROOT = pathlib.Path(__file__).parents[2]
_OF_DEVELOPERS = {"all", "test", "docs", "types", "parity"}


@pytest.fixture
def machine(monkeypatch):
  """No program is started, and jax answers at once."""
  monkeypatch.setattr(doctor, "_first_lines", lambda words: [f"{words[0]} 1.0"])
  monkeypatch.setattr(doctor, "device", lambda: {"platform": "tpu", "kinds": ["TPU v4"] * 4})


def test_doctor_output_fits_80_columns(machine, monkeypatch):
  monkeypatch.setenv("XLA_FLAGS", "--xla_x=" + "1" * 100)
  lines = xmcap("doctor").succeeded().out.splitlines()
  assert len(lines) <= 24 and max(map(len, lines)) <= 80
  heads = {line[:10].strip() for line in lines}
  assert {"xmcap", "Python", "extras", "device", "machine", "disk", "Java", "Chromium", "settings"} <= heads
  assert "device    tpu: 4 x TPU v4" in lines


def test_doctor_json_output(machine):
  found = json.loads(xmcap("doctor", "--json").succeeded().out)
  assert found["packages"]["numpy"] and found["extras"]["train"] == [] and "bucket" not in found
  assert found["device"]["kinds"] == ["TPU v4"] * 4 and found["java"] == "java 1.0"
  assert set(found["free_disk"]) >= {os.getcwd()}


def test_doctor_checks_that_a_bucket_is_writable(machine, monkeypatch):
  asked = []
  monkeypatch.setattr(buckets, "check_writable", asked.append)
  xmcap("doctor", "--bucket=gs://bucket-b/runs").succeeded("bucket    gs://bucket-b/runs: a run can write")
  assert asked == ["gs://bucket-b/runs"]

  def refuse(address):
    raise UsageError("gs://b: storage.objects.create is missing")

  monkeypatch.setattr(buckets, "check_writable", refuse)
  refused = xmcap("doctor", "--bucket=gs://bucket-b/runs")
  refused.refused("xmcap: error: gs://bucket-b/runs: a run cannot write there, see above")
  assert "storage.objects.create is missing" in refused.out


@pytest.mark.parametrize(
  "code, problem",
  [
    ("import sys; sys.exit('RuntimeError: no driver')", "jax does not start: RuntimeError: no driver"),
    ("import os; os._exit(3)", "jax does not start: it ended with status 3"),
    ("import time; time.sleep(60)", "jax does not answer within 0.5 s"),
  ],
)
def test_doctor_reports_a_failing_or_hanging_jax(monkeypatch, code, problem):
  monkeypatch.setattr(doctor, "_ASK_JAX", code)
  monkeypatch.setattr(doctor, "_JAX_SECONDS", 0.5 if "sleep" in code else 120)
  assert doctor.device()["problem"].startswith(problem)


def test_doctor_works_without_training_packages():
  call = ["doctor", "--bucket=gs://bucket-b/runs", "--json"]
  (result,) = xmcap_without(absent.beyond(setup_py.scoring()), call)
  found = json.loads(result.out)
  assert result.code == 2 and found["device"] == {"problem": "unknown without jax"}
  assert "jax" in found["extras"]["train"] and "needs the extra train" in found["bucket"]["refused"]


def test_doctor_extras_equal_setup_py(monkeypatch):
  assert set(extras.MODULES) | set(extras.OPTIONS) == set(setup_py.extras()) - _OF_DEVELOPERS
  monkeypatch.setattr(platforms, "cuda_installed", lambda: True)
  assert doctor.missing("cuda") == []  # whichever of its plugins is there


def test_issue_templates_ask_for_doctor_output():
  forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
  assert [form.name for form in forms] == ["bug.yml", "config.yml", "question.yml"]
  for form in forms:
    held = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.name != "config.yml":
      assert {"name", "description", "body"} <= held.keys()
      asked = {field["id"]: field["attributes"] for field in held["body"] if "id" in field}
      assert "`xmcap doctor`" in asked["doctor"]["description"]
