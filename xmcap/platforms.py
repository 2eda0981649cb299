"""Chooses jax's platform, before jax is imported."""

import importlib.util
import os
import pathlib
import pkgutil

# Made by the kernel's driver; the last one by WSL.
_NVIDIA = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
# Made by the drivers of TPUs to v4, and from v5 on.
_TPU = ("accel*", "vfio/[0-9]*")
_DEVICES = pathlib.Path("/dev")
_PCI = pathlib.Path("/sys/bus/pci/devices")
_GOOGLE = "0x1ae0"
_NO_TPU = ("0x01", "0x02")  # classes of PCI devices: Google's disks and network cards
# Set by a user, by GKE or by a TPU VM.
_WISHES = ("TPU_NAME", "TPU_LIBRARY_PATH", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "JAX_FORCE_TPU_INIT")


def cuda_installed() -> bool:
  """Whether jax's CUDA plugin is installed, as by `pip install 'xmcap[cuda]'`."""
  return any(name.startswith("xla_cuda") for name in _plugins())


def choose() -> None:
  """Sets JAX_PLATFORMS to the GPU, or to the CPU where libtpu is installed and there is neither GPU nor TPU.

  Beside an NVIDIA GPU jax would also look for a TPU if libtpu is installed (for `xmcap plan`), and would train on the
  CPU if CUDA does not start. With neither, libtpu would ask the network for a TPU and print all that it misses.
  JAX_PLATFORMS and CUDA_VISIBLE_DEVICES, if set, have the last word; TPUs and other plugins are left to jax.
  """
  if "JAX_PLATFORMS" in os.environ:
    return
  hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
  if not hidden and any(pathlib.Path(path).exists() for path in _NVIDIA):
    if cuda_installed():
      os.environ["JAX_PLATFORMS"] = "cuda,cpu"
  elif (
    _libtpu_installed() and not _may_have_tpu() and all(name.startswith("xla_cuda") for name in _plugins())
  ):
    os.environ["JAX_PLATFORMS"] = "cpu"


def _plugins() -> list[str]:
  """jax's plugins by name, found without importing one."""
  found = importlib.util.find_spec("jax_plugins")
  return [module.name for module in pkgutil.iter_modules(found.submodule_search_locations)] if found else []


def _libtpu_installed() -> bool:
  return importlib.util.find_spec("libtpu") is not None


def _may_have_tpu() -> bool:
  if any(name in os.environ for name in _WISHES) or any(any(_DEVICES.glob(pattern)) for pattern in _TPU):
    return True
  return any(
    _read(device / "vendor") == _GOOGLE and not _read(device / "class").startswith(_NO_TPU)
    for device in _PCI.glob("*")
  )


def _read(file: pathlib.Path) -> str:
  try:
    return file.read_text().strip()
  except OSError:
    return ""
