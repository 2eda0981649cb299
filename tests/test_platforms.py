import os
import platform
import resource

import pytest

from tests.make.command import forked
from xmcap import platforms


@pytest.fixture
def machine(monkeypatch, tmp_path):
  """A machine with an NVIDIA GPU, the plugin for it, libtpu, and no wishes."""
  for folder in ("dev", "pci"):
    (tmp_path / folder).mkdir()
  (tmp_path / "dev/nvidiactl").touch()
  monkeypatch.setattr(platforms, "_NVIDIA", (str(tmp_path / "dev/nvidiactl"),))
  monkeypatch.setattr(platforms, "_DEVICES", tmp_path / "dev")
  monkeypatch.setattr(platforms, "_PCI", tmp_path / "pci")
  monkeypatch.setattr(platforms, "_plugins", lambda: ["xla_cuda12"])
  for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", *platforms._WISHES):
    # Set first, so that what is set in the test is undone.
    monkeypatch.setenv(name, "")
    monkeypatch.delenv(name)
  return monkeypatch


def test_platforms_with_a_gpu_are_cuda_and_cpu(machine):
  platforms.choose()
  assert os.environ["JAX_PLATFORMS"] == "cuda,cpu"


@pytest.mark.parametrize(
  "name, value, chosen",
  [
    ("JAX_PLATFORMS", "cpu", "cpu"),
    ("JAX_PLATFORMS", "", ""),
    ("JAX_PLATFORMS", "tpu,cpu", "tpu,cpu"),
    ("CUDA_VISIBLE_DEVICES", "3", "cuda,cpu"),
    ("CUDA_VISIBLE_DEVICES", "", "cpu"),
  ],
)
def test_platforms_with_variables_of_the_user(machine, name, value, chosen):
  machine.setenv(name, value)
  platforms.choose()
  assert os.environ["JAX_PLATFORMS"] == chosen


def test_platforms_without_a_cuda_plugin_are_left_to_jax(machine):
  machine.setattr(platforms, "_plugins", list)
  platforms.choose()
  assert "JAX_PLATFORMS" not in os.environ


@pytest.fixture
def no_gpu(machine, tmp_path):
  (tmp_path / "dev/nvidiactl").unlink()
  return machine


def test_platforms_tpu_kind_by_its_pci_number(machine, tmp_path):
  assert platforms.tpu_kind() == ""
  for name, vendor, number in (
    ("disk", "0x1ae0", "0x001f"),
    ("gpu", "0x10de", "0x006f"),
    ("tpu", "0x1ae0", "0x0076"),
  ):
    _pci(tmp_path / f"pci/{name}", vendor, "0x120000")
    (tmp_path / f"pci/{name}/device").write_text(f"{number}\n")
  assert platforms.tpu_kind() == "tpu7x"


def _pci(folder, vendor, kind):
  folder.mkdir()
  (folder / "vendor").write_text(f"{vendor}\n")
  (folder / "class").write_text(f"{kind}\n")


@pytest.mark.parametrize("plugins", [[], ["xla_cuda12"]])
def test_platforms_without_gpu_and_tpu_are_cpu(no_gpu, tmp_path, plugins):
  no_gpu.setattr(platforms, "_plugins", lambda: plugins)
  _pci(tmp_path / "pci/network", "0x1ae0", "0x020000")
  _pci(tmp_path / "pci/disk", "0x1ae0", "0x010802")
  _pci(tmp_path / "pci/other", "0x8086", "0x120000")
  platforms.choose()
  assert os.environ["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize("device", ["accel0", "vfio/0"])
def test_a_tpu_is_left_to_jax(no_gpu, tmp_path, device):
  (tmp_path / "dev" / device).parent.mkdir(exist_ok=True)
  (tmp_path / "dev" / device).touch()
  platforms.choose()
  assert "JAX_PLATFORMS" not in os.environ


def test_a_tpu_without_its_device_file_is_left_to_jax(no_gpu, tmp_path):
  _pci(tmp_path / "pci/tpu", "0x1ae0", "0x120000")
  platforms.choose()
  assert "JAX_PLATFORMS" not in os.environ


def test_platforms_with_tpu_name_are_left_to_jax(no_gpu):
  no_gpu.setenv("TPU_NAME", "mine")
  platforms.choose()
  assert "JAX_PLATFORMS" not in os.environ


def test_another_plugin_is_left_to_jax(no_gpu):
  no_gpu.setattr(platforms, "_plugins", lambda: ["rocm"])
  platforms.choose()
  assert "JAX_PLATFORMS" not in os.environ


def test_the_plugin_is_looked_for_without_importing_it(machine, tmp_path):
  machine.undo()
  found = platforms.cuda_installed()
  folder = tmp_path / "jax_plugins/xla_cuda12"
  folder.mkdir(parents=True)
  (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
  machine.syspath_prepend(tmp_path)
  assert platforms.cuda_installed() and isinstance(found, bool)


def _page_faults_of_20_steps(chosen):
  if chosen:
    platforms.choose()
  import jax
  import jax.numpy as jnp

  large = jax.jit(lambda x: x + jnp.ones(20_000_000))
  for step in range(5):
    large(float(step)).block_until_ready()
  before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
  for step in range(20):
    large(float(step)).block_until_ready()
  print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_on_the_cpu_a_step_reuses_the_memory_of_the_step_before():
  chosen, left = (int(forked(_page_faults_of_20_steps, choose).succeeded().out) for choose in (True, False))
  # Not none: now and then a step begins before another thread has given back the memory of the one before.
  assert 2 * chosen < left


def test_free_memory_is_the_least_of_host_and_container(monkeypatch, tmp_path):
  monkeypatch.setattr(platforms, "_CGROUP", str(tmp_path))
  whole = platforms.free_memory()  # no container
  for name, text in {"max": "3000", "current": "2000", "stat": "anon 1500\nfile 500\n"}.items():
    (tmp_path / f"memory.{name}").write_text(text)
  assert platforms.free_memory() == 1500
  (tmp_path / "memory.max").write_text("max\n")
  assert whole is None or platforms.free_memory() > 1e6
