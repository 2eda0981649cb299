"""TPU slices: names, shapes, and which are offered."""

import ast
import os
import subprocess
import sys

import pytest

from tests.make.command import xmcap
from xmcap.errors import UsageError
from xmcap.planning import topologies
from xmcap.training.reporting import chips


# Shapes and hosts: cloud.google.com/tpu/docs, the pages v4, v5e, v5p, v6e and tpu7x.
@pytest.mark.parametrize(
  "name, shape, chips, hosts",
  [
    ("v4-8", (2, 2, 1), 4, 1),
    ("v4-32", (2, 2, 4), 16, 4),
    ("v4-64", (2, 4, 4), 32, 8),
    ("v4-128", (4, 4, 4), 64, 16),
    ("v4-4096", (8, 16, 16), 2048, 512),
    ("v5p-384", (4, 4, 12), 192, 48),
    ("v5litepod-16", (4, 4), 16, 4),
    ("v5e-32", (4, 8), 32, 8),
    ("v6e-1", (1, 1), 1, 1),
    ("v6e-4", (2, 2), 4, 1),
    ("v6e-8", (2, 4), 8, 1),
    ("v6e-16", (4, 4), 16, 4),
    ("v6e-128", (8, 16), 128, 32),
    ("tpu7x-8", (2, 2, 1), 4, 1),
    ("tpu7x-32", (2, 2, 4), 16, 4),
    ("tpu7x:4x4x4", (4, 4, 4), 64, 16),
    ("v6e-256", (16, 16), 256, 64),
    ("2*v4-128", (4, 4, 4), 128, 32),
  ],
)
def test_topology_names_are_parsed(name, shape, chips, hosts):
  topology = topologies.parse(name)
  assert (topology.shape, topology.chips, topology.hosts) == (shape, chips, hosts)


def test_topology_shape_and_name_are_equal():
  assert topologies.parse("v4:4x4x4") == topologies.parse("v4-128")
  assert topologies.parse("v4:4x4x4").usual_name == "v4-128"
  assert topologies.parse("2*v4-128").name == "2*v4:4x4x4"


def test_topology_of_chips_with_two_devices():
  topology = topologies.parse("2*tpu7x-128")
  assert (topology.chips, topology.num_devices, topology.unit) == (128, 256, "device")
  assert topology.description == "2*tpu7x:4x4x4 (tpu7x-128): 128 chips of 2 devices, 32 hosts"
  assert topologies.parse("v4-8").num_devices == 4 and topologies.parse("v4-8").unit == "chip"


def test_topology_cores_of_hosts_by_their_chips():
  cores = {
    name: topologies.parse(name).host_cores for name in ("v4-128", "v6e-1", "v6e-8", "v5e-8", "v5e-256")
  }
  assert cores == {"v4-128": 240, "v6e-1": 44, "v6e-8": 180, "v5e-8": 224, "v5e-256": 112}


def test_topology_axes_wrap_as_wired():
  assert topologies.parse("v4-128").wrap == (True, True, True)
  assert topologies.parse("v4-64").wrap == (False, False, False)
  assert topologies.parse("v5e-128").wrap == (False, True)


@pytest.mark.parametrize(
  "name, said",
  [
    ("v7-8", "give a chip (v4, v5e, v5p, v6e, tpu7x)"),
    ("v6e-48", "no v6e slice has 48 chips"),
    ("v6e:4x12", "no v6e slice has this shape: give one of 1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16"),
    ("tpu7x:3x4x4", "no tpu7x slice has this shape: give 2x2x1, 2x2x2, 2x2x4, 2x4x4 or multiples of 4"),
    ("tpu7x-2", "no tpu7x slice has 2 TensorCores"),
    ("v4", "give a chip"),
    ("v4-129", "no v4 slice has 129 TensorCores"),
    ("v4-24", "no v4 slice has 24 TensorCores"),
    ("v5e-512", "no v5e slice has 512 chips"),
    ("v4:4x4", "give 3 sizes of at least 1 for a v4 slice"),
    ("v4:4x4xx4", "give a chip"),
    ("v6e:4x4x4", "give 2 sizes of at least 1 for a v6e slice"),
    ("0*v4-8", "no v4 slice"),
    ("0*v4:4x4x4", "sizes of at least 1"),
    ("v4-128; rm -rf /", "give a chip"),
    ("v4-100000000000000", "give a chip"),
    (f"v4-{'9' * 5000}", "give a chip"),
    (f"h100-{'9' * 5000}", "give a chip"),
  ],
)
def test_topology_refuses_invalid_names(name, said):
  with pytest.raises(UsageError) as error:
    topologies.parse(name)
  assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["v4-128", "v5e-16", "v5p-64", "v6e-8", "2*v4-16", "tpu7x-32"])
def test_topologies_are_known_to_libtpu(name):
  pytest.importorskip("libtpu")
  topologies.prepare_host()
  topology = topologies.parse(name)
  devices = topology.devices()
  assert len(devices) == topology.num_devices
  assert len({device.process_index for device in devices}) == topology.hosts
  assert {chips.PEAK_FLOPS[device.device_kind] for device in devices} == {topology.chip.flops}


def test_plan_compiles_with_the_flags_of_a_tpu_vm():
  code = "from xmcap.planning import topologies as t; t.prepare_host(); import os; print(dict(os.environ))"
  environment = {name: value for name, value in os.environ.items() if name != "LIBTPU_INIT_ARGS"}
  environment = ast.literal_eval(
    subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
  )
  assert "--xla" in environment["LIBTPU_INIT_ARGS"]  # jax's own
  # A run that this process starts is on no TPU VM, and has a compilation cache.
  assert environment.keys().isdisjoint({"JAX_FORCE_TPU_INIT", "JAX_ENABLE_COMPILATION_CACHE"})


@pytest.mark.parametrize("options", [[], ["--search"], ["--decode"]])
def test_plan_without_libtpu_is_refused_before_planning(monkeypatch, options):
  def no_compiler(*arguments, **options):
    raise RuntimeError("libtpu.so not found")

  monkeypatch.setattr("jax.experimental.topologies.get_topology_desc", no_compiler)
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  files = ["--gin_file=models/tiny.gin", "--gin_file=data/emoji36.gin", "--gin_file=runs/quickstart.gin"]
  refused = xmcap("plan", *files, "--topology=v4-8", *options)
  refused.refused("is not installed: pip install", "[plan]")
  assert "left out" not in refused.out + refused.err and refused.err.count("\n") == 1


@pytest.mark.parametrize(
  ("name", "is_offered"),
  [
    ("v4-128", True),
    ("v5litepod-8", True),
    ("v4-129", False),
    ("v4-100", False),
    ("v6e-3", False),
    ("v6e-48", False),
    ("tpu7x-128", True),
    ("tpu7x-100", False),
    ("v2-8", True),
  ],
)
def test_topology_check_offered(name, is_offered):
  if is_offered:
    topologies.check_offered(name)
  else:
    with pytest.raises(UsageError, match=f"{name}: there is no "):
      topologies.check_offered(name)
