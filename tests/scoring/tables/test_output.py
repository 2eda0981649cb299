import csv
import io
import json
import os
import subprocess
import sys

import pytest

from xmcap import papers
from xmcap.digests import of_images
from xmcap.errors import UsageError, XmcapError
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


@pytest.fixture
def files(tmp_path):
  references, predictions = tmp_path / "captions.jsonl", tmp_path / "given.jsonl"
  references.write_text(
    "".join(
      json.dumps(
        {"image/key": key, "image/locale": "th"}
        | {code: {"caption": texts} for code, texts in captions.items()}
      )
      + "\n"
      for key, captions in _REFERENCES.items()
    )
  )
  write_predictions(predictions, _PREDICTIONS.items())
  return references, predictions


def test_score_files_writes_all_outputs(files, tmp_path):
  result = score_files(*files, tmp_path / "out", title="t", health=True)
  assert sorted(os.listdir(tmp_path / "out")) == _FILES
  assert result.table == score(_REFERENCES, _PREDICTIONS, title="t", health=True).table
  assert json.loads((tmp_path / "out" / "table.json").read_text())["languages"] == result.table.rows
  assert read_predictions(tmp_path / "out" / "predictions.jsonl") == _PREDICTIONS
  assert read_system(tmp_path / "out").table.rows == result.table.rows


def test_only_tables_writes_four_tables(files, tmp_path):
  score_files(*files, tmp_path / "out", only_tables=True)
  assert sorted(os.listdir(tmp_path / "out")) == [f"table.{end}" for end in ("csv", "json", "md", "tex")]


def test_slices_csv_has_locales(files, tmp_path):
  score_files(*files, tmp_path / "out")
  rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "slices.csv").read_text())))
  assert {row["slice"] for row in rows} >= {"group:english", "script:Thai", "locale:th"}


@pytest.mark.parametrize("through", ["out", "link"])
def test_score_files_keeps_given_predictions_in_the_output_folder(files, tmp_path, through):
  references, predictions = files
  (tmp_path / "out").mkdir()
  (tmp_path / "link").symlink_to(tmp_path / "out")
  predictions = predictions.rename(tmp_path / "out" / "predictions.jsonl")
  content = predictions.read_bytes()
  score_files(references, tmp_path / through / "predictions.jsonl", tmp_path / "out", languages=["en"])
  assert predictions.read_bytes() == content


def test_score_files_replaces_predictions_of_an_earlier_run(files, tmp_path):
  score_files(*files, tmp_path / "out")
  score_files(*files, tmp_path / "out", languages=["en"])
  assert read_predictions(tmp_path / "out" / "predictions.jsonl") == {
    key: {"en": captions["en"]} for key, captions in _PREDICTIONS.items()
  }


def test_mismatched_references_and_predictions_name_both_files(files, tmp_path):
  references, predictions = files
  write_predictions(predictions, [("k1", {"en": "a"})])
  with pytest.raises(UsageError, match=r"given.jsonl, scored against .*captions.jsonl: 4 of 5 predictions"):
    score_files(references, predictions, tmp_path / "out")
  assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
  "option", [{"missing": "drop"}, {"subset": "xm600"}, {"metrics": "cidr"}, {"baseline": "absent"}]
)
def test_options_are_checked_before_files_are_read(tmp_path, option):
  with pytest.raises(UsageError) as caught:
    score_files("no references", "no predictions", tmp_path / "out", **option)
  assert "no references" not in str(caught.value) and "no predictions" not in str(caught.value)


@pytest.mark.parametrize(
  "options, left",
  [
    (
      {"health": True},
      ["captions.csv", "health.csv", "health.md", "report.html", "scores.npz", "slices.csv"],
    ),
    ({}, ["captions.csv", "report.html", "scores.npz", "slices.csv"]),
    ({"only_tables": True}, []),
  ],
)
def test_score_files_removes_outputs_of_an_earlier_run(files, tmp_path, options, left):
  score_files(*files, tmp_path / "out", health=True)
  score_files(*files, tmp_path / "out", **options)
  tables = [f"table.{end}" for end in ("csv", "json", "md", "tex")]
  assert sorted(os.listdir(tmp_path / "out")) == sorted([*left, "predictions.jsonl", *tables])


def test_files_of_somebody_else_are_not_removed(files, tmp_path):
  (tmp_path / "out").mkdir()
  (tmp_path / "out" / "report.html").write_text("mine")
  score_files(*files, tmp_path / "out", only_tables=True)
  assert (tmp_path / "out" / "report.html").read_text() == "mine"


def test_unremovable_output_is_one_line(files, tmp_path):
  score_files(*files, tmp_path / "out", only_tables=True)
  (tmp_path / "out" / "scores.npz").mkdir()
  with pytest.raises(XmcapError, match="scores.npz: cannot be removed"):
    score_files(*files, tmp_path / "out", only_tables=True)


def test_missing_folder_of_images_is_refused(files, tmp_path):
  with pytest.raises(UsageError, match="no such folder of images"):
    score_files(*files, tmp_path / "out", images_dir=tmp_path / "absent")


def test_a_language_given_for_coco_is_scored_alone(files, tmp_path):
  (tmp_path / "en.json").write_text(
    json.dumps([{"image_id": key, "caption": captions["en"]} for key, captions in _PREDICTIONS.items()])
  )
  result = score_files(files[0], tmp_path / "en.json", tmp_path / "out", language="en", only_tables=True)
  assert result.table.rows == {"en": score(_REFERENCES, _PREDICTIONS).table.rows["en"]}


def test_document_frequencies_are_saved_and_used(files, tmp_path):
  first = score_files(*files, tmp_path / "1", save_document_frequencies=tmp_path / "df.gz", only_tables=True)
  second = score_files(*files, tmp_path / "2", document_frequencies=tmp_path / "df.gz", only_tables=True)
  assert second.table.rows == first.table.rows
  assert "document_frequency:file#" in second.table.signature


def test_score_files_refuses_baseline_paper_for_other_images(files, tmp_path):
  with pytest.raises(UsageError, match="the baseline 'paper' has scores on the 3,600 pictures of XM3600"):
    score_files(*files, tmp_path / "out", baseline="paper", only_tables=True)


def test_score_files_with_baseline_paper(files, tmp_path, monkeypatch):
  monkeypatch.setattr(papers, "XM3600_IMAGES", of_images(_REFERENCES))
  table = score_files(*files, tmp_path / "out", baseline="paper", only_tables=True).table
  assert list(table.beside) == [f"{model} (paper)" for model in papers.MODELS]
  # Thapliyal et al. (2022), Table 8.
  assert table.beside["BB+CC (paper)"]["en"] == 0.584
  assert "were not published" in table.notes[0]


@pytest.mark.parametrize(
  "options, models, french, note",
  [
    ({"protocol": "centurio"}, 4, 0.713, "four of the 27 systems"),
    ({"protocol": "xm3600"}, 3, 0.779, "that are not public"),
    ({}, 3, 0.779, "that are not public"),
  ],
)
def test_score_files_with_published_scores_of_a_protocol(
  tmp_path, monkeypatch, options, models, french, note
):
  references = {"k1": {"fr": ["un chien"], "cs": ["pes"]}, "k2": {"fr": ["deux chats"], "cs": ["kočky"]}}
  monkeypatch.setattr(papers, "XM3600_IMAGES", of_images(references))
  (tmp_path / "r.jsonl").write_text(
    "".join(
      json.dumps({"image/key": key, "language": code, "caption": captions}) + "\n"
      for key, held in references.items()
      for code, captions in held.items()
    )
  )
  baseline = "centurio" if "centurio" in options.values() else "gemini"
  files = (tmp_path / "r.jsonl",) * 2
  table = score_files(*files, tmp_path / "out", baseline=baseline, only_tables=True, **options).table
  assert len(table.beside) == models
  column = next(iter(table.beside.values()))
  assert column["fr"] == pytest.approx(french) and ("cs" in column) == (models == 4)
  assert sum(note in line for line in table.notes) == 1


def test_score_files_with_a_baseline_folder(files, tmp_path):
  first = score_files(*files, tmp_path / "first")
  (tmp_path / "first" / "scores.npz").unlink()  # its tables are enough
  table = score_files(*files, tmp_path / "second", baseline=tmp_path / "first", only_tables=True).table
  column = table.beside["first (CIDEr-D)"]
  assert column["en"] == first.table.rows["en"]["cider_d"]
  assert column["2 languages"] == pytest.approx(first.table.means["2 languages"]["cider_d"])
  assert table.notes == ()


def test_health_csv_has_no_wrong_language_of_unsupported_languages():
  health = score({"k": {"mi": ["he kurī"]}}, {"k": {"mi": "ngeru"}}, health=True).health
  (row,) = csv.DictReader(io.StringIO(output.health_csv(health)))
  assert row["language"] == "mi" and row["wrong_language"] == "" and row["empty"] == "0.0"


def test_score_files_is_deterministic_for_any_hash_seed_and_processes(files, tmp_path):
  script = (
    "import sys\nfrom xmcap.scoring import score_files\n"
    "score_files(*sys.argv[1:4], processes=int(sys.argv[4]), metrics=('all',), bootstrap=30, health=True,"
    " save_document_frequencies=sys.argv[3] + '/df.gz')"
  )
  other, own = tmp_path / "other", tmp_path / "own"
  seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
  environment = {**os.environ, "PYTHONHASHSEED": seed}
  subprocess.run([sys.executable, "-c", script, *files, other, "2"], check=True, env=environment)
  score_files(
    *files,
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


def test_failed_report_keeps_old_results(files, tmp_path, monkeypatch):
  out = tmp_path / "out"
  score_files(*files, out, title="old", health=True)
  (out / "thesis.tex").write_text("mine")
  before = {path.name: path.read_bytes() for path in out.iterdir()}

  def failing(*arguments, **options):
    raise XmcapError("no more")

  monkeypatch.setattr("xmcap.pages.report.write_report", failing)
  with pytest.raises(XmcapError, match="no more"):
    score_files(*files, out, title="new", save_document_frequencies=out / "df")
  assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_results_of_a_killed_writer_are_completed(files, tmp_path):
  out = tmp_path / "out"
  score_files(*files, tmp_path / "new", title="new")
  score_files(*files, out, title="old", health=True)
  new = sorted(path.name for path in (tmp_path / "new").iterdir())
  # As a kill between two names leaves it: one file has its name, the others wait.
  journal = {"renamed": {}, "removed": [name for name in _FILES if name not in new]}
  for number, name in enumerate(new):
    waiting = f".{name}.{2**22 + 1}.incomplete"
    journal["renamed"][name] = waiting
    (out / (waiting if number else name)).write_bytes((tmp_path / "new" / name).read_bytes())
  (out / ".xmcap.results").write_text(json.dumps(journal))
  assert read_system(out).table.title == "new"
  assert {path.name: path.read_bytes() for path in out.iterdir()} == {
    path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()
  }
