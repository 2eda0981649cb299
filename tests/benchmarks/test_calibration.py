"""Calibration of the planner on a chip, from a simulated measurement."""

import importlib
import json

import pytest

from benchmarks import all as benchmarks
from xmcap.errors import XmcapError
from xmcap.planning import topologies

_STEP = {
  "topology": "h100", "model": "bb", "variant": "default", "microbatches": 1, "captions_per_image": 1, "captions": 128,
  "tokens": 32, "step_ms": 50.0, "model_tflop": 20.0, "xla_gb": 60.0, "peak_bytes": 10 << 30, "peak_is_own": True,
}  # fmt: skip
_MEASURED = {
  "device": {
    "date": "2027-01-02", "topology": "h100", "gpu": "NVIDIA H100 80GB HBM3", "jax": "0.12.1", "product_tflops": 800.0,
    "copy_gb_per_second": 3000.0,
  },
  "training": [
    _STEP,
    {**_STEP, "variant": "plain_attention", "step_ms": 40.0},
    # One that failed.
    {name: _STEP[name] for name in ("model", "variant", "microbatches", "captions_per_image", "tokens")}
    | {"captions": 512, "error": "RESOURCE_EXHAUSTED: out of memory"},
    {**_STEP, "captions_per_image": 8, "step_ms": 30.0, "xla_gb": None, "peak_is_own": False},
  ],
  "plan": [
    {"captions_per_image": k, "captions": 128, "tokens": 32, "variant": "default", "microbatches": 1,
     "memory": {"total": 9 << 30}}
    for k in (1, 8)
  ],
}  # fmt: skip
_H100 = topologies.parse("h100-8")


@pytest.fixture
def calibration(monkeypatch):
  monkeypatch.syspath_prepend(str(benchmarks.ROOT / "benchmarks" / "gpu"))
  return importlib.import_module("calibration")


@pytest.fixture
def folder(monkeypatch, tmp_path, calibration):
  monkeypatch.setattr(calibration, "_FOLDER", tmp_path)
  return tmp_path


def test_calibration_of_an_unmeasured_chip_is_none(folder, calibration):
  (folder / "h200.json").write_text(json.dumps(_MEASURED))
  (folder / "v4.json").write_text(json.dumps(_MEASURED))
  assert calibration.of(_H100) is calibration.of(topologies.parse("v4-128")) is None


def test_calibration_error_of_each_term(folder, calibration):
  (folder / "h100.json").write_text(json.dumps(_MEASURED))
  found = calibration.of(_H100)
  assert (found["device"], found["date"], found["jax"]) == ("NVIDIA H100 80GB HBM3", "2027-01-02", "0.12.1")
  terms = {term["term"]: term for term in found["terms"]}
  step = "bb, 128 captions of 32 tokens, K = 1"
  assert list(terms) == ["arithmetic", "memory traffic", f"memory, {step}", f"overlap, {step}"]
  # At 800 of 989.5 Tflop/s, products take longer than planned.
  assert terms["arithmetic"]["error"] == pytest.approx([800 / 989.5 - 1] * 2)
  assert terms["memory traffic"]["error"] == pytest.approx([3.0 / 3.35 - 1] * 2)
  assert terms[f"memory, {step}"]["error"] == pytest.approx([-0.1] * 2)
  # 20 Tflop at the measured rate take 25 ms, 60 GB take 20 ms; the step took 50.
  assert terms[f"overlap, {step}"]["planned"] == pytest.approx([0.025, 0.045])
  assert terms[f"overlap, {step}"]["error"] == pytest.approx([-0.5, -0.1])


def test_calibration_text(folder, calibration):
  (folder / "h100.json").write_text(json.dumps(_MEASURED))
  said = calibration.text(calibration.of(_H100))
  assert said.startswith("Compared with one NVIDIA H100 80GB HBM3 on 2027-01-02, jax 0.12.1")
  rows = [line.split("  ") for line in said.splitlines()]
  cells = {row[0]: [cell.strip() for cell in row[1:] if cell] for row in rows if row[0]}
  assert cells["arithmetic"] == ["989.50 T/s", "800.00 T/s", "-19%"]
  step = "bb, 128 captions of 32 tokens, K = 1"
  assert cells[f"memory, {step}"] == ["9.00 GiB", "10.00 GiB", "-10%"]
  assert cells[f"overlap, {step}"] == ["25.00 to 45.00 ms", "50.00 ms", "-50% to -10%"]


@pytest.mark.parametrize(
  "text",
  [
    "{",
    '{"device": {}}',
    json.dumps({**_MEASURED, "training": [{**_STEP, "step_ms": 0}]}),
    json.dumps({**_MEASURED, "device": {**_MEASURED["device"], "product_tflops": "many"}}),
  ],
)
def test_malformed_calibration_json_is_refused(folder, calibration, text):
  (folder / "h100.json").write_text(text)
  with pytest.raises(XmcapError, match=r"h100\.json: no measurement as benchmarks/gpu writes it") as raised:
    calibration.of(_H100)
  assert "\n" not in str(raised.value)
