"""`xmcap human annotate` and `annotations`: what they print and write, and what is wrong in one line."""

import json

import pytest
from PIL import Image

from xmcap import cli
from xmcap.data import records


def _write(path, rows):
  path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _row(key, **more):
  return {"image/key": key, "language": "zh", **more}


def _annotation(key, annotator, caption="一只小狗"):
  suggested = {"sentences": ["一只狗"], "tags": ["狗"]}
  events = [{"time": 1, "event": "copy_sentence", "text": "一只狗"}]
  what = {"caption": caption, "tags": ["狗"], "suggested": suggested, "events": events}
  return _row(key, image=f"{key}.png", annotator=annotator, **what)


@pytest.fixture
def human(tmp_path, monkeypatch):
  """Runs the command in a folder with two photos, sentences and tags."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / "photos").mkdir()
  for name in ("a", "b"):
    Image.new("RGB", (60, 40), "red").save(tmp_path / "photos" / f"{name}.png")
  _write(
    tmp_path / "s.jsonl", [_row("a", caption="一只狗"), _row("a", caption="一只猫"), _row("x", caption="车")]
  )
  _write(tmp_path / "t.jsonl", [_row("a", tags=["狗", "椅子"]), _row("b", tags=["猫"])])
  _write(tmp_path / "other.jsonl", [_row("x", caption="车")])
  (tmp_path / "bad.jsonl").write_text('{"image/key": "a"}\n')
  (tmp_path / "empty").mkdir()
  return lambda *arguments: cli.main(["human", *arguments])


def test_a_page_is_made_and_summed_up(human, capsys, tmp_path):
  assert (
    human("annotate", "--images=photos", "--language=zh", "--sentences=s.jsonl", "--tags=t.jsonl", "--out=o")
    == 0
  )
  assert capsys.readouterr().out.splitlines() == [
    "o/annotate.html: 2 pictures, Chinese, 2 suggested sentences, 3 suggested tags",
    "--sentences: suggestions left out, as --images lacks the picture: 1 picture (x)",
    "--sentences: no suggestion for 1 of 2 pictures",
    "when people have saved: xmcap human annotations FILE.jsonl --out=DIR",
  ]
  assert {path.name for path in (tmp_path / "o").iterdir()} == {"annotate.html"}


def test_a_page_needs_no_suggestions(human, capsys):
  assert human("annotate", "--images", "photos/a.png", "photos/b.png", "--language=pt-BR", "--out=o") == 0
  assert "2 pictures, Portuguese (Brazil), 0 suggested sentences, 0 suggested tags" in capsys.readouterr().out


def test_annotations_become_figures_and_a_corpus_that_builds(human, capsys, tmp_path):
  _write(tmp_path / "anna.jsonl", [_annotation("a", "anna"), _annotation("b", "anna")])
  _write(tmp_path / "bo.jsonl", [_annotation("a", "bo", "小狗")])
  assert human("annotations", "anna.jsonl", "bo.jsonl", "--out=o") == 0
  shown = capsys.readouterr().out
  assert "Agreement on tags" in shown and "o: captions.jsonl, tags.jsonl, zh.tsv, 3 sentences" in shown
  assert {path.name for path in (tmp_path / "o").iterdir()} == {
    "annotations.json", "annotations.md", "annotations.tex", "annotations.csv", "tag_agreement.csv",
    "begun_and_own.csv", "accepted_tags.csv", "edit_distances.csv", "suggestion_places.csv",
    "captions.jsonl", "tags.jsonl", "zh.tsv",
  }  # fmt: skip
  assert json.loads((tmp_path / "o/annotations.json").read_text())["work"][0]["distance_begun"] == 1.0
  build = ["data", "build", "folder", "--captions=o/captions.jsonl", "--images=photos", "--out=corpus"]
  assert cli.main([*build, "--splits=train:1", "--processes=1"]) == 0
  found = {
    record.key: [caption.text for caption in record.captions]
    for record in records.RecordSource("corpus", "train")
  }
  assert found == {"a": ["一只小狗", "小狗"], "b": ["一只小狗"]}


@pytest.mark.parametrize(
  "arguments, message",
  [
    (["annotate", "--images=photos", "--language=xx1", "--out=o"], "unknown language 'xx1'"),
    (["annotate", "--images=empty", "--language=zh", "--out=o"], "empty: no pictures in this folder"),
    (["annotate", "--images=no", "--language=zh", "--out=o"], "no: cannot be read"),
    (["annotate", "--images=photos", "--language=de", "--sentences=s.jsonl", "--out=o"], "s.jsonl: no sentence in de"),
    (["annotate", "--images=photos", "--language=zh", "--sentences=other.jsonl", "--out=o"], "of its 1 picture (x)"),
    (["annotate", "--images=photos", "--language=zh", "--tags=bad.jsonl", "--out=o"], "line 1: 'tags' is missing"),
    (["annotate", "--images=photos", "--language=zh"], "required: --out"),
    (["annotations", "no.jsonl", "--out=o"], "no.jsonl: cannot be read"),
    (["annotations", "bad.jsonl", "--out=o"], "bad.jsonl, line 1: no annotation (Object missing required field"),
  ],
)  # fmt: skip
def test_bad_usage_is_one_line_and_exits_2(human, capsys, tmp_path, arguments, message):
  assert human(*arguments) == 2
  error = capsys.readouterr().err
  assert error.startswith("xmcap: error: ") and error.count("\n") == 1 and message in error
  assert not (tmp_path / "o").exists()


def test_annotations_are_not_written_over_what_is_read(human, capsys, tmp_path):
  (tmp_path / "o").mkdir()
  _write(tmp_path / "o/captions.jsonl", [_annotation("a", "anna")])
  assert human("annotations", "o/captions.jsonl", "--out=o") == 2
  assert "would overwrite the input" in capsys.readouterr().err
