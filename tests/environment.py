"""The environment of all tests, and of the processes that they start; import it before jax."""

import os
import pathlib
from importlib import metadata

_CACHE = pathlib.Path(__file__).parents[1] / ".cache"

# libtpu is installed with the tests, to plan for chips that are not there: jax is not to look for them.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Most of the tests' time is XLA's: it optimises little, and fuses by its older code, which halves the time to compile.
# What it has compiled is kept for other tests, for the processes that tests start, and for the next time.
# A program is one part, not 32 for as many threads: the tests' processes fill the cores, and parts cost a sixth more.
FLAGS = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
# jaxlib 0.11.1 took the older code away, and XLA aborts at a flag that it does not know.
if any(
  tuple(map(int, jaxlib.version.split(".")[:3])) < (0, 11, 1)
  for jaxlib in metadata.distributions(name="jaxlib")
):
  FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join(
  [*os.environ.get("XLA_FLAGS", "").split(),
   *(flag for flag in FLAGS if flag.split("=")[0] not in os.environ.get("XLA_FLAGS", ""))]
)  # fmt: skip
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE / "compiled-for-tests"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# TensorFlow says what it found out about the machine each time that it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# transformers warns that logits and embedding differ, which is what is wanted, to a stream that pytest has closed.
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
