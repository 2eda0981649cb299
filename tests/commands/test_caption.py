"""`xmcap caption`: which pictures of a folder it takes, and the forms of its captions."""

import csv
import json

import pillow_heif
import pytest

from tests.make import files, images, models
from tests.make.command import xmcap
from xmcap.data.vocabulary import Vocabulary
from xmcap.pages import gallery
from xmcap.reading import image_formats

_HOSTILE = "<script>alert(1)</script> & \"quoted\", '=1'"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return models.captioner(tmp_path_factory.mktemp("captions") / "model")


@pytest.fixture
def caption(model, tmp_path, monkeypatch):
  """Runs the command in a folder with `photos`."""
  monkeypatch.chdir(tmp_path)
  pillow_heif.register_heif_opener()
  images.files("photos", "a.jpg", "B.HEIC", "c.avif", "f.jfif", "more/g.png", color="red", size=(16, 16))
  (tmp_path / "photos/e").write_bytes(images.plain("red"))
  (tmp_path / "photos/._a.jpg").write_bytes(b"\0\5\26\7 of the system")
  return lambda *arguments: xmcap("caption", f"--model_dir={model}", "photos", *arguments)


def keys(result):
  return [json.loads(line)["image/key"] for line in result.out.splitlines()]


def test_caption_takes_every_format_of_a_folder_and_counts_the_rest(caption, tmp_path):
  (tmp_path / "photos/d.tiff").write_bytes(images.plain("red", kind="TIFF"))
  files.lines("photos/notes.txt", "a note")
  files.lines("photos/x.xyz", "no picture")
  said = caption("--json", "--keys=stem").refused("1 of 6 pictures left out", code=1)
  assert keys(said) == ["B", "a", "c", "e", "f"]
  assert "d.tiff': a file in TIFF, which is not read: convert it to JPEG or PNG" in said.err
  assert (
    "photos: no pictures, passed over: 2 files (notes.txt, x.xyz), 1 folder (more); for the pictures in its folders "
    "name 'photos/**/*'\n" in said.err
  )


def test_caption_names_what_a_format_needs(caption, monkeypatch):
  monkeypatch.setattr(image_formats, "optional_formats", lambda: ())
  said = caption("--json", "--keys=stem").refused("2 of 5 pictures left out", code=1)
  assert keys(said) == ["a", "e", "f"]
  assert (
    "B.HEIC': a file in HEIC, which is not read: convert it to JPEG or PNG, or pip install pillow-heif"
    in said.err
  )
  assert (
    "c.avif': a file in AVIF, which is not read: convert it to JPEG or PNG, or pip install -U" in said.err
  )


def test_caption_csv_has_a_row_for_each_picture_and_is_scored_as_the_jsonl(caption, tmp_path, monkeypatch):
  monkeypatch.setattr(Vocabulary, "decode", lambda self, tokens: f'a "{int(tokens[0]) % 7}",\nตู้')
  for name in ("out.csv", "out.jsonl"):
    caption("--languages=en,th", "--keys=stem", f"--out={name}").succeeded()
  text = (tmp_path / "out.csv").read_text(encoding="utf-8")
  rows = list(csv.reader(text.removeprefix("\ufeff").splitlines(keepends=True)))
  assert text.startswith("\ufeffimage/key,en,th\n") and [row[0] for row in rows[1:]] == [
    "B",
    "a",
    "c",
    "e",
    "f",
  ]
  lines = files.rows(tmp_path / "out.jsonl")
  of_csv = [text for row in rows[1:] for text in row[1:]]
  assert of_csv == [line["caption"] for line in lines]
  references = {key: {"en": ['a "1", ตู้'], "th": ['a "2", ตู้']} for key in ("B", "a", "c", "e", "f")}
  files.captions("r.jsonl", references)
  tables = []
  for name in ("csv", "jsonl"):
    xmcap(
      "score", "-r", "r.jsonl", "-p", f"out.{name}", "-o", name, "-m", "chrf", "--no_health", "--only_tables"
    ).succeeded()
    tables.append((tmp_path / name / "table.csv").read_text())
  assert tables[0] == tables[1]


def test_caption_csv_protects_what_a_spreadsheet_would_run(caption, tmp_path, monkeypatch):
  monkeypatch.setattr(Vocabulary, "decode", lambda self, tokens: "=1+1")
  caption("--out=out.csv").succeeded("5 cells begin as formulas do, and have an apostrophe before them")
  assert '"\'=1+1"' in (tmp_path / "out.csv").read_text(encoding="utf-8")


def test_caption_html_is_one_page_without_scripts(caption, tmp_path, monkeypatch):
  monkeypatch.setattr(Vocabulary, "decode", lambda self, tokens: _HOSTILE)
  caption("--languages=en,ar", "--out=out.html").succeeded()
  page = (tmp_path / "out.html").read_text(encoding="utf-8")
  assert page.count('<img src="data:image/jpeg;base64,') == 5 and page.count('lang="ar" dir="rtl">') == 5
  assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quoted&quot;" in page
  assert "content=\"default-src 'none'; img-src data:; style-src 'sha256-" in page and "://" not in page


def test_caption_html_of_too_many_pictures_is_refused(caption, monkeypatch):
  monkeypatch.setattr(gallery, "MOST", 4)
  caption("--out=out.html").refused(
    "--out=out.html: 5 pictures are too many for a page: name at most 4, or give .jsonl"
  )
