"""Host memory for compiling, against measured figures; no compiler runs."""

import gin
import pytest

from tests.make.command import xmcap
from xmcap import configuration, platforms
from xmcap.planning import host, topologies
from xmcap.planning import run as run_lib

_BB = ["models/bb.gin", "runs/train_coco35l.gin"]


def _run(*bindings):
  gin.clear_config()
  configuration.parse(_BB, bindings)
  return run_lib.of_gin(topologies.parse("v4-128"))


def test_host_memory_estimate_is_near_measurements():
  run = _run()
  assert host.needed_bytes(run) == pytest.approx(11.3e9, rel=0.05)
  assert host.needed_bytes(run, 3) == pytest.approx(15.3e9, rel=0.05)
  assert host.needed_minutes(run, 3) == pytest.approx(21, abs=2)


def test_host_memory_is_less_for_short_and_scanned_stacks():
  short = _run("ViTConfig.depth=2", "T5Config.num_encoder_layers=2", "T5Config.num_decoder_layers=2")
  assert host.needed_bytes(short) == pytest.approx(4.13e9, rel=0.05)
  scanned = _run("ViTConfig.scan=True", "T5Config.scan=True")
  assert host.needed_bytes(scanned) < host.needed_bytes(short)


def test_plan_refuses_too_little_host_memory_before_compiling(monkeypatch):
  pytest.importorskip("libtpu")
  monkeypatch.setattr(platforms, "free_memory", lambda: 4_000_000_000)
  options = ["plan", *(f"--gin_file={file}" for file in _BB), "--topology=v4-128"]
  refused = xmcap(*options).refused("4.0 GB are free", "--gin.ViTConfig.scan=True")
  needed = "about 15 GB of this host's memory, of 4 GB free, and about 21 minutes on 2 cores"
  assert needed in refused.out + refused.err
