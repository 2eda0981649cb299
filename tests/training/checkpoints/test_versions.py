"""`versions.json` beside the checkpoints: a resumed run reports changed versions of libraries."""

import importlib.metadata
import json

from etils import epath

from xmcap.training.checkpoints import versions


def keep(folder, step):
  said = []
  versions.keep(epath.Path(folder), step, said.append)
  return said


def test_versions_json_names_installed_libraries(tmp_path):
  assert keep(tmp_path, 0) == []
  kept = json.loads((tmp_path / "versions.json").read_text())
  assert kept["orbax-checkpoint"] == importlib.metadata.version("orbax-checkpoint")
  assert {"python", "xmcap", "jax", "flax", "numpy"} <= set(kept)


def test_versions_json_has_the_flags_of_the_compiler(tmp_path, monkeypatch):
  monkeypatch.setenv("XLA_FLAGS", "")
  keep(tmp_path, 0)
  monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_a=1")
  assert "at the last start: LIBTPU_INIT_ARGS none -> --xla_a=1;" in keep(tmp_path, 40)[0]


def test_changed_library_version_is_one_line_on_resume(tmp_path, monkeypatch):
  keep(tmp_path, 0)
  assert keep(tmp_path, 40) == []
  now = versions.here()
  monkeypatch.setattr(versions, "here", lambda: now | {"jax": "0.99.0"})
  assert keep(tmp_path, 40) == [
    f"other versions than at the last start: jax {now['jax']} -> 0.99.0; the run may end with other bits"
  ]
  assert keep(tmp_path, 80) == []


def test_broken_versions_json_is_reported_and_replaced(tmp_path):
  (tmp_path / "versions.json").write_text("{")
  assert "cannot be read" in keep(tmp_path, 40)[0]
  assert keep(tmp_path, 40) == []
