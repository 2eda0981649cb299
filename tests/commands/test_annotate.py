"""`xmcap human annotate` and `annotations`: what they print and write, and what is wrong in one line."""

import json

import pillow_heif
import pytest

from tests.make import files, images
from tests.make.command import xmcap
from xmcap.commands import annotate
from xmcap.data import records
from xmcap.human import annotation_page
from xmcap.human.annotation_procedures import PROCEDURES


def _row(key, **more):
  return {"image/key": key, "language": "zh", **more}


def _annotation(key, annotator, caption="一只小狗"):
  suggested = {"sentences": ["一只狗"], "tags": ["狗"]}
  events = [{"time": 1, "event": "copy_sentence", "text": "一只狗"}]
  what = {"caption": caption, "tags": ["狗"], "suggested": suggested, "events": events}
  return _row(key, image=f"{key}.png", annotator=annotator, **what)


_XM3600 = ["annotate", "--images=photos", "--language=zh", "--procedure=xm3600"]


@pytest.fixture
def human(tmp_path, monkeypatch):
  """Runs the command in a folder with two photos, sentences and tags."""
  monkeypatch.chdir(tmp_path)
  images.files("photos", "a.png", color="red", size=(60, 40))
  images.files("photos", "b.png", color="blue", size=(60, 40))
  files.jsonl("s.jsonl", _row("a", caption="一只狗"), _row("a", caption="一只猫"), _row("x", caption="车"))
  files.jsonl("t.jsonl", _row("a", tags=["狗", "椅子"]), _row("b", tags=["猫"]))
  files.jsonl("other.jsonl", _row("x", caption="车"))
  files.jsonl("bad.jsonl", {"image/key": "a"})
  files.jsonl("long.jsonl", _row("a", caption="狗" * 2_001))
  files.jsonl("long_tag.jsonl", _row("a", tags=["\U0001f436" * 101]))
  (tmp_path / "empty").mkdir()
  files.lines("blank.txt", "", " ")
  return lambda *arguments: xmcap("human", *arguments)


def test_human_annotate_writes_a_page_and_a_summary(human, tmp_path):
  suggestions = ["--sentences=s.jsonl", "--tags=t.jsonl"]
  made = human("annotate", "--images=photos", "--language=zh", *suggestions, "--out=o")
  assert made.succeeded().out.splitlines() == [
    "o/annotate.html: 2 pictures, Chinese, 2 suggested sentences, 3 suggested tags",
    "--sentences: suggestions left out, as --images lacks the picture: 1 picture (x)",
    "--sentences: no suggestion for 1 of 2 pictures",
    "when people have saved: xmcap human annotations FILE.jsonl --out=DIR",
  ]
  assert {path.name for path in (tmp_path / "o").iterdir()} == {"annotate.html"}


def test_human_annotate_without_suggestions(human):
  made = human("annotate", "--images", "photos/a.png", "photos/b.png", "--language=pt-BR", "--out=o")
  made.succeeded("2 pictures, Portuguese (Brazil), 0 suggested sentences, 0 suggested tags")


def test_human_annotations_writes_figures_and_a_corpus(human, tmp_path):
  files.jsonl("anna.jsonl", _annotation("a", "anna"), _annotation("b", "anna"))
  files.jsonl("bo.jsonl", _annotation("a", "bo", "小狗"))
  report = human("annotations", "anna.jsonl", "bo.jsonl", "--out=o")
  report.succeeded("Agreement on tags", "o: captions.jsonl, tags.jsonl, zh.tsv, 3 sentences")
  assert {path.name for path in (tmp_path / "o").iterdir()} == {
    "annotations.json", "annotations.md", "annotations.tex", "annotations.csv", "tag_agreement.csv",
    "edits.csv", "recommended_tags.csv", "accepted_tags.csv", "edit_distances.csv", "suggestion_places.csv",
    "captions.jsonl", "tags.jsonl", "zh.tsv", "coverage.json", "coverage.md", "coverage.tex", "coverage.csv",
  }  # fmt: skip
  assert json.loads((tmp_path / "o/annotations.json").read_text())["work"][0]["distance"] == 1.0
  build = [
    "--captions=o/captions.jsonl",
    "--images=photos",
    "--out=corpus",
    "--splits=train:1",
    "--processes=1",
  ]
  xmcap("data", "build", "folder", *build).succeeded()
  found = {
    record.key: [caption.text for caption in record.captions]
    for record in records.RecordSource("corpus", "train")
  }
  assert found == {"a": ["一只小狗", "小狗"], "b": ["一只小狗"]}


def test_human_annotate_takes_every_format_of_a_folder(human, tmp_path):
  pillow_heif.register_heif_opener()
  images.files("photos", "c.HEIC", "d.avif", color="red", size=(60, 40))
  made = human("annotate", "--images=photos", "--language=zh", "--out=o")
  made.succeeded("o/annotate.html: 4 pictures")
  (tmp_path / "photos/e.tiff").write_bytes(images.plain("red", kind="TIFF"))
  refused = human("annotate", "--images=photos", "--language=zh", "--out=p")
  refused.refused(
    "1 of 5 pictures cannot be read (e.tiff: a file in TIFF, which is not read: convert it to JPEG or PNG)"
  )


def test_human_annotate_offers_every_procedure():
  assert tuple(PROCEDURES) == annotate._PROCEDURES


def test_human_annotate_assigns_images_and_reads_references_back(human, tmp_path):
  files.captions("m.jsonl", {"a": {"en": "a dog"}, "b": {"en": "a cat"}})
  made = human(*_XM3600, "--sentences=m.jsonl", "--out=o", "--annotators", "anna", "bo", "--batch=1")
  assert made.succeeded().out.splitlines() == [
    "o/anna/annotate.html: 2 pictures, Chinese, 2 captions in en to rate",
    "o/bo/annotate.html: 2 pictures, Chinese, 2 captions in en to rate",
    "when people have saved: xmcap human annotations FILE.jsonl --assignment=o/assignment.jsonl --out=DIR",
  ]
  rated = {"language": "en", "caption": "a dog", "rating": "GOOD"}
  rated = {"rated": rated, "tags": [], "suggested": {"sentences": [], "tags": []}}
  files.jsonl("anna.jsonl", *({**_annotation(key, "anna"), **rated} for key in "ab"))
  files.jsonl("bo.jsonl", {**_annotation("a", "bo", "小狗"), **rated})
  report = human("annotations", "anna.jsonl", "bo.jsonl", "--assignment=o/assignment.jsonl", "--out=r")
  report.succeeded("r: captions.jsonl, zh.tsv, 3 sentences")
  coverage = json.loads((tmp_path / "r/coverage.json").read_text())
  assert [(row["annotator"], row["assigned"], row["missing"]) for row in coverage["done"]] == [
    ("anna", 2, 0), ("bo", 2, 1), ("all", 4, 1)
  ]  # fmt: skip
  assert json.loads((tmp_path / "r/caption_ratings.json").read_text())["ratings"][0]["shares"]["GOOD"] == 100
  files.captions("p.jsonl", dict.fromkeys("ab", {"zh": "一只小狗"}))
  files_of_score = ["--references=r/captions.jsonl", "--predictions=p.jsonl", "--out=s"]
  xmcap("score", *files_of_score, "--metrics=bleu_1").succeeded()
  assert (tmp_path / "s/table.csv").read_text().splitlines()[1].startswith("zh,")


def _tree(folder):
  return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_human_annotate_leaves_no_page_of_an_earlier_call(human, tmp_path, monkeypatch):
  zh = ["annotate", "--images=photos", "--language=zh", "--out=o"]
  human(*zh, "--annotators", "anna", "bo").succeeded()
  files.lines("o/bo/saved.jsonl", "mine")
  assert _tree(tmp_path / "o") == {
    "anna/annotate.html",
    "bo/annotate.html",
    "bo/saved.jsonl",
    "assignment.jsonl",
  }
  monkeypatch.setattr(annotation_page, "MOST_EMBEDDED", 1)
  human(*zh, "--annotators", "anna", "chen", "--replication=2").succeeded(
    "removed, as nobody is to use them any more: o/bo/annotate.html"
  )
  own = {f"{name}/{file}" for name in ("anna", "chen") for file in ("annotate.html", *_PICTURES)}
  assert _tree(tmp_path / "o") == {"bo/saved.jsonl", "assignment.jsonl", *own}
  human(*zh).succeeded("any more: o/anna/annotate.html, o/chen/annotate.html")
  assert _tree(tmp_path / "o") == {"bo/saved.jsonl", "annotate.html", *_PICTURES}
  assert not (tmp_path / "o/chen").exists()


def test_human_annotate_keeps_pictures_of_an_earlier_page_that_are_its_input(human, tmp_path, monkeypatch):
  zh = ["annotate", "--images=photos", "--language=zh", "--out=o"]
  monkeypatch.setattr(annotation_page, "MOST_EMBEDDED", 1)
  human(*zh, "--annotators", "anna", "bo", "--replication=2").succeeded()
  before = _tree(tmp_path / "o")
  for folder, new in (("o/bo", "anna"), ("o/bo", "bo")):
    again = human("annotate", f"--images={folder}/pictures", "--language=zh", "--out=o", "--annotators", new)
    again.refused(f"{folder}/pictures: would overwrite the input --images")
  assert _tree(tmp_path / "o") == before


_PICTURES = ("pictures/000000.jpg", "pictures/000001.jpg")


def test_human_annotate_that_fails_at_the_last_page_changes_none(human, tmp_path):
  zh = ["annotate", "--images=photos", "--language=zh", "--out=o"]
  human(*zh, "--annotators", "anna", "bo").succeeded()
  before = {name: (tmp_path / "o" / name).read_bytes() for name in _tree(tmp_path / "o")}
  images.files("photos", "c.png", color="red", size=(60, 40))
  (tmp_path / "photos/z.png").write_bytes(b"no picture")
  human(*zh, "--annotators", "anna", "bo").refused("1 of 2 pictures cannot be read (z.png")
  assert {name: (tmp_path / "o" / name).read_bytes() for name in _tree(tmp_path / "o")} == before


@pytest.mark.parametrize(
  "arguments, message",
  [
    ("annotate --images=photos --language=xx1 --out=o", "unknown language 'xx1'"),
    ("annotate --images=empty --language=zh --out=o", "empty: no pictures in this folder"),
    ("annotate --images=no --language=zh --out=o", "no: cannot be read"),
    ("annotate --images=photos --language=de --sentences=s.jsonl --out=o", "s.jsonl: no sentence in de"),
    ("ZH --sentences=other.jsonl --out=o", "of its 1 picture (x)"),
    ("ZH --tags=bad.jsonl --out=o", "line 1: 'tags' is missing"),
    ("ZH", "required: --out"),
    ("ZH --procedure=xm3600 --out=o", "needs --sentences=FILE: captions by a machine"),
    ("ZH --procedure=xm3600 --sentences=s.jsonl --out=o", "s.jsonl: no sentence in en"),
    ("ZH --procedure=xm3600 --sentences=s.jsonl --rated_language=zh --out=o", "1 of 2 pictures have no caption in zh"),
    ("ZH --rated_language=zh --out=o", "--rated_language has no use: nothing is rated"),
    ("ZH --annotators a b c --out=o", "3 are too many for 2 pictures and --replication=1"),
    ("ZH --procedure=xm3600 --sentences=s.jsonl --tags=t.jsonl --out=o", "--tags: people write no tags"),
    ("ZH --batch=2 --out=o", "--batch has no use: nothing is rated by --procedure=coco-cn"),
    ("ZH --replication=2 --out=o", "--replication needs --annotators"),
    ("ZH --guidelines=blank.txt --out=o", "blank.txt: 0 lines of guidelines"),
    ("ZH --annotators a --replication=2 --out=o", "needs as many --annotators, who are 1"),
    ("ZH --annotators a A --out=o", "'a' is named twice"),
    ("ZH --annotators ../a --out=o", "'../a' cannot name a folder"),
    ("ZH --annotators a. b --out=o", "'a.' cannot name a folder"),
    *(
      (f"ZH --annotators {name} b --out=o", f"'{name}' is the name of something else here")
      for name in ("all", "All", "pictures", "assignment.jsonl", "CON", "aux.1")
    ),
    ("ZH --sentences=long.jsonl --out=o", "long.jsonl: a sentence of 'a' has 2,001 characters; the page takes 2,000"),
    ("ZH --tags=long_tag.jsonl --out=o", "long_tag.jsonl: a tag of 'a' has 202 characters; the page takes 200"),
    ("annotations s.jsonl --assignment=s.jsonl --out=o", "s.jsonl: these are captions: xmcap score"),
    ("annotations no.jsonl --out=o", "no.jsonl: cannot be read"),
    ("annotations bad.jsonl --out=o", "bad.jsonl, line 1: no annotation (Object missing required field"),
  ],
)  # fmt: skip
def test_human_annotate_usage_errors_are_one_line(human, tmp_path, arguments, message):
  human(*arguments.replace("ZH", "annotate --images=photos --language=zh").split()).refused(message)
  assert not (tmp_path / "o").exists()


def test_human_annotations_do_not_overwrite_an_input(human):
  files.jsonl("o/captions.jsonl", _annotation("a", "anna"))
  human("annotations", "o/captions.jsonl", "--out=o").refused("would overwrite the input")


def test_human_annotations_draws_for_inspection_and_leaves_out_who_failed_three_times(human, tmp_path):
  files.jsonl("anna.jsonl", *(_annotation(f"a{n}", "anna") for n in range(20)))
  files.jsonl("bo.jsonl", _annotation("a", "bo", "大猫"))
  files.lines("watched.txt", "bo", "anna", "bo", "bo")
  both = ["annotations", "anna.jsonl", "bo.jsonl", "--out=o", "--inspect=10"]
  human(*both).succeeded()
  rows = (tmp_path / "o/inspection.tsv").read_text().splitlines()
  assert [row.split("\t")[1] for row in rows] == ["anna", "anna", "bo"]
  said = human(*both, "--watch_list=watched.txt").succeeded("20 sentences").out
  assert "watch list: anna 1, bo 3 (out at 3): 1 annotations left out" in said
  assert "大猫" not in (tmp_path / "o/captions.jsonl").read_text()
  files.lines("watched.txt", "bob")
  human(*both, "--watch_list=watched.txt").refused("'bob' has no annotation in the files")
  files.jsonl("bo.jsonl", _annotation("a", "Zoe\u0308 B"))
  files.lines("watched.txt", "Zoë  B", "Zoe\u0308\u00a0B")  # as another system writes it
  human(*both, "--watch_list=watched.txt").succeeded("watch list: Zoë B 2")
