"""Fixtures of every test."""

import random
import sys

import hypothesis
import pytest

from tests import environment, loopback_store  # noqa: F401
from tests.browser import chromium, page  # noqa: F401
from tests.make.small_corpus import corpus  # noqa: F401
from tests.make.tiny_corpus import register, tiny, tiny_dir  # noqa: F401
from xmcap.files import object_store

hypothesis.settings.register_profile("untimed", deadline=None)  # tests do not time
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser):
  parser.addoption("--all", action="store_true", help="also run the tests marked `full`")
  parser.addoption(
    "--shuffle", type=int, metavar="SEED", help="files, and the tests of a file, in random order"
  )


@pytest.hookimpl(tryfirst=True)  # pytest then joins the tests that share a fixture with parameters
def pytest_collection_modifyitems(config, items):
  """Leaves out tests marked `full` unless --all is given, and puts files with slow tests first, or shuffles all.

  The last slow file should not begin when all other processes have ended.
  """
  if not config.getoption("--all"):
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
      config.hook.pytest_deselected(items=left_out)
      items[:] = [item for item in items if not item.get_closest_marker("full")]
  if (seed := config.getoption("--shuffle")) is not None:
    draws = random.Random(seed)
    place = {path: draws.random() for path in dict.fromkeys(item.path for item in items)}
    items.sort(key=lambda item: (place[item.path], draws.random()))
    return
  slow = {item.path for item in items if item.get_closest_marker("slow")}
  items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def no_gin_bindings():
  """What a test binds by gin does not reach the next one."""
  yield
  if gin := sys.modules.get("gin"):
    gin.clear_config()


_orbax_deprecations: list[str] = []
"""Events by which Orbax records, without a warning, that it was called in a way it will take away."""


def _hear(event: str, **_) -> None:
  # Those of the second kind are about files of old checkpoints, and of files that Orbax only looks for.
  if event.startswith("/jax/orbax/deprecation/") and "/missing_" not in event:
    _orbax_deprecations.append(event)


@pytest.fixture(autouse=True)
def nothing_of_orbax_that_is_deprecated():
  """A test fails that uses Orbax in a deprecated way; for warnings, pyproject.toml says the same."""
  if (monitoring := sys.modules.get("jax.monitoring")) and not hasattr(_hear, "registered"):
    monitoring.register_event_listener(_hear)
    _hear.registered = True
  _orbax_deprecations.clear()
  yield _orbax_deprecations
  assert not _orbax_deprecations


@pytest.fixture
def store(tmp_path, monkeypatch):
  """An object store on loopback, for s3:// and gs://; its `folder` is gs://bucket."""
  (tmp_path / "store" / "bucket").mkdir(parents=True)
  if orbax := sys.modules.get("orbax.checkpoint._src.path.gcs_utils"):
    orbax.get_bucket.cache_clear()  # made for the server of another test
  with loopback_store.served(tmp_path / "store") as served:
    for name, value in served.environment.items():
      monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    object_store._backend_of.cache_clear()
    yield served
  object_store._backend_of.cache_clear()
