"""The corpus of these tests, and the configuration that names it."""

import gin
import pytest


@pytest.fixture(scope="session")
def corpus_dir(tmp_path_factory):
  from tests.t5x import corpus

  return corpus.write(tmp_path_factory.mktemp("three"))


@pytest.fixture
def configured(corpus_dir):
  from tests.make import small_corpus
  from xmcap import configuration, gin_files

  overrides = [binding.removeprefix("--gin.") for binding in small_corpus.SMALLER]
  configuration.parse(
    ["models/tiny.gin", str(corpus_dir / "three.gin")], overrides, gin_files.Search(allow_import=True)
  )
  yield corpus_dir
  gin.clear_config()


@pytest.fixture(autouse=True)
def as_t5x_writes(nothing_of_orbax_that_is_deprecated):
  """Allows Orbax's older way of writing, which is t5x's."""
  yield
  nothing_of_orbax_that_is_deprecated.clear()
