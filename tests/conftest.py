"""Fixtures of every test."""

import os
import pathlib

# libtpu is installed with the tests, to plan for chips that are not there: jax is not to look for them.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Most of the tests' time is XLA's: what it has compiled is kept for other tests, for the processes that tests start,
# and for the next time.
os.environ.setdefault(
  "JAX_COMPILATION_CACHE_DIR", str(pathlib.Path(__file__).parents[1] / ".cache" / "compiled-for-tests")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

from tests.browser import chromium, page  # noqa: F401


def pytest_collection_modifyitems(items):
  """Files with slow tests come first, so that the last of them does not run when all other processes have ended."""
  slow = {item.path for item in items if item.get_closest_marker("slow")}
  items.sort(key=lambda item: item.path not in slow)
