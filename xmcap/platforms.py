"""What this machine has: chooses jax's platform, before jax is imported, and measures the free memory."""

import contextlib
import ctypes
import importlib.util
import os
import pathlib
import pkgutil

# Created by the kernel's driver; the last one by WSL.
_NVIDIA = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
# Created by the drivers of TPUs up to v4, and from v5 on.
_TPU = ("accel*", "vfio/[0-9]*")
_DEVICES = pathlib.Path("/dev")
_PCI = pathlib.Path("/sys/bus/pci/devices")
_CGROUP = "/sys/fs/cgroup"
_GOOGLE = "0x1ae0"
_NO_TPU = ("0x01", "0x02")  # classes of PCI devices: Google's disks and network cards
# Numbers of PCI devices: jax/_src/hardware_utils.py.
_TPU_KINDS = {"0x005e": "v4", "0x0062": "v5p", "0x0063": "v5e", "0x006f": "v6e", "0x0076": "tpu7x"}
# From glibc's malloc.h: options of mallopt, and the largest value.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_INT_MAX = 2**31 - 1
# Set by a user, by GKE or by a TPU VM.
_WISHES = ("TPU_NAME", "TPU_LIBRARY_PATH", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "JAX_FORCE_TPU_INIT")


def cuda_installed() -> bool:
  """Whether jax's CUDA plugin is installed, as by the extra cuda."""
  return any(name.startswith("xla_cuda") for name in _plugins())


def choose() -> None:
  """Sets JAX_PLATFORMS to the GPU, or to the CPU if there is neither GPU nor TPU.

  With an NVIDIA GPU, jax would also look for a TPU if libtpu is installed (for `xmcap plan`), and would silently train
  on the CPU if CUDA fails to start. With neither, libtpu would search the network for a TPU and print warnings.
  JAX_PLATFORMS and CUDA_VISIBLE_DEVICES, if set, take precedence; TPUs and other plugins are left to jax.
  """
  if "JAX_PLATFORMS" not in os.environ:
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
    if not hidden and any(pathlib.Path(path).exists() for path in _NVIDIA):
      if cuda_installed():
        os.environ["JAX_PLATFORMS"] = "cuda,cpu"
    elif all(name.startswith("xla_cuda") for name in _plugins()) and not _may_have_tpu():
      os.environ["JAX_PLATFORMS"] = "cpu"
  if os.environ.get("JAX_PLATFORMS") == "cpu":
    keep_memory()


def free_memory() -> int | None:
  """Bytes of memory that this process may still take: of the host, and of its container; None if nothing says so."""
  amounts = []
  # Missing files: no Linux, or no container. A limit that is no number: `max`, which is none.
  with contextlib.suppress(OSError, KeyError, ValueError):
    amounts.append(1024 * _fields("/proc/meminfo")["MemAvailable:"])
  with contextlib.suppress(OSError, KeyError, ValueError):
    limit, used = (int(pathlib.Path(_CGROUP, name).read_text()) for name in ("memory.max", "memory.current"))
    # The container's count has pages of files in it, which the kernel gives back.
    amounts.append(limit - used + _fields(f"{_CGROUP}/memory.stat")["file"])
  return min(amounts, default=None)


def _fields(path: str) -> dict[str, int]:
  """A file of lines `NAME NUMBER ...`."""
  lines = pathlib.Path(path).read_text(encoding="ascii").splitlines()
  return {name: int(number) for name, number, *_ in map(str.split, lines)}


def keep_memory() -> None:
  """Makes glibc's malloc keep the memory that is freed, such as XLA's after a step.

  By default malloc gets every large buffer from the kernel and returns it, and the kernel clears the pages each time:
  a sixth of the CPU time when training a small captioner. Without glibc this does nothing.
  """
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
  if mallopt is not None and mallopt(_MMAP_THRESHOLD, _INT_MAX):
    mallopt(_TRIM_THRESHOLD, _INT_MAX)
    mallopt(_ARENA_MAX, 1)  # arenas of threads cannot hold blocks of more than 64 MiB


def _plugins() -> list[str]:
  """Names of jax's plugins, without importing them."""
  spec = importlib.util.find_spec("jax_plugins")
  return [module.name for module in pkgutil.iter_modules(spec.submodule_search_locations)] if spec else []


def _may_have_tpu() -> bool:
  if any(name in os.environ for name in _WISHES) or any(any(_DEVICES.glob(pattern)) for pattern in _TPU):
    return True
  return any(
    _read(device / "vendor") == _GOOGLE and not _read(device / "class").startswith(_NO_TPU)
    for device in _PCI.glob("*")
  )


def tpu_kind() -> str:
  """The chip of this host's TPU, such as `v6e`; "" if it has none that is known."""
  kinds = (
    _TPU_KINDS.get(_read(device / "device"))
    for device in _PCI.glob("*")
    if _read(device / "vendor") == _GOOGLE
  )
  return next(filter(None, kinds), "")


def _read(file: pathlib.Path) -> str:
  try:
    return file.read_text().strip()
  except OSError:
    return ""
