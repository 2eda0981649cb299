import csv
import io
import json
import os
import subprocess
import sys

import pytest

from tests.make import files
from tests.make.refusals import refusal
from xmcap import papers
from xmcap.digests import of_images
from xmcap.errors import XmcapError
from xmcap.pages import output
from xmcap.scoring import read_predictions, read_system, score, score_files, write_predictions

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
_FILES = [
  "captions.csv", "health.csv", "health.md", "predictions.jsonl", "report.html", "scores.npz", "slices.csv",
  "table.csv", "table.json", "table.md", "table.tex",
]  # fmt: skip


_TABLES = [f"table.{end}" for end in ("csv", "json", "md", "tex")]


@pytest.fixture
def paths(tmp_path):
  references = files.release(tmp_path / "captions.jsonl", _REFERENCES, locale="th")
  return references, files.captions(tmp_path / "given.jsonl", _PREDICTIONS)


def _contents(folder):
  return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_score_files_writes_all_outputs(paths, tmp_path):
  result = score_files(*paths, tmp_path / "out", title="t", health=True)
  assert sorted(os.listdir(tmp_path / "out")) == _FILES
  assert result.table == score(_REFERENCES, _PREDICTIONS, title="t", health=True).table
  assert json.loads((tmp_path / "out" / "table.json").read_text())["languages"] == result.table.rows
  assert read_predictions(tmp_path / "out" / "predictions.jsonl") == _PREDICTIONS
  assert read_system(tmp_path / "out").table.rows == result.table.rows


def test_slices_csv_has_locales(paths, tmp_path):
  score_files(*paths, tmp_path / "out")
  rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "slices.csv").read_text())))
  assert {row["slice"] for row in rows} >= {"group:english", "script:Thai", "locale:th"}


@pytest.mark.parametrize("through", ["out", "link"])
def test_score_files_keeps_given_predictions_in_the_output_folder(paths, tmp_path, through):
  references, predictions = paths
  (tmp_path / "out").mkdir()
  (tmp_path / "link").symlink_to(tmp_path / "out")
  predictions = predictions.rename(tmp_path / "out" / "predictions.jsonl")
  content = predictions.read_bytes()
  score_files(references, tmp_path / through / "predictions.jsonl", tmp_path / "out", languages=["en"])
  assert predictions.read_bytes() == content


def test_score_files_replaces_predictions_of_an_earlier_run(paths, tmp_path):
  score_files(*paths, tmp_path / "out")
  score_files(*paths, tmp_path / "out", languages=["en"])
  assert read_predictions(tmp_path / "out" / "predictions.jsonl") == {
    key: {"en": captions["en"]} for key, captions in _PREDICTIONS.items()
  }


def test_mismatched_references_and_predictions_name_both_files(paths, tmp_path):
  references, predictions = paths
  write_predictions(predictions, [("k1", {"en": "a"})])
  message = refusal(score_files, references, predictions, tmp_path / "out")
  assert "given.jsonl, scored against " in message and "captions.jsonl: 4 of 5 predictions" in message
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
  "option", [{"missing": "drop"}, {"subset": "xm600"}, {"metrics": "cidr"}, {"baseline": "absent"}]
)
def test_options_are_checked_before_files_are_read(tmp_path, option):
  message = refusal(score_files, "no references", "no predictions", tmp_path / "out", **option)
  assert "no references" not in message and "no predictions" not in message


@pytest.mark.parametrize(
  "options, removed",
  [
    ({"health": True}, set()),
    ({}, {"health.csv", "health.md"}),
    ({"only_tables": True}, {*_FILES} - {"predictions.jsonl", *_TABLES}),
  ],
)
def test_score_files_removes_outputs_of_an_earlier_run(paths, tmp_path, options, removed):
  score_files(*paths, tmp_path / "out", health=True)
  score_files(*paths, tmp_path / "out", **options)
  assert {*os.listdir(tmp_path / "out")} == {*_FILES} - removed


def test_files_of_somebody_else_are_not_removed(paths, tmp_path):
  report = files.text(tmp_path / "out" / "report.html", "mine")
  score_files(*paths, tmp_path / "out", only_tables=True)
  assert report.read_text() == "mine"
  assert {*os.listdir(tmp_path / "out")} == {"report.html", *_TABLES}


def test_unremovable_output_is_one_line(paths, tmp_path):
  score_files(*paths, tmp_path / "out", only_tables=True)
  (tmp_path / "out" / "scores.npz").mkdir()
  message = refusal(score_files, *paths, tmp_path / "out", only_tables=True, error=XmcapError)
  assert "scores.npz: cannot be removed" in message


@pytest.mark.parametrize(
  "options, message",
  [
    ({"images_dir": "absent"}, "no such folder of images"),
    ({"baseline": "paper"}, "the baseline 'paper' has scores on the 3,600 pictures of XM3600"),
  ],
)
def test_score_files_refuses_other_images(paths, tmp_path, options, message):
  assert message in refusal(score_files, *paths, tmp_path / "out", **options)


def test_language_given_for_coco_is_scored_alone(paths, tmp_path):
  texts = {key: captions["en"] for key, captions in _PREDICTIONS.items()}
  english = files.coco_results(tmp_path / "en.json", texts)
  result = score_files(paths[0], english, tmp_path / "out", language="en", only_tables=True)
  assert result.table.rows == {"en": score(_REFERENCES, _PREDICTIONS).table.rows["en"]}


def test_document_frequencies_are_saved_and_used(paths, tmp_path):
  first = score_files(*paths, tmp_path / "1", save_document_frequencies=tmp_path / "df.gz", only_tables=True)
  second = score_files(*paths, tmp_path / "2", document_frequencies=tmp_path / "df.gz", only_tables=True)
  assert second.table.rows == first.table.rows
  assert "document_frequency:file#" in second.table.signature


def test_score_files_with_baseline_paper(paths, tmp_path, monkeypatch):
  monkeypatch.setattr(papers, "XM3600_IMAGES", of_images(_REFERENCES))
  table = score_files(*paths, tmp_path / "out", baseline="paper", only_tables=True).table
  assert list(table.beside) == [f"{model} (paper)" for model in papers.MODELS]
  # Thapliyal et al. (2022), Table 8.
  assert table.beside["BB+CC (paper)"]["en"] == 0.584
  assert "were not published" in table.notes[0]


@pytest.mark.parametrize(
  "options, models, french, note",
  [
    ({"protocol": "centurio", "baseline": "centurio"}, 4, 0.713, "four of the 27 systems"),
    ({"protocol": "xm3600", "baseline": "gemini"}, 3, 0.779, "that are not public"),
    ({"baseline": "gemini"}, 3, 0.779, "that are not public"),
  ],
)
def test_score_files_with_published_scores_of_a_protocol(
  tmp_path, monkeypatch, options, models, french, note
):
  references = {"k1": {"fr": ["un chien"], "cs": ["pes"]}, "k2": {"fr": ["deux chats"], "cs": ["kočky"]}}
  monkeypatch.setattr(papers, "XM3600_IMAGES", of_images(references))
  path = files.captions(tmp_path / "r.jsonl", references)
  table = score_files(path, path, tmp_path / "out", only_tables=True, **options).table
  assert len(table.beside) == models
  column = next(iter(table.beside.values()))
  assert column["fr"] == pytest.approx(french) and ("cs" in column) == (models == 4)
  assert sum(note in line for line in table.notes) == 1


def test_score_files_with_a_baseline_folder(paths, tmp_path):
  first = score_files(*paths, tmp_path / "first")
  (tmp_path / "first" / "scores.npz").unlink()  # its tables are enough
  table = score_files(*paths, tmp_path / "second", baseline=tmp_path / "first", only_tables=True).table
  column = table.beside["first (CIDEr-D)"]
  assert column["en"] == first.table.rows["en"]["cider_d"]
  assert column["2 languages"] == pytest.approx(first.table.means["2 languages"]["cider_d"])
  assert table.notes == ()


def test_health_csv_has_no_wrong_language_of_unsupported_languages():
  health = score({"k": {"mi": ["he kurī"]}}, {"k": {"mi": "ngeru"}}, health=True).health
  (row,) = csv.DictReader(io.StringIO(output.health_csv(health)))
  assert row["language"] == "mi" and row["wrong_language"] == "" and row["empty"] == "0.0"


def test_score_files_is_deterministic_for_any_hash_seed_and_processes(paths, tmp_path):
  script = (
    "import sys\nfrom xmcap.scoring import score_files\n"
    "score_files(*sys.argv[1:4], processes=int(sys.argv[4]), metrics=('all',), bootstrap=30, health=True,"
    " save_document_frequencies=sys.argv[3] + '/df.gz')"
  )
  other, own = tmp_path / "other", tmp_path / "own"
  seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
  environment = {**os.environ, "PYTHONHASHSEED": seed}
  subprocess.run([sys.executable, "-c", script, *paths, other, "2"], check=True, env=environment)
  score_files(
    *paths,
    own,
    metrics=("all",),
    bootstrap=30,
    health=True,
    save_document_frequencies=own / "df.gz",
    processes=1,
  )
  outputs = [{file.name: file.read_bytes() for file in out.iterdir()} for out in (other, own)]
  assert outputs[0].keys() == {*_FILES, "df.gz"}
  assert outputs[0] == outputs[1]


def test_failed_report_keeps_old_results(paths, tmp_path, monkeypatch):
  out = tmp_path / "out"
  score_files(*paths, out, title="old", health=True)
  (out / "thesis.tex").write_text("mine")
  before = _contents(out)

  def failing(*arguments, **options):
    raise XmcapError("no more")

  monkeypatch.setattr("xmcap.pages.report.write_report", failing)
  options = {"title": "new", "save_document_frequencies": out / "df"}
  assert "no more" in refusal(score_files, *paths, out, error=XmcapError, **options)
  assert _contents(out) == before


def test_results_of_a_killed_writer_are_completed(paths, tmp_path):
  out = tmp_path / "out"
  score_files(*paths, tmp_path / "new", title="new")
  score_files(*paths, out, title="old", health=True)
  new = sorted(path.name for path in (tmp_path / "new").iterdir())
  # As a kill between two names leaves it: one file has its name, the others wait.
  journal = {"renamed": {}, "removed": [name for name in _FILES if name not in new]}
  for number, name in enumerate(new):
    waiting = f".{name}.{2**22 + 1}.incomplete"
    journal["renamed"][name] = waiting
    (out / (waiting if number else name)).write_bytes((tmp_path / "new" / name).read_bytes())
  (out / ".xmcap.results").write_text(json.dumps(journal))
  assert read_system(out).table.title == "new"
  assert _contents(out) == _contents(tmp_path / "new")
