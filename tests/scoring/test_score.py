import json
import os
import subprocess
import sys

import pytest

from xmcap.errors import UsageError
from xmcap.scoring import read_predictions, score, score_files, score_images, write_predictions

_REFERENCES = {
  "k1": {"en": ["A dog runs.", "the dog is running"], "th": ["สุนัขวิ่ง"]},
  "k2": {"en": ["two red cats"], "th": ["แมวสองตัว"]},
  "k3": {"en": ["a house by the sea"]},
}
_PREDICTIONS = {
  "k1": {"en": "a DOG runs", "th": "สุนัขวิ่ง"},
  "k2": {"en": "a red cat", "th": ""},
  "k3": {"en": "a house by the sea"},
}


@pytest.fixture
def files(tmp_path):
  references, predictions = tmp_path / "captions.jsonl", tmp_path / "given.jsonl"
  references.write_text(
    "".join(
      json.dumps({"image/key": key, **{code: {"caption": texts} for code, texts in captions.items()}}) + "\n"
      for key, captions in _REFERENCES.items()
    )
  )
  write_predictions(
    predictions,
    ((key, code, text) for key, captions in _PREDICTIONS.items() for code, text in captions.items()),
  )
  return references, predictions


def test_rows_of_the_table():
  table = score(_REFERENCES, _PREDICTIONS, title="t")
  assert table.title == "t"
  assert {code: row["images"] for code, row in table.rows.items()} == {"en": 3, "th": 2}
  assert table.rows["en"]["exact"] == pytest.approx(2 / 3)
  assert table.rows["th"]["exact"] == 0.5
  # pycocoevalcap 1.2, Cider().compute_score on the lower-cased words without punctuation.
  assert table.rows["en"]["cider_d"] == pytest.approx(5.071271798468246, abs=1e-9)


def test_image_scores_average_to_the_row():
  scores = score_images(_REFERENCES, _PREDICTIONS)
  assert scores["th"].keys == ("k1", "k2")
  assert scores["en"].statistics["cider"][:, 0].mean() == score(_REFERENCES, _PREDICTIONS).rows["en"]["cider"]


def test_languages_choose():
  assert list(score(_REFERENCES, {"k1": {"th": "a"}, "k2": {"th": "b"}}, ["th"]).rows) == ["th"]


def test_signature_says_what_decides():
  signature = score(_REFERENCES, _PREDICTIONS).signature
  for part in (
    "cider(n=4",
    "cider_d(n=4,sigma=6",
    "tokenizer:default-",
    "pythainlp-",
    "languages:en th",
    "images:3",
    "references:6#",
    "missing:refused",
    "xmcap:",
  ):
    assert part in signature
  assert "pythainlp" not in score(_REFERENCES, _PREDICTIONS, ["en"]).signature


def test_signature_depends_on_the_references_and_not_on_their_order():
  signature = score(_REFERENCES, _PREDICTIONS).signature
  assert score(dict(reversed(_REFERENCES.items())), _PREDICTIONS).signature == signature
  other = {**_REFERENCES, "k3": {"en": ["a house by the sea."]}}
  assert score(other, _PREDICTIONS).signature != signature


def test_files_in_and_out(files, tmp_path):
  table = score_files(*files, tmp_path / "out", title="t")
  assert sorted(os.listdir(tmp_path / "out")) == [
    "predictions.jsonl",
    "report.html",
    "table.csv",
    "table.json",
    "table.md",
    "table.tex",
  ]
  assert table == score(_REFERENCES, _PREDICTIONS, title="t")
  assert json.loads((tmp_path / "out" / "table.json").read_text())["languages"] == table.rows
  assert read_predictions(tmp_path / "out" / "predictions.jsonl") == _PREDICTIONS


def test_predictions_in_the_output_folder_stay_whole(files, tmp_path):
  references, predictions = files
  predictions.rename(tmp_path / "predictions.jsonl")
  score_files(references, tmp_path / "predictions.jsonl", tmp_path, languages=["en"])
  assert read_predictions(tmp_path / "predictions.jsonl") == _PREDICTIONS


def test_what_does_not_fit_names_both_files(files, tmp_path):
  references, predictions = files
  write_predictions(predictions, [("k1", "en", "a")])
  with pytest.raises(UsageError, match=r"given.jsonl, scored against .*captions.jsonl: 4 of 5 predictions"):
    score_files(references, predictions, tmp_path / "out")
  assert not (tmp_path / "out").exists()


def test_missing_folder_of_images_is_refused(files, tmp_path):
  with pytest.raises(UsageError, match="no such folder of images"):
    score_files(*files, tmp_path / "out", images_dir=tmp_path / "absent")


def test_same_bytes_whatever_the_hash_seed(files, tmp_path):
  script = "import sys\nfrom xmcap.scoring import score_files\nscore_files(*sys.argv[1:])"
  outputs = []
  for seed in ("1", "2"):
    out = tmp_path / seed
    subprocess.run(
      [sys.executable, "-c", script, *files, out], check=True, env={**os.environ, "PYTHONHASHSEED": seed}
    )
    outputs.append({file.name: file.read_bytes() for file in out.iterdir()})
  assert outputs[0] == outputs[1]


def test_neither_jax_nor_tensorflow_is_imported(files, tmp_path):
  script = (
    "import sys\nfrom xmcap.scoring import score_files\nscore_files(*sys.argv[1:])\n"
    "print([name for name in ('jax', 'tensorflow', 'flax') if name in sys.modules])"
  )
  result = subprocess.run(
    [sys.executable, "-c", script, *files, tmp_path / "out"], check=True, capture_output=True, text=True
  )
  assert result.stdout.strip() == "[]"
