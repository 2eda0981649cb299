import os

import pytest

from xmcap import platforms


@pytest.fixture
def machine(monkeypatch, tmp_path):
  """A machine with an NVIDIA GPU, the plugin for it, and no wishes."""
  (tmp_path / "nvidiactl").touch()
  monkeypatch.setattr(platforms, "_NVIDIA", (str(tmp_path / "nvidiactl"),))
  monkeypatch.setattr(platforms, "cuda_installed", lambda: True)
  for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"):
    # Set first, so that what is set in the test is undone.
    monkeypatch.setenv(name, "")
    monkeypatch.delenv(name)
  return monkeypatch


def test_a_gpu_is_taken_also_where_libtpu_is_installed(machine):
  platforms.take_gpu()
  assert os.environ["JAX_PLATFORMS"] == "cuda,cpu"


@pytest.mark.parametrize(
  "name, value",
  [
    ("JAX_PLATFORMS", "cpu"),
    ("JAX_PLATFORMS", ""),
    ("CUDA_VISIBLE_DEVICES", ""),
    ("CUDA_VISIBLE_DEVICES", "-1"),
  ],
)
def test_the_user_decides(machine, name, value):
  machine.setenv(name, value)
  before = os.environ.get("JAX_PLATFORMS")
  platforms.take_gpu()
  assert os.environ.get("JAX_PLATFORMS") == before


def test_one_of_several_gpus_may_be_chosen(machine):
  machine.setenv("CUDA_VISIBLE_DEVICES", "3")
  platforms.take_gpu()
  assert os.environ["JAX_PLATFORMS"] == "cuda,cpu"


def test_without_the_plugin_jax_chooses(machine):
  machine.setattr(platforms, "cuda_installed", lambda: False)
  platforms.take_gpu()
  assert "JAX_PLATFORMS" not in os.environ


def test_without_a_gpu_jax_chooses(machine):
  machine.setattr(platforms, "_NVIDIA", ("/nowhere/nvidiactl",))
  platforms.take_gpu()
  assert "JAX_PLATFORMS" not in os.environ


def test_the_plugin_is_looked_for_without_importing_it(machine, tmp_path):
  machine.undo()
  found = platforms.cuda_installed()
  folder = tmp_path / "jax_plugins/xla_cuda12"
  folder.mkdir(parents=True)
  (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
  machine.syspath_prepend(tmp_path)
  assert platforms.cuda_installed() and isinstance(found, bool)
