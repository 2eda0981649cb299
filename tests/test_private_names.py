"""The names of jax and its family that xmcap uses without a promise that the next release has them.

What `jax._src` and `orbax.checkpoint._src` hold is private; `jax.experimental` and `jax.extend` may change in any
release (https://docs.jax.dev/en/latest/api_compatibility.html). Where a release breaks one, its test names the files.
"""

import importlib
import mmap
import pathlib
import re
import warnings

import pytest

from tests import environment

ROOT = pathlib.Path(__file__).parents[1]

NAMES = {
  # No public way: to find the cluster without joining it, and the keys and barriers of the coordination service.
  "jax._src.clusters.ClusterEnv.auto_detect_unset_distributed_params": "xmcap/training/hosts/cluster.py",
  "jax._src.distributed.global_state": "xmcap/training/hosts/cluster.py",
  # A test stands for a TPU VM by it.
  "jax._src.clusters.cloud_tpu_cluster": "tests/training/hosts/test_cluster.py",
  # A test forgets the bucket of the test before by it.
  "orbax.checkpoint._src.path.gcs_utils": "tests/conftest.py",
  # No import: a thread that is in here waits for other processes.
  "orbax.checkpoint._src.multihost": "xmcap/training/hosts/watch.py",
  # Equations of a jaxpr, to count operations.
  "jax.extend.core.Jaxpr": "xmcap/training/reporting/flops.py",
  "jax.extend.core.jaxprs_in_params": "xmcap/training/reporting/flops.py",
  "jax.experimental.compilation_cache.compilation_cache.reset_cache":
    "tests/training/test_compilation_cache.py xmcap/training/compilation_cache.py",
  "jax.experimental.compilation_cache.compilation_cache.set_cache_dir": "xmcap/training/compilation_cache.py",
  "jax.experimental.jax2tf.convert": "xmcap/export/saved_model.py",
  "jax.experimental.mesh_utils.create_device_mesh": "xmcap/training/sharding.py",
  "jax.experimental.mesh_utils.create_hybrid_device_mesh": "xmcap/training/sharding.py",
  "jax.experimental.multihost_utils.broadcast_one_to_all":
    "xmcap/training/evaluate.py xmcap/training/hooks.py xmcap/training/profiler.py",
  "jax.experimental.multihost_utils.process_allgather":
    "tests/training/hanging.py xmcap/evaluation/caption_evaluator.py",
  "jax.experimental.multihost_utils.reached_preemption_sync_point": "xmcap/training/hosts/stopping.py",
  # Kernels for TPUs.
  "jax.experimental.pallas.BlockSpec": "xmcap/models/kernels.py",
  "jax.experimental.pallas.CostEstimate": "xmcap/models/kernels.py",
  "jax.experimental.pallas.ds": "xmcap/models/kernels.py",
  "jax.experimental.pallas.multiple_of": "xmcap/models/kernels.py",
  "jax.experimental.pallas.pallas_call": "xmcap/models/kernels.py",
  "jax.experimental.pallas.program_id": "xmcap/models/kernels.py",
  "jax.experimental.pallas.reciprocal": "xmcap/models/kernels.py",
  "jax.experimental.pallas.tpu.CompilerParams": "xmcap/models/kernels.py",
  "jax.experimental.pallas.tpu.VMEM": "xmcap/models/kernels.py",
  "jax.experimental.pallas.tpu.bitcast": "xmcap/models/kernels.py",
  "jax.experimental.pallas.tpu.force_tpu_interpret_mode": "tests/models/test_kernels.py",
  "jax.experimental.pallas.tpu.roll": "xmcap/models/kernels.py",
  "jax.experimental.pallas.when": "xmcap/models/kernels.py",
  # Chips that are not attached.
  "jax.experimental.topologies.get_topology_desc": 
    "tests/planning/test_topologies.py xmcap/planning/gpus.py xmcap/xla_flags.py",
}  # fmt: skip
"""Name -> the files that use it."""

_FAMILY = r"(?:jax|jaxlib|flax|optax|orbax)"
_UNPROMISED = r"(?:_[a-z]\w*|experimental|extend)"
_IMPORT = re.compile(rf"from ({_FAMILY}(?:\.\w+)*) import (\w+)(?: as (\w+))?")
_DOTTED = re.compile(rf"(?<!from )\b{_FAMILY}(?:\.\w+)*\.{_UNPROMISED}(?:\.\w+)*")


def _used() -> dict[str, str]:
  """Name -> files, as found in the code."""
  found: dict[str, list[str]] = {}
  files = [
    path for folder in ("benchmarks", "tasks", "tests", "xmcap") for path in (ROOT / folder).rglob("*.py")
  ]
  for path in sorted(files):
    if path == pathlib.Path(__file__):
      continue
    text = path.read_text(encoding="utf-8")
    names = set(_DOTTED.findall(text))
    for module, name, other in _IMPORT.findall(text):
      if re.search(rf"\.{_UNPROMISED}(\.|$)", f"{module}.{name}"):
        attributes = re.findall(rf"(?<![\w.]){other or name}\.(\w+)", text)
        names |= {f"{module}.{name}.{attribute}" for attribute in attributes} or {f"{module}.{name}"}
    for name in names:
      found.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
  return {name: " ".join(files) for name, files in found.items()}


def test_private_names_of_jax_are_listed():
  assert _used() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_private_name_exists_in_the_installed_jax(name):
  parts = name.split(".")
  for count in range(len(parts), 0, -1):
    try:
      found: object = importlib.import_module(".".join(parts[:count]))
    except ImportError:
      continue
    for part in parts[count:]:
      found = getattr(found, part)
    return


# ---- what breaks next


def test_a_deprecated_call_is_an_error():
  """As pyproject.toml says; else a test run would not see what the next release takes away."""
  with pytest.raises(DeprecationWarning):
    warnings.warn("goes away", DeprecationWarning, stacklevel=1)


def test_xla_knows_the_flags_that_are_set():
  """XLA aborts the process at a flag that it does not know."""
  texts = [path.read_text(encoding="utf-8") for path in (ROOT / "xmcap").rglob("*.py")]
  flags = {*re.findall(r"--(xla_\w+)=", " ".join([*texts, *environment.FLAGS]))} - {
    "xla_flags"
  }  # xmcap's option
  assert len(flags) > 3
  (library,) = pathlib.Path(importlib.import_module("jaxlib").__file__ or "").parent.glob("libjax_common.*")
  with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
    assert [flag for flag in sorted(flags) if content.find(f"\0{flag}\0".encode()) < 0] == []
