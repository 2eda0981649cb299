"""Chooses jax's platform, before jax is imported."""

import importlib.util
import os
import pathlib

# Made by the kernel's driver; the last one by WSL.
_NVIDIA = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")


def cuda_installed() -> bool:
  """Whether jax's CUDA plugin is installed, as by `pip install 'xmcap[cuda]'`."""
  try:
    return any(importlib.util.find_spec(f"jax_plugins.xla_cuda{version}") for version in (12, 13))
  except ModuleNotFoundError:
    return False


def take_gpu() -> None:
  """Makes jax use the GPU, or fail, on a machine that has an NVIDIA GPU and jax's plugin for it.

  jax alone would also look for a TPU where libtpu is installed (for `xmcap plan`), and would train on the CPU where
  CUDA does not start. JAX_PLATFORMS and CUDA_VISIBLE_DEVICES, if set, have the last word.
  """
  hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
  if "JAX_PLATFORMS" in os.environ or hidden or not any(pathlib.Path(path).exists() for path in _NVIDIA):
    return
  if cuda_installed():
    os.environ["JAX_PLATFORMS"] = "cuda,cpu"
