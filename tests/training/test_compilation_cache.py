"""The compilation cache of a run. Programs are counted by jax's own events, in `compilation_cache.programs`."""

import warnings

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from tests.training.test_loop import assert_same, run
from xmcap.training import compilation_cache
from xmcap.training.compilation_cache import CompilationCache


@pytest.fixture(autouse=True)
def every_program():
  """Keeps small programs too, and none where the other tests keep theirs."""
  own = {"jax_persistent_cache_min_compile_time_secs": 0, "jax_compilation_cache_dir": None}
  before = {name: getattr(jax.config, name) for name in own}
  for name, value in own.items():
    jax.config.update(name, value)
  jax_cache.reset_cache()
  yield
  assert jax.config.jax_compilation_cache_dir is None  # the run restored it
  for name, value in before.items():
    jax.config.update(name, value)
  jax_cache.reset_cache()


def started(folder, cache, steps):
  """A run as a new process would start it: result, lines, programs looked for and found."""
  jax.clear_caches()
  before = compilation_cache.programs()
  with warnings.catch_warnings():
    warnings.simplefilter("always")
    result, lines = run(folder, steps, compilation_cache=CompilationCache(str(cache)))
  after = compilation_cache.programs()
  return result, lines, after.asked - before.asked, after.found - before.found


def compiled(lines):
  return [line for line in lines if "running the first step" in line]


def test_compilation_cache_is_read_on_restart_and_repaired_where_damaged(tmp_path):
  cache = tmp_path / "cache"
  _, lines, asked, found = started(tmp_path / "run", cache, 10)
  assert asked > found == 0 and compiled(lines)[0].startswith("compiled in")
  for file in cache.glob("*-cache"):
    file.write_bytes(file.read_bytes()[:100])  # the disk was full, or the process was killed
  result, lines, asked, found = started(tmp_path / "run", cache, 15)
  assert result.finished and asked > found == 0
  assert [line.count("\n") for line in lines if "reading failed" in line] == [0]
  resumed, lines, asked, found = started(tmp_path / "run", cache, 20)
  assert asked == found > 0 and compiled(lines)[0].startswith("read from the compilation cache in")
  assert not any("failed" in line for line in lines)
  text = (tmp_path / "run/metrics.jsonl").read_text()
  assert text.count('"compile_seconds/step"') == 2  # of three starts, only what was compiled
  assert_same(resumed.state, run(tmp_path / "without", 20)[0].state)


def test_unwritable_compilation_cache_is_reported_once(tmp_path):
  (tmp_path / "cache").write_text("a file where the folder should be")
  result, lines, _, _ = started(tmp_path / "run", tmp_path / "cache", 3)
  assert result.finished and len([line for line in lines if line.startswith("compilation cache")]) == 1


@pytest.mark.parametrize(
  "processes, backend, given, wanted",
  [(16, "tpu", None, "runs/bb/compilation_cache"), (16, "cpu", None, ""), (1, "tpu", None, ""), (16, "tpu", "", ""),
   (1, "cpu", "gs://bucket-b/cache", "gs://bucket-b/cache")],
)  # fmt: skip
def test_compilation_cache_default_on_pods(monkeypatch, processes, backend, given, wanted):
  monkeypatch.setattr(jax, "process_count", lambda: processes)
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  assert CompilationCache(given)._chosen("runs/bb") == wanted


def test_compilation_cache_keeps_a_user_set_folder(monkeypatch, tmp_path):
  monkeypatch.setattr(jax, "process_count", lambda: 16)
  monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
  jax.config.update("jax_compilation_cache_dir", str(tmp_path))
  try:
    assert CompilationCache()._chosen("runs/bb") == ""
  finally:
    jax.config.update("jax_compilation_cache_dir", None)


def test_compilation_cache_of_jax_is_said_where_no_run_opens_one():
  assert "JAX_COMPILATION_CACHE_DIR=FOLDER keeps them" in compilation_cache.described()
  jax.config.update("jax_compilation_cache_dir", "/a/folder")
  said = compilation_cache.described()
  jax.config.update("jax_compilation_cache_dir", None)
  assert said == "compiled programs are kept in /a/folder"
