import gin
import pytest

from tests.make.tiny_corpus import register, tiny_dir  # noqa: F401


@pytest.fixture(autouse=True)
def no_bindings_of_gin():
  """Commands that run within a test bind their configuration."""
  yield
  gin.clear_config()
