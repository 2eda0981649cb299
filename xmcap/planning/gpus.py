"""GPUs that NVLink joins, by their usual names, and devices for XLA to compile for on a host without GPUs."""

import dataclasses
import os
import re
from typing import Any

from xmcap import extras, platforms
from xmcap.errors import UsageError, XmcapError, one_line

# The part of XLA's target description that is common to all kinds: limits of CUDA's programming model (CUDA C++
# programming guide, table "Technical specifications per compute capability"), and the library versions of jax[cuda12].
_EVERY_KIND = """
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  registers_per_core_limit: 65536 registers_per_block_limit: 65536 shared_memory_per_block: 49152
  runtime_version: "12.8.0" compile_time_toolkit_version: "12.8.0" driver_version: "12.8.0" dnn_version: "9.10.0"
"""
# Autotuning would run kernels, and Triton's matrix products need it, so they are left to cuBLAS.
_NOTHING_IS_RUN = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"


@dataclasses.dataclass(frozen=True)
class GpuKind:
  """Published specifications of a GPU."""

  name: str
  device_kind: str  # jax's name
  memory: int  # bytes, as reported by CUDA
  bandwidth: float  # memory bandwidth in bytes per second
  capability: str  # compute capability, such as 9.0
  cores: int  # streaming multiprocessors
  lanes: int  # float32 units per multiprocessor
  cache: int  # bytes of L2 cache
  shared: int  # bytes of shared memory per multiprocessor; a block may have 1,024 less
  clock: float  # highest clock in GHz
  links: float  # bytes per second and direction of all its NVLinks
  domain: int = 8  # GPUs that NVLink joins
  per_host: int = 8  # of those, in one host

  @property
  def description(self) -> str:
    """XLA's `GpuTargetConfigProto` of this GPU, as text."""
    major, minor = self.capability.split(".")
    own = "feature_extension: ACCELERATED_FEATURES" if int(major) >= 9 else ""
    return (
      f'device_description_str: "{self.device_kind}"{_EVERY_KIND}'
      f"cuda_compute_capability {{ major: {major} minor: {minor} {own} }} core_count: {self.cores} "
      f"fpus_per_core: {self.lanes} l2_cache_size: {self.cache} shared_memory_per_core: {self.shared} "
      f"shared_memory_per_block_optin: {self.shared - 1024} clock_rate_ghz: {self.clock} "
      f"memory_bandwidth: {self.bandwidth:.0f} device_memory_size: {self.memory} }}"
    )


# Sources: NVIDIA's data sheets of A100 (40 and 80 GB, SXM), H100 (SXM), H200 (SXM), DGX B200 (8 GPUs) and GB200 NVL72
# (72 GPUs, 4 to a compute tray), whose rate of NVLink is that of both directions, and its white papers on Ampere and
# Hopper (multiprocessors, caches, clocks). What CUDA reports, which is of the memory somewhat less than on the data
# sheet, is from the device specifications in OpenXLA's repository, of Blackwell all of it; for the H200, nvidia-smi's
# 143,771 MiB.
KINDS = {
  kind.name: kind
  for kind in (
    GpuKind(
      "a100-40gb", "NVIDIA A100-SXM4-40GB", 42_331_013_120, 1.555e12, "8.0", 108, 64, 40 << 20, 164 << 10, 1.41, 300e9,
    ),
    GpuKind(
      "a100-80gb", "NVIDIA A100-SXM4-80GB", 85_100_068_864, 2.039e12, "8.0", 108, 64, 40 << 20, 164 << 10, 1.41, 300e9,
    ),
    GpuKind(
      "h100", "NVIDIA H100 80GB HBM3", 84_942_979_072, 3.35e12, "9.0", 132, 128, 50 << 20, 228 << 10, 1.98, 450e9,
    ),
    GpuKind("h200", "NVIDIA H200", 143_771 << 20, 4.8e12, "9.0", 132, 128, 50 << 20, 228 << 10, 1.98, 450e9),
    GpuKind(
      "b200", "NVIDIA B200", 191_514_411_008, 7.672e12, "10.0", 148, 128, 132_644_864, 228 << 10, 1.965, 900e9,
    ),
    GpuKind(
      "gb200", "NVIDIA GB200", 197_897_748_480, 7.928e12, "10.0", 152, 128, 135_528_448, 228 << 10, 2.062, 900e9, 72, 4,
    ),
  )
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class GpuNode:
  """`chips` GPUs of one kind that NVLink joins: of one machine, or of a rack; has the interface of `Topology`."""

  kind: GpuKind
  chips: int
  slices: int = 1
  unit: str = "chip"

  @property
  def num_devices(self) -> int:
    return self.chips

  @property
  def name(self) -> str:
    return f"{self.kind.name}-{self.chips}"

  @property
  def description(self) -> str:
    return f"{self.name}: {self.chips} of {self.kind.device_kind}"

  @property
  def allowance(self) -> str:
    return f"available to jax of {self.kind.memory / 2**30:.1f} (XLA_CLIENT_MEM_FRACTION)"

  @property
  def allowed(self) -> float:
    """Bytes of a GPU's memory that jax uses; see "GPU memory allocation" in jax's documentation."""
    fraction = os.environ.get("XLA_CLIENT_MEM_FRACTION") or os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION")
    try:
      return self.kind.memory * (float(fraction) if fraction else 0.75)
    except ValueError:
      raise UsageError(f"XLA_CLIENT_MEM_FRACTION={fraction}: give a number, such as 0.9") from None

  def devices(self) -> list:
    """The devices to compile for, none of which is attached. See `absent_devices`."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_NOTHING_IS_RUN}".strip()
    of_host = min(self.chips, self.kind.per_host)
    topology = f"1x{self.chips // of_host}x{of_host}"  # domains, hosts of each, GPUs of each
    options = {"target_config": self.kind.description, "topology": topology}
    return absent_devices("cuda", self.name, platforms.cuda_installed(), "cuda", **options)


def absent_devices(
  platform: str, name: str, installed: bool, extra: str, topology_name: str = "", **options: Any
) -> list:
  """Devices to compile for that are not attached to this host.

  `name` is that of the chips, for messages. `extra` is the extra of xmcap that installs their compiler; `installed`
  says whether it is. `topology_name` and `options` describe the chips to the compiler.

  Raises:
    UsageError: the compiler is not installed.
    XmcapError: it does not know the chips.
  """
  from jax.experimental import topologies

  try:
    return topologies.get_topology_desc(topology_name, platform, **options).devices
  # jax, PJRT and the compilers each raise their own types.
  except Exception as error:
    if not installed:
      raise UsageError(
        f"the compiler that xmcap plan needs for {name} is not installed: {extras.install(extra)}"
      ) from None
    raise XmcapError(f"the compiler cannot plan for {name}: {one_line(error)}") from None


def parse(name: str) -> GpuNode | None:
  """Reads `h100`, `h100-8`, `a100-80gb-4`; None if the name is not that of a GPU."""
  match = re.fullmatch(r"([a-z]+\d+(?:-\d+gb)?)(?:-(\d{1,4}))?", name)
  if match is None or match[1] not in KINDS:
    return None
  kind, chips = KINDS[match[1]], int(match[2] or 1)
  if not 1 <= chips <= kind.domain:
    raise UsageError(
      f"--topology={name}: give 1 to {kind.domain} GPUs, which NVLink joins. Several nodes split the batch: plan "
      "one of them with its share of BATCH_SIZE"
    )
  if chips > kind.per_host and chips % kind.per_host:
    raise UsageError(f"--topology={name}: give a multiple of {kind.per_host}, the GPUs of a host")
  return GpuNode(kind, chips)
