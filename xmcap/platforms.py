"""Which of jax's platforms a run takes. To be asked before jax is imported."""

import importlib.util
import os
import pathlib

# The kernel's driver makes these; WSL has the last one.
_NVIDIA = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")


def cuda_installed() -> bool:
  """Whether jax's plugin for CUDA is: `pip install 'xmcap[cuda]'`."""
  try:
    return any(importlib.util.find_spec(f"jax_plugins.xla_cuda{version}") for version in (12, 13))
  except ModuleNotFoundError:
    return False


def take_gpu() -> None:
  """On a machine with an NVIDIA GPU and the plugin for it, jax shall take that GPU or say why it cannot.

  jax by itself would look for a TPU too where libtpu is installed (for `xmcap plan`), and would train on the CPU where
  CUDA does not start. JAX_PLATFORMS and CUDA_VISIBLE_DEVICES, where they are set, say what the user wants.
  """
  hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
  if "JAX_PLATFORMS" in os.environ or hidden or not any(pathlib.Path(path).exists() for path in _NVIDIA):
    return
  if cuda_installed():
    os.environ["JAX_PLATFORMS"] = "cuda,cpu"
